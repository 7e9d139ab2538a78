"""Records on resume: cut back to what the checkpoint knows, which has to be there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cory.config import Config, ConfigError
from cory.runs.files import read_lines
from cory.runs.recorder import Recorder

ConfigOf = Callable[..., Config]
NAMES = ("metrics.jsonl", "times.jsonl", "samples.jsonl", "prompt_scores.jsonl")


class Run:
    """Records of five iterations; a checkpoint is written before the fourth one is logged."""

    def __init__(self, run_dir: Path, config: Config) -> None:
        self.run_dir, self.config = run_dir, config
        recorder = Recorder(run_dir, config, 0)
        recorder.start(0, None)
        for iteration in range(5):
            recorder.log_lines([{"iteration": iteration, "kind": "training", "text": "‘x’ \u2028"}])
            if iteration == 3:
                self.state = recorder.state_dict()
            recorder.log_lines([{"iteration": iteration, "kind": "evaluation"}])
            recorder.log_scores({"iteration": iteration})
            recorder.log(iteration, {"reward": 0.25, "time/step_s": 1.0})
        recorder.close()

    def again(self, state: Any) -> tuple[int, dict[str, list[int]]]:
        """Go on after four iterations: how many are logged, and those of the lines that stay."""
        recorder = Recorder(self.run_dir, self.config, 0)
        logged = recorder.start(0 if state is None else 4, state)
        recorder.close()
        self.last = recorder.last
        kept = {name: [x["iteration"] for x in read_lines(self.run_dir / name)] for name in NAMES}
        return logged, kept


@pytest.fixture
def run(tmp_path: Path, config_of: ConfigOf) -> Run:
    return Run(tmp_path, config_of())


def test_lines_behind_the_checkpoint_are_cut_off(run: Run) -> None:
    logged, kept = run.again(run.state)
    assert logged == 4
    four = [0, 1, 2, 3]
    twice = [0, 0, 1, 1, 2, 2, 3, 3]
    assert kept == dict(zip(NAMES, (four, four, twice, four), strict=True))
    assert run.last == {"reward": 0.25}


@pytest.mark.parametrize("row", [b'{"iteration": 3', b"\0\0\n", b"[3]\n", b"{}\n"])
def test_an_iteration_that_was_not_logged_loses_its_evaluation(run: Run, row: bytes) -> None:
    """The kill came after its evaluation and before its line, or a crash damaged this one."""
    path = run.run_dir / "metrics.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]) + row)
    logged, kept = run.again(run.state)
    assert logged == 3
    assert kept["metrics.jsonl"] == kept["times.jsonl"] == kept["prompt_scores.jsonl"] == [0, 1, 2]
    assert kept["samples.jsonl"] == [0, 0, 1, 1, 2, 2, 3]  # its training episodes stay
    assert run.last == {"reward": 0.25}


def test_without_a_checkpoint_the_records_begin_anew(run: Run) -> None:
    logged, kept = run.again(None)
    assert logged == 0 and not any(kept.values())


@pytest.mark.parametrize("name", NAMES)
def test_what_the_checkpoint_relies_on_has_to_be_there(run: Run, name: str) -> None:
    path = run.run_dir / name
    before = path.read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(before)
    (run.run_dir / "record.json").touch()
    others = {name: (run.run_dir / name).read_bytes() for name in NAMES}
    with pytest.raises(ConfigError) as refusal:
        run.again(run.state)
    assert str(refusal.value).startswith(f"{path} is not what the run has written")
    assert {name: (run.run_dir / name).read_bytes() for name in NAMES} == others
    assert (run.run_dir / "record.json").exists()


def test_the_record_of_earlier_agents_goes(run: Run) -> None:
    (run.run_dir / "record.json").write_text(json.dumps({"iterations": 4}))
    run.again(run.state)
    assert not (run.run_dir / "record.json").exists()
