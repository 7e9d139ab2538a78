"""Agents of other runs as opponents: loaded when they play, let go of after; and the reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cory.config import Config
from cory.episode import Asked
from cory.trainers.offline import OfflineTrainer
from tests.support.building import measure
from tests.support.composing import ConfigOf
from tests.support.playing import build_games

Build = Callable[..., tuple[OfflineTrainer, Config]]


@pytest.fixture
def trainer_of(spag: ConfigOf) -> Build:
    def build(*words: str) -> tuple[OfflineTrainer, Config]:
        config = spag("evaluation.probes=[]", "algorithm.threshold=-0.5", *words)
        return build_games(config), config

    return build


def test_one_agent_of_another_run_at_a_time_is_in_memory(trainer_of: Build) -> None:
    opponents: Any = trainer_of()[0].evaluate.opponents  # type: ignore[attr-defined]
    own = {*opponents.actors}
    opponents.others = {"im": object, "spag_1": object}  # how to load them
    for name in opponents.others:
        opponents.seat(name)
        assert {*opponents.actors} - own == {name}
    opponents.dismiss()
    assert {*opponents.actors} == own


@pytest.mark.parametrize("kept", [False, True])
def test_the_reference_is_kept_where_it_plays(
    trainer_of: Build, tmp_path: Path, kept: bool
) -> None:
    trainer, config = trainer_of(*(["algorithm.opponents.start=start"] if kept else []))
    bundle = trainer.policy.bundle
    devices = {parameter.device.type for parameter in bundle.pretrained.parameters()}
    assert devices == ({"cpu"} if kept else {"meta"})
    assert bundle.context_length == 64 and bundle.stops
    trainer.step(0)
    found = measure(trainer, config, tmp_path)[0]
    assert ("eval/win_rate/start" in found) == kept
    if not kept:
        with pytest.raises(RuntimeError, match="meta"):
            trainer.policy.reference("start").turns([Asked("x", "attacker")], 1, None)
