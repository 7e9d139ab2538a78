"""How much each utterance of a game weighs in a mean over utterances."""

from __future__ import annotations

from collections.abc import Mapping


def role_weights(games: Mapping[str, int]) -> dict[str, float]:
    """N / (2 N_role): both roles weigh the same, however often each is learnt from.

    As Cheng et al. released it, and what the halves before both sums of eq. 8 and 12 ask for.

    games: role -> number of games in which it is learnt from, counted in games, not utterances
    returns: for the roles that are learnt from at all
    """
    whole = sum(games.values())
    return {role: whole / (2 * count) for role, count in games.items() if count > 0}


def game_share(utterances: int, games: int) -> float:
    """What turns a mean over utterances into a mean over games of sums over their utterances.

    utterances: learnt from in all games together
    games: learnt from, counted once for each role that is
    """
    return utterances / games
