"""A player of word games that is a chat model behind an endpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cory.endpoint.batch import Ask, Endpoint
from cory.endpoint.client import Message
from cory.games.state import GameState


class Wording(Protocol):
    """How games are put to a chat model."""

    def messages(self, position: GameState, role: str) -> Sequence[Message]:
        """All that a role is shown before its next utterance."""
        ...


class EndpointPlayer:
    """Says what the model behind the endpoint says; every process calls it."""

    def __init__(self, endpoint: Endpoint, wording: Wording) -> None:
        self.endpoint = endpoint
        self.wording = wording

    def say_all(
        self,
        positions: Sequence[GameState],
        role: str,
        keys: Sequence[str],
        before_each: Callable[[int, int], None] | None = None,
    ) -> list[str]:
        """The role's next utterance in each game; empty ones stay empty.

        keys: of the requests: the game's name, and the number of the utterance in it; a game that
            is played again under the same keys is not paid for again
        before_each: as of Endpoint.complete
        """
        asks = [
            Ask(key, self.wording.messages(position, role))
            for position, key in zip(positions, keys, strict=True)
        ]
        return [reply.text.strip() for reply in self.endpoint.complete(asks, before_each)]
