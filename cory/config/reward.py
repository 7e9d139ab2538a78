"""Settings of `reward=`."""

from typing import Annotated, Any, ClassVar, Literal

from cory.config.base import (
    Conflicts,
    Count,
    Settings,
    Text,
    Words,
    chosen,
    function_or,
    with_fields,
)
from cory.config.model import EndpointConfig, PackedConfig, PrecisionConfig

FunctionName = Annotated[Text, function_or()]  # the name of a function of the user's


class PythonRewardConfig(Settings):
    """Settings of `reward=python`: a function of the user's, called as TRL calls one."""

    name: Text
    function: FunctionName


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
    """Settings of `reward=exact_match`: 1 for a right answer, else 0; and `returned`: by a play."""

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

    def conflicts(self) -> Conflicts:
        if self.lowest >= self.highest:
            yield "lowest", f"must be below highest={self.highest}"


class SumConfig(Settings):
    """Settings of `reward=sum`: several rewards, weighted and added."""

    name: Text
    parts: dict[str, Annotated[Any, chosen("reward")]]
    weights: dict[str, float]  # name of a part -> number; a part that is not named has 1

    def conflicts(self) -> Conflicts:
        if not self.parts:
            yield "parts", "must not be empty: +reward@reward.parts.<name>=<option> adds one"
        for name, part in self.parts.items():
            if part.name in ("sum", "game_outcome"):
                yield f"parts.{name}.name", "cannot be a part of a sum"
        known = ", ".join(self.parts)
        for name in self.weights:
            if name not in self.parts:
                yield "weights", f"must be of parts: {name} is none; there are {known}"


def judges(reward: Any) -> dict[str, Any]:
    """The rewards of a run by their group of settings: one, or the parts of a sum."""
    if not isinstance(reward, SumConfig):
        return {"reward": reward}
    return {f"reward.parts.{name}": part for name, part in reward.parts.items()}
