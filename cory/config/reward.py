"""Settings of `reward=`."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator

from cory.config.base import (
    Conflict,
    Count,
    Settings,
    Text,
    Words,
    chosen,
    fields_of,
    with_fields,
)
from cory.config.errors import renamed
from cory.config.model import EndpointConfig, PackedConfig, PrecisionConfig


def function_name(value: str) -> tuple[str, str]:
    """File or module, and name of a function; ValueError where the text is neither."""
    place, _, name = value.rpartition(":")
    dotted = all(part.isidentifier() for part in place.split("."))
    if not (name.isidentifier() and (dotted or place.endswith(".py"))):
        raise ValueError("must be <file>.py:<function> or <package.module>:<function>")
    return place, name


def _function(value: str) -> str:
    function_name(value)
    return value


def named_or_function(*names: str) -> AfterValidator:
    """In the type of a text: one of these names, or that of a function of the user's."""

    def check(value: str) -> str:
        try:
            return value if value in names else _function(value)
        except ValueError as error:
            raise ValueError(f"must be one of {', '.join(names)}, or a function: {error}") from None

    return AfterValidator(check)


FunctionName = Annotated[Text, AfterValidator(_function)]  # the name of a function of the user's


class PythonRewardConfig(Settings):
    """Settings of `reward=python`: a function of the user's, called as TRL calls one."""

    name: Text
    function: FunctionName


class ReturnedConfig(Settings):
    """Settings of `reward=returned`: what `algorithm.play` returns."""

    name: Text


class ClassifierConfig(PrecisionConfig):
    """Settings of `reward=classifier` and `sentiment`: an output of a sequence classifier."""

    name: Text
    path: Text  # sequence-classification checkpoint: hub name, folder or asset:
    label: Text | None  # the class whose output is the score; None: the only one that there is
    output: Literal["logit", "probability"]
    chat: bool | None  # through its tokenizer's chat template; None: where there is one
    max_tokens: Count | None  # to which texts are cut; None: as many as the model can read
    batch_size: Count  # texts per forward pass


class ExactMatchConfig(Settings):
    """Settings of `reward=exact_match`: 1 for a right answer, else 0."""

    name: Text


class VerifierRewardConfig(PackedConfig):
    """Settings of `reward=verifier`: how likely a trained verifier finds a response to be right."""

    name: Text
    path: Text  # folder of a verifier: agents/verifier of a run with algorithm=verifier
    base: Text | None  # what an adapter lies on; None: what its folder names
    chat: bool  # questions go through its tokenizer's chat template, as while it was trained
    batch_size: Count  # responses per forward pass


class GameOutcomeConfig(Settings):
    """Settings of `reward=game_outcome`: 1 for winning a game, -1 for losing it, 0 for a tie."""

    name: Text
    broken_rules: Literal["ignored", "lose"]


class JudgeEndpointConfig(EndpointConfig):
    """Which chat model grades responses; as `EndpointConfig`."""

    key: ClassVar[str] = "reward.endpoint"


class JudgeConfig(Settings):
    """Settings of `reward=judge`: a chat model behind an endpoint grades by a rubric."""

    name: Text
    rubric: Annotated[Text, with_fields("lowest", "highest", "mark")]
    request: Annotated[Text, with_fields("query", "response", allowed=["answer"])]
    mark: Words  # stands before the grade in its reply
    lowest: float  # of the grades
    highest: float
    output: Literal["grade", "share"]
    endpoint: JudgeEndpointConfig

    def conflicts(self) -> Iterator[Conflict]:
        if self.lowest >= self.highest:
            yield "lowest", f"must be below reward.highest={self.highest}"

    @property
    def needs_answers(self) -> bool:
        """Whether the judge is shown the right answer."""
        return "answer" in fields_of(self.request)


def _part_name(name: str) -> str:
    if not re.fullmatch(r"[a-z]\w*", name):
        raise ValueError("a part's name must be a word in small letters")
    return name


class SumConfig(Settings):
    """Settings of `reward=sum`: several rewards, weighted and added."""

    name: Text
    # no sum in a sum, and no reward that only games have
    parts: dict[
        Annotated[str, AfterValidator(_part_name)],
        Annotated[Any, chosen("reward", but=("sum", "game_outcome"))],
    ]
    weights: dict[str, float]  # name of a part -> number; a part that is not named has 1

    def conflicts(self) -> Iterator[Conflict]:
        if not self.parts:
            yield "parts", "must not be empty: +reward@reward.parts.<name>=<option> adds one"
        known = ", ".join(self.parts)
        for name in self.weights:
            if name not in self.parts:
                yield "weights", f"must be of parts: {name} is none; there are {known}"

    def weight(self, part: str) -> float:
        """What a part's scores are multiplied by."""
        return self.weights.get(part, 1.0)


def judges(reward: Any) -> dict[str, Any]:
    """The rewards of a run by their group of settings: one, or the parts of a sum."""
    if not isinstance(reward, SumConfig):
        return {"reward": reward}
    return {f"reward.parts.{name}": part for name, part in reward.parts.items()}


def beyond_shares(reward: Any) -> str | None:
    """The setting by which scores are no shares from 0 to 1; None: they are, or code decides."""
    output = reward.output if isinstance(reward, ClassifierConfig | JudgeConfig) else None
    return f"reward.output={output}" if output in ("logit", "grade") else None


def of_part(name: str, settings: Any) -> AbstractContextManager[None]:
    """Refusals about a reward's settings name those of this part of a sum."""
    return renamed("reward", f"reward.parts.{name}", settings)
