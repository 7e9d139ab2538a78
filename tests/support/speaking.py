"""Actors without models: a function says what each of them responds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cory.config import SamplingConfig
from cory.episode import Asked, Context, Episode, Prompt, Turn
from cory.models.tokenization import apart
from cory.rewards import Reward
from cory.rollout.scheduler import Play, RollOut


def solo_episodes(*texts: str) -> list[Episode]:
    """A prompt for each text, which is all that is said about it; the answer is 7."""
    turns = [Turn("agent_0", "solo", 0, "q", text, [1], [2]) for text in texts]
    return [Episode(Prompt(f"p{n}", f"asked {n}", "7"), [turn]) for n, turn in enumerate(turns)]


class Script:
    """Every actor that a play may name; `shown` has what each was shown, batch by batch.

    say(agent, asked): its response; None: the context is too long for it
    fits(agent, context, limit): whether it has room for such a response
    """

    def __init__(
        self,
        say: Callable[[str, Asked], str | None],
        fits: Callable[[str, Context, int], bool] = lambda agent, context, limit: True,
    ) -> None:
        self.say, self.room = say, fits
        self.shown: list[tuple[str, str, int, list[Context]]] = []

    def __getitem__(self, agent: str) -> "ScriptedActor":
        return ScriptedActor(agent, self)

    def values(self) -> list["ScriptedActor"]:
        """None is there before it is named."""
        return []

    def play(
        self, play: Play, prompts: Sequence[Prompt], reward: Reward | None = None
    ) -> list[Episode]:
        """The episodes of a play about these prompts."""
        actors: Any = self
        return RollOut(actors, 2, None, (0,), reward=reward)(play, prompts)


class ScriptedActor:
    def __init__(self, name: str, script: Script) -> None:
        self.name, self.script = name, script

    def fits(self, context: Context, limit: int) -> bool:
        return self.script.room(self.name, context, limit)

    def turns(
        self, asked: Sequence[Asked], limit: int, sampling: SamplingConfig | None
    ) -> list[Turn | None]:
        parts: dict[tuple[str, int], list[Context]] = {}
        for one in asked:
            parts.setdefault((one.role, one.round), []).append(one.context)
        self.script.shown += [(self.name, *part, shown) for part, shown in parts.items()]
        said = [(one, self.script.say(self.name, one)) for one in asked]
        return [None if text is None else self.turn(one, *apart(text)) for one, text in said]

    def turn(self, one: Asked, thought: str, heard: str) -> Turn:
        context = str(one.context)
        turn = Turn(self.name, one.role, one.round, context, heard, [1], [2], thinking=thought)
        return replace(turn, asked=one.context)
