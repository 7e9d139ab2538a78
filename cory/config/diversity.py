"""Settings of what an evaluation measures of the diversity of answers."""

from __future__ import annotations

from dataclasses import dataclass

from cory.config.checks import require, require_at_least, require_choice
from cory.config.model import PRECISIONS


@dataclass
class DiversityConfig:
    """What is measured besides how many agents agree with the vote, and by which models."""

    encoder: str | None  # whose embeddings of responses are compared; None: none are
    scorer: str | None  # whose next-token distributions are compared; None: none are
    kl_to_base: bool  # ... also with those of what the model said before any training
    nll_others: bool  # how likely each agent's model finds what the others said last
    precision: str  # fp32 | bf16 | fp16: weights of encoder and scorer
    batch_size: int  # texts per pass of encoder and scorer
    max_tokens: int  # what they read at most of a text; the scorer reads the question with it

    def __post_init__(self) -> None:
        key = "algorithm.diversity"
        require_choice(f"{key}.precision", self.precision, PRECISIONS)
        for name in ("batch_size", "max_tokens"):
            require_at_least(f"{key}.{name}", getattr(self, name), 1)
        require(
            not self.kl_to_base or self.scorer is not None,
            f"{key}.kl_to_base=true needs a model whose distributions are compared; set "
            f"{key}.scorer",
        )
