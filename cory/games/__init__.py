"""Word games: rules, judges, prompts and scripted players, without any language model.

A new game is a class with the four members of `GameRules`, built from a judge, a line in GAMES and
in `task.game` (cory/config/task.py), and its texts in conf/task. May import: config.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from cory.games.rules import JUDGES, GameResult, GameState, Judge, Naming, Taboo


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


GAMES: Mapping[str, Callable[[Judge], GameRules]] = {
    "taboo": Taboo,
    "twenty_questions": Naming,
    "guess_my_city": Naming,
}


def rules_of(game: str, judge: str) -> GameRules:
    """The rules of the game of this name, with the judge of this name in JUDGES."""
    return GAMES[game](JUDGES[judge]())


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
