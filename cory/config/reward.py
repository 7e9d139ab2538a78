"""Settings of `reward=`."""

from __future__ import annotations

from dataclasses import dataclass

from cory.config.checks import require_at_least, require_choice


@dataclass
class SentimentConfig:
    """Settings of `reward=sentiment`: how positive a classifier finds prompt and response."""

    name: str
    path: str  # sequence-classification checkpoint: hub name, folder or asset:
    label: str  # the class whose output is the score
    output: str  # logit | probability
    batch_size: int  # texts per forward pass

    def __post_init__(self) -> None:
        require_choice("reward.output", self.output, ("logit", "probability"))
        require_at_least("reward.batch_size", self.batch_size, 1)


@dataclass
class ExactMatchConfig:
    """Settings of `reward=exact_match`: 1 for a right answer, else 0."""

    name: str
