"""IMDB: continue the first words of a movie review so that it turns out positive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cory.config import ImdbConfig, require
from cory.episode import Prompt
from cory.tasks.data.epochs import EpochSampler
from cory.tasks.data.reviews import clean, package_reviews
from cory.tasks.data.tables import column, hub_table, local_table

# no run's seed reaches the evaluation prompts: all runs are measured on the same ones
HELD_OUT_SEED = 20_241_001


class ImdbTask:
    """Prompts of 2 to 8 tokens from review beginnings (Ma et al., 4.1)."""

    def __init__(self, config: ImdbConfig, tokenizer: Any, stream: np.random.Generator) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self.stream = stream
        self.parts = {
            part: self._long_enough(load_reviews(config, part), part) for part in ("train", "test")
        }
        self.sampler = EpochSampler(len(self.parts["train"]), stream)
        self.state_dict = self.sampler.state_dict
        self.load_state_dict = self.sampler.load_state_dict

    def sample(self, count: int) -> list[Prompt]:
        """The next prompts: every review once per pass, passes shuffled anew."""
        prompts = []
        for _ in range(count):
            row, text = self.parts["train"][self.sampler.next()]
            prompts.append(self._prompt(f"train-{row}", text, self.stream))
        return prompts

    def held_out(self, count: int | None, split: str) -> list[Prompt]:
        """The first `count` prompts of a split, or all, cut at fixed lengths."""
        reviews = self.parts[split]
        require(
            count is None or count <= len(reviews),
            f"evaluation.prompts ({count}) exceeds the {len(reviews)} {split} reviews",
        )
        stream = np.random.default_rng(HELD_OUT_SEED)
        return [self._prompt(f"{split}-{row}", text, stream) for row, text in reviews[:count]]

    def prompt_of(self, text: str) -> Prompt:
        """The text as it stands: a review's beginning is its own prompt."""
        return Prompt(id="probe", text=text)

    def read(self, response: str) -> None:
        """Nothing: a review may go on in any way."""

    def is_right(self, response: str, answer: str) -> bool:
        """No continuation is the right one; prompts of this task have no answer."""
        return False

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        """The observer's prompt (App. A.2): the completed sentence quoted, then the query again."""
        config = self.config
        quoted = config.answer_separator.join(
            config.answer_template.format(query=query, response=answer) for answer in answers
        )
        return config.observer_template.format(answers=quoted, query=query)

    def _prompt(self, name: str, text: str, stream: np.random.Generator) -> Prompt:
        length = int(
            stream.integers(self.config.min_prompt_tokens, self.config.max_prompt_tokens + 1)
        )
        # a token is at most a few dozen bytes long: the rest of the review need not be read
        ids = self.tokenizer(text[: 40 * length], add_special_tokens=False)["input_ids"][:length]
        return Prompt(id=f"imdb-{name}", text=self.tokenizer.decode(ids))

    def _long_enough(self, reviews: list[tuple[int, str]], part: str) -> list[tuple[int, str]]:
        least = self.config.min_characters
        kept = [(row, text) for row, text in reviews if len(text) >= least]
        require(
            bool(kept),
            f"task.min_characters={least}: no {part} review of task.source={self.config.source} "
            f"is that long",
        )
        return kept


def load_reviews(config: ImdbConfig, part: str) -> list[tuple[int, str]]:
    """(row, text) of every review of a part, `train` or `test`, from the source asked for."""
    if config.source == "package":
        return [(review.row, review.text) for review in package_reviews(part)]
    split = config.train_split if part == "train" else config.test_split
    if config.source == "hub":
        offline = "task.source=package, or task.source=path with a local file"
        table = hub_table(config.path, None, split, offline)
    else:
        table = local_table(config.path, split, (config.text_column,))
    texts = enumerate(column(table, "task.text_column", config.text_column))
    return [(row, clean(str(text))) for row, text in texts if text and str(text).strip()]
