"""Instructions with answers, which SPAG imitates beside games (Cheng et al., 2024)."""

import numpy as np

from cory.config import InstructionsConfig, require
from cory.seeding import EpochSampler
from cory.tasks.imdb import package_reviews
from cory.tasks.subsets import hash_of
from cory.tasks.tables import rows_of

REVIEWS = "lm"  # part of the movie reviews that replaces instruction data offline
PROMPT_WORDS = 12  # first words of a review, shown as the instruction
ANSWER_WORDS = 24  # words after them, imitated as the answer
KEY = "algorithm.instructions"


class Instructions:
    """Prompts and answers of instruction data in random order, each once per epoch."""

    def __init__(self, config: InstructionsConfig, stream: np.random.Generator) -> None:
        self.rows = load_instructions(config)
        self.sampler = EpochSampler(len(self.rows), stream, hash_of(self.rows), KEY)

    def next(self) -> tuple[str, str]:
        """The next prompt and its answer."""
        return self.rows[self.sampler.next()]


def load_instructions(config: InstructionsConfig) -> list[tuple[str, str]]:
    """Every (prompt, answer); rows without an answer are left out."""
    if config.source == "package":
        end = PROMPT_WORDS + ANSWER_WORDS
        texts = [review.text.split() for review in package_reviews(REVIEWS)]
        return [
            (" ".join(words[:PROMPT_WORDS]), " ".join(words[PROMPT_WORDS:end])) for words in texts
        ]
    assert config.path is not None
    names = (config.instruction_column, config.output_column, config.input_column)
    keys = (f"{KEY}.instruction_column", f"{KEY}.output_column", f"{KEY}.input_column")
    columns = {key: name for key, name in zip(keys, names, strict=True) if name is not None}
    key = f"{KEY}.path"
    rows = rows_of(config.source, config.path, config.split, key=key, columns=columns)
    pairs = []
    for row in rows:
        asked, answer, *given = (str(row.values[name] or "").strip() for name in columns.values())
        if asked and answer:
            text = config.input_template if any(given) else config.template
            pairs.append((text.format(instruction=asked, input="".join(given)), answer))
    require(bool(pairs), f"{KEY}: no row of {config.path} has an instruction and an answer")
    return pairs
