"""The evaluation before the training: in whole runs, killed, and where there is none."""

from __future__ import annotations

from collections.abc import Callable

from cory.config import Config
from tests.support.composing import parsed

ConfigOf = Callable[..., Config]


def test_where_there_is_none() -> None:
    for word in ("evaluation.before=false", "algorithm.iterations=0"):
        assert parsed().evaluates_before and not parsed(word).evaluates_before
    games = ("experiment=spag/llama2_im", "scale=small", "evaluation.before=true")
    assert parsed(*games).evaluates_before
    collecting = ("algorithm.collect_only=true", "algorithm.iterations=1")
    words = (*games, *collecting, "algorithm.iterations_per_epoch=null")
    assert not parsed(*words).evaluates_before
