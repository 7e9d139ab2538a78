"""What is said of a run's memory before it starts: the table, refusals, and a measured run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cory.config import ConfigError
from cory.memory import preflight
from cory.memory.estimate import ALWAYS, peak, total
from scripts.memory import Case, make_model, make_reviews, run
from tests.support.composing import parsed

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_refusal_warning_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = parsed()
    found, _ = preflight.rows_of(config)
    held, (_, most) = total(found, ALWAYS), peak(found)
    monkeypatch.setattr(preflight, "main_memory", lambda: 2 * most)
    preflight.check(config, True)
    assert len(capsys.readouterr().out.splitlines()) == 1
    preflight.check(config, False)
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(preflight, "main_memory", lambda: most)  # above 90 %
    preflight.check(config, True)
    out = capsys.readouterr().out
    assert "warning: about" in out and "Adam's two moments" in out
    monkeypatch.setattr(preflight, "main_memory", lambda: held - 1)
    with pytest.raises(ConfigError) as refusal:
        preflight.check(config, False)
    assert f"model=tiny with hardware=cpu holds {held / preflight.GIB:.2f} GiB" in str(
        refusal.value
    )
    assert "\n" not in str(refusal.value)
    preflight.print_estimate(config)
    assert "this run will be refused" in capsys.readouterr().out


def test_a_gpu_and_the_main_memory_beside_it_are_both_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = parsed("hardware=gpu8_zero3_offload", "model=tiny")
    found, _ = preflight.rows_of(config)
    on_gpu, beside = (peak(found, offloaded)[1] for offloaded in (False, True))
    monkeypatch.setattr(preflight, "device_memory", lambda hardware: on_gpu)
    share = config.hardware.processes * beside
    monkeypatch.setattr(preflight, "main_memory", lambda: share)
    gpu, main = (preflight.memory_warning(config, found) or "").splitlines()
    assert gpu.startswith(f"warning: about {on_gpu / preflight.GIB:.2f} GiB in phase ")
    assert "the CUDA device has" in gpu and "main memory for each process is" in main
    monkeypatch.setattr(preflight, "main_memory", lambda: 2 * share)
    assert preflight.memory_warning(config, found) == gpu
    monkeypatch.setattr(preflight, "device_memory", lambda hardware: 2 * on_gpu)
    assert preflight.memory_warning(config, found) is None


def test_processes_of_one_machine_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "main_memory", lambda: 100)
    assert preflight.device_memory(parsed("hardware=cpu2").hardware) == 50


@pytest.mark.slow
def test_as_many_runs_at_once_as_cores_and_memory_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parsed("scale=small")
    each = peak(preflight.rows_of(config)[0])[1] + preflight.LIBRARIES
    monkeypatch.setattr(preflight, "cores", lambda: 6)

    def at_once(memory: float, *words: str) -> int:
        monkeypatch.setattr(preflight, "main_memory", lambda: int(memory / 0.9))
        return preflight.runs_at_once(parsed("scale=small", *words))

    assert [at_once(n * each) for n in (0.5, 1.1, 4.1, 100)] == [1, 1, 4, 6]
    assert at_once(100 * each, "hardware.processes=2") == 3
    assert at_once(100 * each, "hardware.processes=8") == 1
    assert at_once(4.5 * each, "hardware.processes=2") == 2
    assert at_once(0.5 * each, "parallel_runs=3") == 3
    assert at_once(100 * each, "hardware=gpu1") == 1
    assert at_once(0.1 * each, "model.path=asset:nothing") == 6  # its worker refuses it
    monkeypatch.setattr(preflight, "main_memory", lambda: 100 * each)
    assert preflight.runs_at_once(parsed()) == 1  # only scale=small has another default


@pytest.mark.slow
def test_the_command_prints_the_table_without_weights(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "cory.train", "preflight_only=true", "experiment=cory/gsm8k_cory"],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    out = answer.stdout
    assert "model=llama2_7b_chat (bf16, base in nf4), 2 agents as adapters" in out
    # 6.476e9 weights at half a byte and 1/64 for scales, 0.262e9 at two bytes: 3.60 GiB
    assert "base of all agents, frozen                       3.60  always" in out
    if not torch.cuda.is_available():
        assert "this machine has no CUDA device to compare with" in out
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.slow
def test_estimate_meets_measurement(tmp_path: Path) -> None:
    """One agent with a copy of 31 M parameters, whole: the real command, as scripts/memory.py."""
    model, reviews = tmp_path / "model", tmp_path / "reviews.jsonl"
    make_model(model, 4)
    make_reviews(reviews)
    measured, estimated = run(Case("copies", 1), model, reviews, tmp_path)
    assert measured > 0.6
    assert 0.8 < estimated / measured < 1.15  # libraries at work are 0.05 GiB of it
