"""Settings of `reward=`."""

from dataclasses import dataclass

from cory.config.checks import require_at_least, require_choice
from cory.config.model import ATTENTION, PRECISIONS, PRODUCTS, require_products


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


@dataclass
class VerifierRewardConfig:
    """Settings of `reward=verifier`: how likely a trained verifier finds a response to be right."""

    name: str
    path: str  # folder of a verifier: agents/verifier of a run with algorithm=verifier
    base: str | None  # what an adapter lies on; None: what its folder names
    chat: bool  # questions go through its tokenizer's chat template, as while it was trained
    precision: str  # fp32 | bf16 | fp16
    quantisation: str  # none | nf4: an adapter's base in 4 bits
    double_quantisation: bool  # nf4: its scales in 8 bits
    compute_precision: str  # of matrix products; other than `precision`: fp32 weights, or nf4
    attention: str  # auto | eager | sdpa | flash_attention_2
    batch_size: int  # responses per forward pass

    def __post_init__(self) -> None:
        require_choice("reward.precision", self.precision, PRECISIONS)
        require_choice("reward.compute_precision", self.compute_precision, PRODUCTS)
        require_choice("reward.quantisation", self.quantisation, ("none", "nf4"))
        require_choice("reward.attention", self.attention, ATTENTION)
        require_products("reward", self)
        require_at_least("reward.batch_size", self.batch_size, 1)


@dataclass
class GameOutcomeConfig:
    """Settings of `reward=game_outcome`: 1 for winning a game, -1 for losing it, 0 for a tie."""

    name: str
    broken_rules: str  # ignored | lose: what a game is worth in which the rules were broken

    def __post_init__(self) -> None:
        require_choice("reward.broken_rules", self.broken_rules, ("ignored", "lose"))
