"""Agents of other runs as opponents: loaded when they play, let go of after; and the reference."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from cory.config import Config
from cory.episode import Asked
from cory.models.policy import Policy
from cory.runs.export import export
from cory.trainers.offline import OfflineTrainer
from tests.support.building import measure
from tests.support.playing import SPAG, build_games, game_config

Build = Callable[..., tuple[OfflineTrainer, Config]]


@pytest.fixture
def trainer_of(config_of: Callable[..., Config], tiny_model: str, tmp_path: Path) -> Build:
    def build(*words: str) -> tuple[OfflineTrainer, Config]:
        base = [*SPAG, f"model.path={tiny_model}", f"run_dir={tmp_path}/run"]
        config = game_config(base, "evaluation.probes=[]", "algorithm.threshold=-0.5", *words)
        return build_games(config), config

    return build


@pytest.fixture
def two_runs(trainer_of: Build, tmp_path: Path) -> list[str]:
    """Two finished runs, as opponents: their weights are far from the learner's."""
    words = []
    for number, name in enumerate(("im", "spag_1"), 1):
        trainer, config = trainer_of()
        with torch.no_grad():
            for parameter in trainer.policy.model.lm.parameters():
                parameter.mul_(1 + 0.1 * number)
        folder = tmp_path / name
        model, bundle = trainer.policy.model, trainer.policy.bundle
        export(model, bundle.tokenizer, folder / "agents" / "agent_0", bundle.config.path, "")
        (folder / "config.yaml").write_text(
            json.dumps({"model": config.model.model_dump(), "algorithm": {"advantages": "gae"}})
        )
        words.append(f"{'+' * (number - 1)}algorithm.opponents.{name}={folder}")
    return words


@pytest.mark.slow
def test_one_agent_of_another_run_at_a_time_is_in_memory(
    trainer_of: Build, two_runs: list[str], tmp_path: Path
) -> None:
    trainer, config = trainer_of(*two_runs)
    others = trainer.evaluate.opponents.others  # type: ignore[attr-defined]
    loaded: list[tuple[str, weakref.ref[Policy]]] = []

    def counted(name: str, load: Callable[[], Policy]) -> Policy:
        assert all(agent() is None for _, agent in loaded)
        agent = load()
        loaded.append((name, weakref.ref(agent)))
        return agent

    for name, load in others.items():
        others[name] = partial(counted, name, load)
    found = measure(trainer, config, tmp_path)[0]
    assert {"eval/win_rate/im", "eval/win_rate/spag_1"} <= found.keys()
    assert [name for name, _ in loaded] == ["im", "spag_1"]
    assert all(agent() is None for _, agent in loaded)


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
