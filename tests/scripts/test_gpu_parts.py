"""The parts of scripts/gpu.py: the same work, limits of time, and numbers of what ran."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cory.config import parse_config
from cory.runtime.hydra_setup import compose
from scripts import gpu
from scripts.gpu import Session, Work, measured, of_run, run_part, table


@pytest.mark.parametrize(("algorithm", "asked"), [("grpo", 128), ("cory", 64)])
def test_our_runs_do_the_work_that_is_said(algorithm: str, asked: int, tmp_path: Path) -> None:
    command = Work().ours(algorithm, False, Path("asset:tiny"), tmp_path)
    assert command[:3] == [sys.executable, "-m", "cory.train"]
    config = parse_config(compose(*command[3:]))
    own, sampling = config.algorithm, config.algorithm.sampling
    assert config.hardware.cuda_graphs is False
    assert (own.name, own.prompts_per_iteration, own.epochs) == (algorithm, asked, 1)
    assert own.minibatch_size == config.hardware.microbatch_size == asked // 4
    assert sampling.min_response_tokens == sampling.max_response_tokens == 128
    if algorithm == "grpo":
        assert (own.samples_per_prompt, own.kl_coef, own.learning_rate) == (8, 0.04, 1e-6)
    assert (config.model.adapter.rank, config.model.adapter.alpha) == (16, 32)


def test_a_part_ends_well_or_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "SHORTEST_S", 0.1)
    session = Session(tmp_path / "gpu.json", Work(), 60)
    session.add("well", [sys.executable, "-c", "print(1)"])
    session.add("wrong", [sys.executable, "-c", "import sys; print('why'); sys.exit(3)"])
    echo = "import sys; print(sys.stdin.read().count('\\n'))"
    session.add("a line for each iteration", [sys.executable, "-c", echo])
    session.add("nothing", [sys.executable, "-c", "print('{}')"], gpu.of_trl)
    late = run_part(["sh", "-c", "echo 1; sleep 9"], 0.6)
    session.limit_s = 0
    session.add("left out", ["never"])
    parts = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    ended = [part["ended"].partition(":")[0] for part in parts.values()]
    assert parts["a line for each iteration"]["said"] == "3\n"
    assert ended == ["well", "with 3", "well", "without numbers", "no time was left"]
    assert parts["wrong"]["said"] == "why\n"
    assert (late["ended"], late["said"]) == ("late, after 1 s", "1\n")
    assert late["wall_s"] < 5  # what it started ended with it


def test_numbers_of_a_run_and_their_ratio(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    times = [{"time/iteration_s": s, "time/rollout_s": s / 2} for s in (99, 2, 4)]
    said = [{"rollout/response_tokens/a": 8, "rollout/response_tokens/b": n} for n in (1, 4, 8)]
    for name, rows in (("times.jsonl", times), ("metrics.jsonl", said)):
        (tmp_path / "run" / name).write_text("\n".join(map(json.dumps, rows)))
    record = {"peak_memory_gib": 1.5, "device": "d", "packages": {}, "commit": "c", "began": "b"}
    (tmp_path / "run" / "record.json").write_text(json.dumps(record))
    ours = measured({"ended": "well"}, of_run(tmp_path, Work(responses=16)))
    assert ours["iteration_s"] == 3  # the first iteration is not counted
    assert ours["tokens_per_s"] == (6 * 16 / 1 + 8 * 16 / 2) / 2
    lines = [
        [s, {"rollout_s": 2, "tokens": n, "peak_gib": s}] for s, n in ((50, 9), (5, 4), (7, 8))
    ]
    said = "\n".join(["a warning", *(gpu.ANSWER + json.dumps(line) for line in lines)])
    theirs = measured({"ended": "well"}, gpu.of_trl(said))
    assert (theirs["iteration_s"], theirs["tokens_per_s"], theirs["peak_gib"]) == (6, 3, 7)
    rows = table({"1B grpo": ours, "1B TRL": theirs, "2B grpo": ours, "2B TRL": {"ended": "late"}})
    assert "| 1B grpo | well | 3.00 | 0.50 | 80 | 1.5 |" in rows
    assert "| 2B grpo | well | 3.00 | - | 80 | 1.5 |" in rows
