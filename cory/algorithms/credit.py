"""Credit rules: those that settings name, and functions of the user's."""

from collections.abc import Callable, Mapping

from cory import distributed
from cory.config import ConfigError, require
from cory.episode import Episode
from cory.rewards.python_function import as_number
from cory.user_function import RAISED, UserFunction, load_function, told

CreditRule = Callable[[list[Episode]], None]  # fills turn.credit of every turn


def credit_rule(value: str, rules: Mapping[str, CreditRule]) -> CreditRule:
    """The rule that `algorithm.credit` names: one of these, or the user's function.

    The function takes the utterances of an episode, in their order, each with `agent`, `role`,
    `text` and `score`, and returns a number for each.
    """
    if value in rules:
        return rules[value]
    function = load_function("algorithm.credit", value)

    def assign(episodes: list[Episode]) -> None:
        # by one process: what it draws is the same in all
        credits = distributed.first_works(lambda: [credits_of(function, e) for e in episodes])
        for episode, values in zip(episodes, credits, strict=True):
            for turn, credit in zip(episode.turns, values, strict=True):
                turn.credit = credit

    return assign


def credits_of(function: UserFunction, episode: Episode) -> list[float]:
    """What the user's function returns for an episode; ConfigError unless it is what it must be."""
    said = f"{function.said}, prompt {episode.prompt.id}"
    try:
        returned = function.call(episode.turns)
    except RAISED as error:  # whatever a user's function raises
        raise ConfigError(f"{said}: {told(error, function.file)}") from error
    turns = len(episode.turns)
    values = returned if isinstance(returned, list) else []
    numbers = [number for value in values if (number := as_number(value)) is not None]
    require(
        len(numbers) == len(values) == turns,
        f"{said}: must return a list of {turns} numbers, one per utterance; got {returned!r}",
    )
    return numbers
