"""Which hardware has room for a run on a GPU that this machine need not have."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cory import train
from cory.config import GPUS, Config, ConfigError
from cory.memory import planning, preflight
from cory.memory.estimate import LOADING
from cory.memory.planning import advice, candidates, plan, plan_lines, read_options
from cory.train import CONF, print_plan
from tests.support.composing import parsed

OPTIONS = read_options(CONF / "hardware")
PLANNED = ("preflight_only=true", "hardware.gpu=a100_40")


def planned(*words: str) -> Config:
    return parsed(*PLANNED, *words)


@pytest.mark.slow
def test_options_are_what_hydra_composes() -> None:
    for name in ("cpu", "gpu1", "gpu4_zero2", "gpu8_zero3_offload"):
        composed = parsed("experiment=quickstart", f"hardware={name}").hardware
        assert OPTIONS[name] == {key: getattr(composed, key) for key in OPTIONS[name]}


def test_candidates_have_the_runs_own_batches() -> None:
    own = planned("hardware.microbatch_size=2", "hardware.gradient_checkpointing=true").hardware
    found = candidates(own, OPTIONS)
    assert [one.name for one in found] == [
        "gpu1",
        "gpu4_zero2",
        "gpu8_zero3",
        "gpu8_zero3_offload",
        "multinode",
    ]
    assert {(one.microbatch_size, one.device, one.gpu) for one in found} == {(2, "cuda", "a100_40")}
    assert all(one.gradient_checkpointing for one in found)
    plain = candidates(planned().hardware, OPTIONS)
    assert [one.gradient_checkpointing for one in plain] == [False, False, True, True, True]
    assert [(one.world, one.zero_stage) for one in plain] == [
        (1, 0), (4, 2), (8, 3), (8, 3), (16, 3),
    ]  # fmt: skip


def test_memory_of_the_machine_that_is_planned_for(monkeypatch: pytest.MonkeyPatch) -> None:
    config = planned("hardware=gpu1")
    assert preflight.device_memory(config.hardware) == int(GPUS["a100_40"].memory * 2**30)
    own = replace(config.hardware, memory=80.0)
    assert preflight.device_memory(own) == 80 * 2**30
    assert preflight.device_memory(replace(own, gpu=None)) == 80 * 2**30
    cpu = planned("hardware=cpu2", "hardware.memory=6").hardware
    assert preflight.device_memory(cpu) == 3 * 2**30
    monkeypatch.setattr(preflight, "main_memory", lambda: 4 * 2**30)
    assert preflight.device_memory(replace(cpu, memory=None)) == 2 * 2**30


def test_main_memory_is_not_judged_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    config = planned("hardware=gpu8_zero3_offload")
    rows, _ = preflight.rows_of(config)
    monkeypatch.setattr(preflight, "main_memory", lambda: 1)
    assert preflight.memory_warning(config, rows) is None
    config.hardware.gpu = None
    with pytest.raises(ConfigError, match="main memory for each process is"):
        preflight.memory_warning(config, rows)


@pytest.mark.slow
def test_the_fewest_gpus_that_have_room_are_recommended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = planned()
    needs = {one.name: plan(config, one, {}).gib for one in candidates(config.hardware, OPTIONS)}
    assert needs["gpu1"] > needs["gpu4_zero2"] > 0
    room = (needs["gpu1"] + needs["gpu4_zero2"]) / 2 / planning.WARN_ABOVE
    print_plan(planned(f"hardware.memory={room}"))
    said = capsys.readouterr().out
    assert "recommended: hardware=gpu4_zero2, the fewest GPUs" in said
    (line,) = [line for line in said.splitlines() if line.startswith("  gpu1 ")]
    # beside the memory that it is about, not under the column of main memory
    assert re.search(r"^  gpu1 +1 +\d+\.\d  too much  \S", line), line
    assert "memory of one process" not in said
    print_plan(planned())
    assert "recommended: hardware=gpu1, the" in capsys.readouterr().out
    print_plan(planned("hardware.memory=0.001"))
    said = capsys.readouterr().out
    assert "no hardware has room: " in said and "which no batch size changes; try a smaller" in said
    found = [plan(config, one, {}) for one in candidates(config.hardware, OPTIONS)]
    least = min(found, key=lambda one: one.gib)
    assert least.phase != LOADING and least.held < least.gib
    between = (least.held + least.gib) / 2 / planning.WARN_ABOVE
    print_plan(planned(f"hardware.memory={between}"))
    assert "no hardware has room: try hardware.microbatch_size" in capsys.readouterr().out
    loading = replace(least, phase=LOADING, gib=2.0, room=1.0)
    (line,) = advice(None, loading, config)
    assert "loading takes 2.0 GiB of each GPU even with" in line
    (line,) = advice(None, None, config)
    assert "no hardware can share out the batches" in line
    print_plan(planned("hardware=gpu1"))
    said = capsys.readouterr().out
    assert said.startswith("memory of one process") and "hardware.gpu=a100_40     " in said


def test_batches_that_cannot_be_shared_out_are_said() -> None:
    config = planned("algorithm.minibatch_size=2", "algorithm.prompts_per_iteration=8")
    said = {line.split()[0]: line for line in plan_lines(config, OPTIONS, {})}
    assert "not possible: algorithm.minibatch_size (2)" in said["gpu4_zero2"]
    assert "not possible" not in said["gpu1"]
    (advice,) = [line for line in said.values() if "recommended" in line]
    assert "hardware=gpu1," in advice


@pytest.mark.slow
def test_a_plan_is_no_run() -> None:
    for word in ("hardware.gpu=h100", "hardware.memory=80"):
        with pytest.raises(ConfigError, match="it needs preflight_only=true"):
            parsed(word)
    with pytest.raises(ConfigError, match=r"hardware\.gpu must be one of h200, h100, "):
        parsed("preflight_only=true", "hardware.gpu=h10")
    with pytest.raises(ConfigError, match=r"hardware\.memory is in GiB, above 0"):
        parsed("preflight_only=true", "hardware.memory=85899345920")


@pytest.mark.slow
def test_evaluations_of_a_whole_test_split_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("experiment=cory/gsm8k_cory", "hardware=gpu1", "evaluation.prompts=null")
    print_plan(planned(*words))
    whole = capsys.readouterr().out
    monkeypatch.setattr(train, "known_test_splits", lambda conf, paper: {})
    print_plan(planned(*words))
    assert capsys.readouterr().out != whole
