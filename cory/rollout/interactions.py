"""What an interaction is: agents speak about prompts, which makes episodes; no models here."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

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
