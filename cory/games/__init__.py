"""Word games: rules, judges, prompts and scripted players, without any language model.

A new game is a class with the members of `Naming`, built from a judge, a line in GAMES and
in `task.game` (cory/config/task.py), and its texts in conf/task. May import: config.
"""

from collections.abc import Callable, Mapping

from cory.games.rules import JUDGES, GameResult, GameRules, GameState, Judge, Naming, Taboo

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
