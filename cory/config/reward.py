"""Settings of `reward=`."""

import math
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from cory.config.checks import (
    fields_of,
    renamed,
    require,
    require_at_least,
    require_choice,
    require_fields,
)
from cory.config.model import ATTENTION, PRECISIONS, PRODUCTS, EndpointConfig, require_products


class ModelPrecision(Protocol):
    """In which precision the model of a reward is held and computed, and by which attention."""

    precision: str
    quantisation: str
    compute_precision: str
    attention: str


def require_precision(reward: ModelPrecision) -> None:
    """The rules for the precision of a reward's model."""
    require_choice("reward.precision", reward.precision, PRECISIONS)
    require_choice("reward.compute_precision", reward.compute_precision, PRODUCTS)
    require_choice("reward.quantisation", reward.quantisation, ("none", "nf4"))
    require_choice("reward.attention", reward.attention, ATTENTION)
    require_products("reward", reward)


# rewards that are no part of a sum: one of its own kind, and one that only games have
NO_PARTS = ("sum", "game_outcome")


def require_function_name(key: str, value: str) -> tuple[str, str]:
    """File or module, and name of the function; ConfigError where the text is neither."""
    place, _, name = value.rpartition(":")
    dotted = all(part.isidentifier() for part in place.split("."))
    require(
        name.isidentifier() and (dotted or place.endswith(".py")),
        f"{key} must be <file>.py:<function> or <package.module>:<function>, got '{value}'",
    )
    return place, name


@dataclass
class PythonRewardConfig:
    """Settings of `reward=python`: a function of the user's, called as TRL calls one."""

    name: str
    function: str  # <file>.py:<function> or <package.module>:<function>

    def __post_init__(self) -> None:
        require_function_name("reward.function", self.function)


@dataclass
class ClassifierConfig:
    """Settings of `reward=classifier` and `sentiment`: an output of a sequence classifier."""

    name: str
    path: str  # sequence-classification checkpoint: hub name, folder or asset:
    label: str | None  # the class whose output is the score; None: the only one that there is
    output: str  # logit | probability
    chat: bool | None  # through its tokenizer's chat template; None: where there is one
    max_tokens: int | None  # to which texts are cut; None: as many as the model can read
    batch_size: int  # texts per forward pass
    precision: str  # fp32 | bf16 | fp16: of the weights
    quantisation: str  # none | nf4: weights in 4 bits
    double_quantisation: bool  # nf4: its scales in 8 bits
    compute_precision: str  # of matrix products; other than `precision`: fp32 weights, or nf4
    attention: str  # auto | eager | sdpa | flash_attention_2

    def __post_init__(self) -> None:
        require_choice("reward.output", self.output, ("logit", "probability"))
        if self.max_tokens is not None:
            require_at_least("reward.max_tokens", self.max_tokens, 1)
        require_at_least("reward.batch_size", self.batch_size, 1)
        require_precision(self)


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
        require_precision(self)
        require_at_least("reward.batch_size", self.batch_size, 1)


@dataclass
class GameOutcomeConfig:
    """Settings of `reward=game_outcome`: 1 for winning a game, -1 for losing it, 0 for a tie."""

    name: str
    broken_rules: str  # ignored | lose: what a game is worth in which the rules were broken

    def __post_init__(self) -> None:
        require_choice("reward.broken_rules", self.broken_rules, ("ignored", "lose"))


@dataclass
class JudgeEndpointConfig(EndpointConfig):
    """Which chat model grades responses; as `EndpointConfig`."""

    key = "reward.endpoint"


@dataclass
class JudgeConfig:
    """Settings of `reward=judge`: a chat model behind an endpoint grades by a rubric."""

    name: str
    rubric: str  # instructions of the judge, with {lowest}, {highest} and {mark}
    request: str  # what it is asked about each response, with {query} and {response}; {answer}
    mark: str  # stands before the grade in its reply
    lowest: float  # of the grades
    highest: float
    output: str  # grade | share: from 0 for the lowest grade to 1 for the highest
    asked_again: int  # how often, where the reply has no such grade
    unreadable: str  # refuse | lowest: what a response is worth whose replies had none
    endpoint: JudgeEndpointConfig

    def __post_init__(self) -> None:
        require_fields("reward.rubric", self.rubric, ("lowest", "highest", "mark"))
        require_fields("reward.request", self.request, ("query", "response"), ("answer",))
        require(bool(self.mark.strip()), "reward.mark must not be empty: grades are found by it")
        for name in ("lowest", "highest"):
            value = getattr(self, name)
            require(math.isfinite(value), f"reward.{name} must be finite, got {value}")
        require(
            self.lowest < self.highest,
            f"reward.lowest ({self.lowest}) must be below reward.highest ({self.highest})",
        )
        require_choice("reward.output", self.output, ("grade", "share"))
        require_at_least("reward.asked_again", self.asked_again, 0)
        require_choice("reward.unreadable", self.unreadable, ("refuse", "lowest"))

    @property
    def needs_answers(self) -> bool:
        """Whether the judge is shown the right answer."""
        return "answer" in fields_of(self.request)


@dataclass
class SumConfig:
    """Settings of `reward=sum`: several rewards, weighted and added."""

    name: str
    parts: dict[str, Any]  # name -> settings of a reward, each with its own `name`
    weights: dict[str, Any]  # name of a part -> number; a part that is not named has 1

    def __post_init__(self) -> None:
        require(
            len(self.parts) > 0,
            "reward=sum needs parts: +reward@reward.parts.<name>=<option> adds one",
        )
        for name in self.parts:
            require(
                bool(re.fullmatch(r"[a-z]\w*", name)),
                f"reward.parts.{name}: a part's name must be a word in small letters",
            )
        known = ", ".join(self.parts)
        for name, weight in self.weights.items():
            require(name in self.parts, f"reward.weights.{name} is not a part; there are {known}")
            number = isinstance(weight, int | float) and not isinstance(weight, bool)
            require(
                number and math.isfinite(weight),
                f"reward.weights.{name} must be a finite number, got {weight}",
            )

    def weight(self, part: str) -> float:
        """What a part's scores are multiplied by."""
        return float(self.weights.get(part, 1))


def judges(reward: Any) -> dict[str, Any]:
    """The rewards of a run by their group of settings: one, or the parts of a sum."""
    if not isinstance(reward, SumConfig):
        return {"reward": reward}
    return {f"reward.parts.{name}": part for name, part in reward.parts.items()}


def beyond_shares(reward: Any) -> str | None:
    """The setting by which scores are no shares from 0 to 1; None: they are, or code decides."""
    chosen = reward.output if isinstance(reward, ClassifierConfig | JudgeConfig) else None
    return f"reward.output={chosen}" if chosen in ("logit", "grade") else None


def of_part(name: str, settings: Any) -> AbstractContextManager[None]:
    """Refusals about a reward's settings name those of this part of a sum."""
    return renamed("reward", f"reward.parts.{name}", settings)
