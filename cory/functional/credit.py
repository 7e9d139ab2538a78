"""Credit rules: from the scores of an episode to what each turn is worth to its speaker.

A rule fills `turn.credit` of every turn and reads nothing but `turn.score`.
"""

from __future__ import annotations

from collections.abc import Iterable

from cory.episode import Episode, Turn


def own_score(episodes: Iterable[Episode]) -> None:
    """Each turn is worth its own score: r(s_0, a_i)."""
    for episode in episodes:
        for turn in episode.turns:
            turn.credit = _score(turn)


def shared_sum(episodes: Iterable[Episode]) -> None:
    """Each turn is worth the sum of all scores of its episode (Ma et al., eq. 4)."""
    for episode in episodes:
        total = sum(_score(turn) for turn in episode.turns)
        for turn in episode.turns:
            turn.credit = total


def _score(turn: Turn) -> float:
    if turn.score is None:
        raise ValueError(f"the turn of {turn.agent} ({turn.role}) has no score")
    return turn.score
