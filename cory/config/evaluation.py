"""How agents are measured: `evaluation`, and the diversity of answers."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from cory.config.base import Conflict, Count, Settings, Text, Words
from cory.config.model import Weights


class EvaluationConfig(Settings):
    """What every evaluation measures, during training and after it."""

    prompts: Count | None  # the first so many of the split; None: all
    split: Literal["train", "test"]
    samples: Count  # responses per prompt
    k: Annotated[list[Count], Field(min_length=1)]  # pass@k for each; tasks with answers only
    greedy: bool
    team: bool  # also the agents in their roles, each seeing the answers before its own
    probes: list[Words]  # texts that every agent answers at the end, kept in samples.jsonl
    before: bool  # also before the training, with the same prompts and random numbers as after it

    def conflicts(self) -> Iterator[Conflict]:
        if max(self.k) > self.samples:
            yield "k", f"must not exceed evaluation.samples={self.samples}"
        for key in ("k", "probes"):
            values = getattr(self, key)
            if len({*values}) < len(values):
                yield key, "must not name anything twice"


class DiversityConfig(Settings):
    """Measures of diversity beyond agreement with the vote, and the models that compute them."""

    encoder: Text | None  # whose embeddings of responses are compared; None: none are
    scorer: Text | None  # whose next-token distributions are compared; None: none are
    kl_to_base: bool  # ... also with those of what the model said before any training
    nll_others: bool  # how likely each agent's model finds what the others said last
    precision: Weights  # of encoder and scorer
    batch_size: Count  # texts per pass of encoder and scorer
    max_tokens: Count  # what they read at most of a text; the scorer reads the question with it

    needs = {"kl_to_base": "scorer"}  # whose distributions are compared
