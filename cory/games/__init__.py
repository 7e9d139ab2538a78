"""Word games: rules, judges, prompts and scripted players, without any language model.

A new game is a class with the four members of `GameRules`, a line in RULES, and its texts in
conf/task. May import: config.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from cory.games.judges import JUDGES, Judge
from cory.games.naming import Naming
from cory.games.state import GameResult, GameState
from cory.games.taboo import Taboo


class GameRules(Protocol):
    """The rules of a game; a protocol, nothing inherits from it."""

    @property
    def roles(self) -> tuple[str, str]:
        """Both roles, in the order of their utterances within a turn."""
        ...

    @property
    def knows(self) -> str:
        """The role that sees the target word."""
        ...

    def outcome(self, position: GameState) -> GameResult | None:
        """The result after the last utterance; None: the game goes on.

        No earlier utterance has ended the game. After all turns it is a tie.
        """
        ...

    def legal(self, position: GameState, text: str) -> bool:
        """Whether the role that speaks next may say this text without breaking the rules."""
        ...


RULES: Mapping[str, Callable[[Judge], GameRules]] = {
    "taboo": Taboo,
    "twenty_questions": Naming,
    "guess_my_city": Naming,
}


def _factory(rules: Callable[[Judge], GameRules]) -> Callable[[str], GameRules]:
    return lambda judge: rules(JUDGES[judge]())


# name of a game -> (name of a judge in JUDGES -> its rules)
GAMES: Mapping[str, Callable[[str], GameRules]] = {
    name: _factory(rules) for name, rules in RULES.items()
}


def decided_state(game: GameRules, position: GameState) -> tuple[GameState, GameResult | None]:
    """The state after the first utterance that ended the game, and its result.

    returns: the whole position and None where the game goes on
    """
    state = GameState(position.word, position.max_turns)
    for utterance in position.utterances:
        state = state.after(utterance.role, utterance.text)
        result = game.outcome(state)
        if result is not None:
            return state, result
    return state, None
