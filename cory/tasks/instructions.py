"""Instructions with answers, to be imitated beside games."""

from __future__ import annotations

import numpy as np

from cory.config import InstructionsConfig, require
from cory.tasks.data.epochs import EpochSampler
from cory.tasks.data.reviews import package_reviews
from cory.tasks.data.tables import column, hub_table, local_table

REVIEWS = "lm"  # the part that stands in for instructions offline
SHOWN = 12  # words of a review that ask for the rest of it
TOLD = 24  # words of that rest
KEY = "algorithm.instructions"


class Instructions:
    """Prompts and answers of any instruction data, in random order, each once per pass."""

    def __init__(self, config: InstructionsConfig, stream: np.random.Generator) -> None:
        self.rows = load_instructions(config)
        self.sampler = EpochSampler(len(self.rows), stream)
        self.state_dict = self.sampler.state_dict
        self.load_state_dict = self.sampler.load_state_dict

    def next(self) -> tuple[str, str]:
        """The next prompt and its answer."""
        return self.rows[self.sampler.next()]


def load_instructions(config: InstructionsConfig) -> list[tuple[str, str]]:
    """Every (prompt, answer); rows without an answer are left out."""
    if config.source == "package":
        return [beginning(review.text) for review in package_reviews(REVIEWS)]
    assert config.path is not None
    names = {
        f"{KEY}.instruction_column": config.instruction_column,
        f"{KEY}.output_column": config.output_column,
    }
    if config.input_column is not None:
        names[f"{KEY}.input_column"] = config.input_column
    if config.source == "hub":
        offline = f"{KEY}.source=path with a local file, or {KEY}.source=package"
        table = hub_table(config.path, None, config.split, offline, f"{KEY}.path")
    else:
        table = local_table(config.path, config.split, tuple(names.values()), f"{KEY}.path", False)
    columns = {name: column(table, key, name) for key, name in names.items()}
    inputs = [""] * len(columns[config.instruction_column])
    if config.input_column is not None:
        inputs = columns[config.input_column]
    rows = [
        (prompt_of(config, str(asked), str(about or "")), str(answer).strip())
        for asked, about, answer in zip(
            columns[config.instruction_column], inputs, columns[config.output_column], strict=True
        )
        if answer and str(answer).strip()
    ]
    require(bool(rows), f"{KEY}: no row of {config.path} has an answer")
    return rows


def prompt_of(config: InstructionsConfig, instruction: str, about: str) -> str:
    """An instruction as the model is shown it."""
    if about.strip():
        return config.input_template.format(instruction=instruction.strip(), input=about.strip())
    return config.template.format(instruction=instruction.strip())


def beginning(text: str) -> tuple[str, str]:
    """The first words of a review, and those that follow."""
    words = text.split()
    return " ".join(words[:SHOWN]), " ".join(words[SHOWN : SHOWN + TOLD])
