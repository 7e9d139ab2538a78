"""Interactions: the order in which agents speak and the prompts they see; no models here."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from cory.episode import Context, Episode, Prompt, Turn

# speak(agent, role, round, contexts) -> one turn per context; an absent one where it is None
Speak = Callable[[str, str, int, Sequence[Context | None]], list[Turn]]


@runtime_checkable
class SpeaksTogether(Protocol):
    """A `Speak` that can also let one actor speak in several roles at once."""

    def together(
        self,
        actor: str,
        roles: Sequence[str],
        round: int,
        contexts: Sequence[Sequence[Context | None]],
    ) -> list[list[Turn]]:
        """The turns of each role, as calls one after another would give them."""
        ...


Interaction = Callable[[list[Prompt], Speak], list[Episode]]
# observer_context(query, answers so far) -> the observer's prompt
ObserverContext = Callable[[str, Sequence[str]], str]

PIONEER = "pioneer"  # role of the first agent, which sees the bare query


def single_turn(prompts: list[Prompt], speak: Speak, agent: str) -> list[Episode]:
    """One agent answers every prompt once."""
    turns = speak(agent, "solo", 0, [prompt.opening for prompt in prompts])
    return [Episode(prompt, [turn]) for prompt, turn in zip(prompts, turns, strict=True)]


class Roles:
    """Which agent has which role; an exchange of roles moves no weights.

    Two agents play `pioneer` and `observer`; of more, the later ones are `observer_1`,
    `observer_2`, ... At an exchange the pioneer goes to the end of the chain.
    """

    def __init__(self, agents: Sequence[str]) -> None:
        self.order = list(agents)

    def speakers(self) -> list[tuple[str, str]]:
        """(agent, role) in the order of speaking."""
        observers = (
            ["observer"]
            if len(self.order) == 2
            else [f"observer_{i}" for i in range(1, len(self.order))]
        )
        return list(zip(self.order, [PIONEER, *observers], strict=True))

    def exchange(self) -> None:
        """The observer becomes pioneer (Ma et al., eq. 5); longer chains move up by one."""
        self.order = [*self.order[1:], self.order[0]]

    def state_dict(self) -> dict[str, Any]:
        """The order of the agents."""
        return {"order": list(self.order)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.order = list(state["order"])


def pioneer_observer(
    prompts: list[Prompt],
    speak: Speak,
    roles: Roles,
    observer_context: ObserverContext | None,
) -> list[Episode]:
    """The pioneer answers the query; each observer sees the query and the answers before its own.

    Ma et al., eq. 3. Without `observer_context` all see the bare query (ablation w/o KT).
    """
    episodes = [Episode(prompt, []) for prompt in prompts]
    for place, (agent, role) in enumerate(roles.speakers()):
        contexts = [
            episode.prompt.opening
            if place == 0 or observer_context is None
            else episode.prompt.asking(
                observer_context(episode.prompt.text, [turn.response for turn in episode.turns])
            )
            for episode in episodes
        ]
        for episode, turn in zip(episodes, speak(agent, role, place, contexts), strict=True):
            episode.turns.append(turn)
    return episodes
