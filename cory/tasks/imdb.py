"""IMDB: continue the first words of a movie review so that the review becomes positive."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cory.config import ImdbConfig, require
from cory.episode import Prompt
from cory.tasks import NoAnswers
from cory.tasks.data.epochs import EpochSampler, at_most, hash_of
from cory.tasks.data.reviews import clean, package_reviews
from cory.tasks.data.tables import is_blank, rows_of

# evaluation prompts do not depend on a run's seed: all runs are measured on the same ones
HELD_OUT_SEED = 20_241_001


class ImdbForm(NoAnswers):
    """Beginnings of reviews, to be continued."""

    def __init__(self, config: ImdbConfig) -> None:
        self.config = config

    def prompt_of(self, text: str) -> Prompt:
        """The text unchanged: the beginning of a review is its own prompt."""
        return Prompt(id="probe", text=text)

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        """The completed texts as quotations, then the query again (Ma et al., App. A.2)."""
        config = self.config
        quoted = config.answer_separator.join(
            config.answer_template.format(query=query, response=answer) for answer in answers
        )
        return config.observer_template.format(answers=quoted, query=query)


class ImdbTask(ImdbForm):
    """Prompts of 2 to 8 tokens from review beginnings (Ma et al., 4.1)."""

    form = ImdbForm

    def __init__(self, config: ImdbConfig, tokenizer: Any, stream: np.random.Generator) -> None:
        super().__init__(config)
        self.tokenizer = tokenizer
        self.stream = stream
        self.parts = {
            part: self._long_enough(load_reviews(config, part), part) for part in ("train", "test")
        }
        reviews = (review for part in self.parts.values() for review in part)
        name = f"task.source={config.source}"
        self.sampler = EpochSampler(len(self.parts["train"]), stream, hash_of(reviews), name)
        self.state_dict = self.sampler.state_dict
        self.load_state_dict = self.sampler.load_state_dict

    def sample(self, count: int) -> list[Prompt]:
        """The next training prompts: each review once per epoch, epochs in new random orders."""
        prompts = []
        for _ in range(count):
            row, text = self.parts["train"][self.sampler.next()]
            prompts.append(self._prompt(f"train-{row}", text, self.stream))
        return prompts

    def held_out(self, count: int | None, split: str) -> list[Prompt]:
        """The first `count` prompts of a split, or all; their lengths are the same every time."""
        reviews = self.parts[split]
        count = at_most(count, len(reviews), f"{split} reviews")
        stream = np.random.default_rng(HELD_OUT_SEED)
        return [self._prompt(f"{split}-{row}", text, stream) for row, text in reviews[:count]]

    def _prompt(self, name: str, text: str, stream: np.random.Generator) -> Prompt:
        length = int(
            stream.integers(self.config.min_prompt_tokens, self.config.max_prompt_tokens + 1)
        )
        # a token has at most a few dozen characters: the rest need not be tokenised
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
    """(row, text) of every review of a part, `train` or `test`, from `config.source`."""
    if config.source == "package":
        return [(review.row, review.text) for review in package_reviews(part)]
    split = config.train_split if part == "train" else config.test_split
    column, key = config.text_column, f"task.{part}_split"
    columns = {"task.text_column": column}
    rows = rows_of(config.source, config.path, split, columns=columns, split_key=key)
    texts = enumerate(str(row.values[column] or "") for row in rows)
    return [(row, clean(text)) for row, text in texts if not is_blank(text)]
