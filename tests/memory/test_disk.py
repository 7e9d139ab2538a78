"""The disk space of checkpoints and exported agents: estimates against files that were written."""

from __future__ import annotations

import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cory.config import Config, ConfigError
from cory.memory import disk, preflight
from cory.memory.disk import GIB, disk_usage, disk_warning, room_for
from cory.runs.checkpoint import Checkpoints
from tests.support.agents import build_agents
from tests.support.building import LetterShare, build
from tests.support.composing import parsed

ConfigOf = Callable[..., Config]


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["copies", "adapters"])
@pytest.mark.parametrize("stage", [0, 2, 3])
def test_a_checkpoint_is_as_large_as_estimated(
    config_of: ConfigOf, tmp_path: Path, sharing: str, stage: int
) -> None:
    config = config_of(f"model.sharing={sharing}", f"hardware.zero_stage={stage}")
    torch.manual_seed(0)
    trainer = build(config, reward=LetterShare())
    trainer.step(0)  # Adam has moments
    Checkpoints(tmp_path, "this run", config.hardware, 2).save(1, trainer.agents, {})
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    written = sum(path.stat().st_size for path in files if path.suffix == ".pt")
    # names, shapes and settings beside the numbers take some hundred kilobytes
    found = disk_usage(config, preflight.rows_of(config)[0]).checkpoint
    assert found == pytest.approx(written, rel=0.05, abs=2**19)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["previous", "base"])
@pytest.mark.parametrize("policies", ["specialised", "single"])
def test_agents_with_new_optimisers_are_written_as_estimated(
    maft: ConfigOf, tmp_path: Path, policies: str, start: str
) -> None:
    """Without moments, and in the precision that the next training goes on from."""
    config = maft(
        "algorithm.iterations=2",
        f"algorithm.start={start}",
        f"algorithm.policies={policies}",
        "hardware.zero_stage=2",
        "model.precision=bf16",
        "algorithm.select=agreeing",
    )
    trainer = build_agents(config)
    checkpoints = Checkpoints(tmp_path, "this run", config.hardware, 2)
    trainer.step(0)
    checkpoints.save(1, trainer.agents, {})
    files = list((tmp_path / "checkpoints/000001").glob("*/*.pt"))
    names = [name for name, updates in trainer.updates.items() if updates]
    assert len(names) > 0
    assert sorted(path.parent.name for path in files) == sorted(names)
    found = disk_usage(config, preflight.rows_of(config)[0])
    written = sum(path.stat().st_size for path in files) * len(trainer.agents) / len(names)
    assert found.checkpoint == pytest.approx(written, rel=0.05)
    assert found.at_once == (2 if policies == "specialised" else 3)


@pytest.mark.slow
def test_papers_scale() -> None:
    """Six copies in bf16, as none is trained twice; in float32 where one is."""
    config = parsed("experiment=maft/phi3_arithmetic_maft")
    found = disk_usage(config, preflight.rows_of(config)[0])
    assert found.checkpoint == pytest.approx(6 * 2 * 3.821e9, rel=1e-3)
    assert found.exports == pytest.approx(6 * 2 * 3.821e9 * (1 + exports(config)), rel=1e-3)
    assert found.at_once == 1  # as they were built they are not written
    again = parsed("experiment=maft/phi3_math_iters")
    found = disk_usage(again, preflight.rows_of(again)[0])
    assert found.checkpoint == pytest.approx(6 * 4 * 3.821e9, rel=1e-3)
    assert found.at_once == 3
    base = parsed("experiment=maft/phi3_math_iters", "algorithm.start=base")
    found = disk_usage(base, preflight.rows_of(base)[0])
    assert found.checkpoint == pytest.approx(6 * 2 * 3.821e9, rel=1e-3)


def exports(config: Config) -> int:
    every = config.export_every
    return len(range(every, config.algorithm.iterations, every)) if every else 0


@pytest.mark.slow
def test_how_many_there_are_at_once() -> None:
    rows, _ = preflight.rows_of(parsed())
    for words, count in (
        (["keep_last=1"], 2),
        (["keep_last=5", "algorithm.iterations=40"], 6),
        (["keep_last=5", "algorithm.iterations=2"], 4),
        (["algorithm.iterations=0"], 0),
        (["keep_last=5", "algorithm.iterations=40", "checkpoint_every=0"], 1),
    ):
        assert disk_usage(parsed(*words), rows).at_once == count
    one = disk_usage(parsed("export_every=0"), rows).exports
    for iterations, count in ((40, 4), (41, 5), (10, 1), (9, 1)):  # the last ones among them
        words = ("export_every=10", f"algorithm.iterations={iterations}")
        assert disk_usage(parsed(*words), rows).exports == count * one


@pytest.mark.slow
def test_the_best_agents_are_kept_beside_the_last_ones() -> None:
    rows, _ = preflight.rows_of(parsed())
    once = disk_usage(parsed(), rows).exports
    best = ("keep_best=objective/score/agent_0",)
    for words, count in (
        (["algorithm.iterations=40"], 2),
        (["algorithm.iterations=1"], 1),  # one improvement at most
    ):
        assert disk_usage(parsed(*best, *words), rows).exports == (1 + count) * once


def test_refusal_and_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = parsed()
    rows, _ = preflight.rows_of(config)
    found = disk_usage(config, rows)
    assert 0 < found.checkpoint < found.most
    monkeypatch.setattr(disk, "room_for", lambda run_dir: found.most)
    assert disk_warning(config, rows) is None
    monkeypatch.setattr(disk, "room_for", lambda run_dir: found.most - 1)
    preflight.check(config, True)
    assert "warning: up to 3 checkpoints at once" in capsys.readouterr().out
    assert "keep_last=1 needs" in disk_warning(config, rows)
    two = parsed("keep_last=1")
    monkeypatch.setattr(disk, "room_for", lambda run_dir: disk_usage(two, rows).most - 1)
    assert disk_warning(two, rows).endswith("a checkpoint may fail")
    monkeypatch.setattr(disk, "room_for", lambda run_dir: found.checkpoint - 1)
    with pytest.raises(ConfigError, match=f"takes {found.checkpoint / GIB:.2f} GiB, and the disk"):
        preflight.check(config, False)
    preflight.print_estimate(config)
    said = capsys.readouterr().out
    assert "this run will be refused: run_dir=" in said and "disk, GiB: " in said


def test_the_runs_own_checkpoints_are_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(9000, 1000, 8000))
    run_dir = tmp_path / "not/there/yet"
    assert room_for(run_dir) == 8000
    for name in ("000001", "000002"):
        (run_dir / "checkpoints" / name).mkdir(parents=True)
    file = run_dir / "checkpoints/000001/weights.pt"
    file.write_bytes(b"1" * 70)
    os.link(file, run_dir / "checkpoints/000002/weights.pt")  # counts once
    assert room_for(run_dir) == 8070
