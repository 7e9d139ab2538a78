"""Word games: rules, judges, prompts and scripted players, without any language model.

A new game is a class with the members of `Naming`, built from a judge, a line in the table GAMES of
cory/config/options.py, and its texts in conf/task. May import: config.
"""

from cory.config import options
from cory.config.options import load
from cory.games.rules import JUDGES, GameResult, GameRules, GameState


def rules_of(game: str, judge: str) -> GameRules:
    """The rules of the game of this name, with the judge of this name in JUDGES."""
    made: GameRules = load(options.game(game).rules)(JUDGES[judge]())
    return made


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
