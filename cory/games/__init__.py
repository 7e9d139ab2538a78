"""Word games: rules and judges, without any model.

A new game is a class with the four members of `Game`, a line in GAMES, and its texts in conf/task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from cory.games.judges import JUDGES, Judge
from cory.games.naming import Naming
from cory.games.state import GameResult, GameState
from cory.games.taboo import Taboo


class GameRules(Protocol):
    """The rules of a game; nothing inherits from it."""

    @property
    def roles(self) -> tuple[str, str]:
        """Both roles, in the order in which they speak within a turn."""
        ...

    @property
    def knows(self) -> str:
        """The role that sees the word."""
        ...

    def outcome(self, position: GameState) -> GameResult | None:
        """What the last utterance decided; None: the game goes on.

        Nothing that was said before has decided it. When all turns have been played, it is a tie.
        """
        ...

    def legal(self, position: GameState, text: str) -> bool:
        """Whether the next to speak may say this without breaking the rules."""
        ...


RULES: Mapping[str, Callable[[Judge], GameRules]] = {
    "taboo": Taboo,
    "twenty_questions": Naming,
    "guess_my_city": Naming,
}


def _factory(rules: Callable[[Judge], GameRules]) -> Callable[[str], GameRules]:
    return lambda judge: rules(JUDGES[judge]())


# judge, a name in JUDGES -> the game
GAMES: Mapping[str, Callable[[str], GameRules]] = {
    name: _factory(rules) for name, rules in RULES.items()
}


def decided_state(game: GameRules, position: GameState) -> tuple[GameState, GameResult | None]:
    """The position right after the utterance that decided it; None: nothing has, yet."""
    cut = GameState(position.word, position.max_turns)
    for utterance in position.utterances:
        cut = cut.after(utterance.role, utterance.text)
        outcome = game.outcome(cut)
        if outcome is not None:
            return cut, outcome
    return cut, None


def next_role(game: GameRules, position: GameState) -> str:
    """The role that speaks next."""
    return game.roles[len(position.utterances) % 2]
