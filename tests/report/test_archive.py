"""A finished run as rows of the archive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cory.report.archive import finished, run_frame
from cory.runs.run_dir import RECORD, SAMPLES
from tests.support.made_up_runs import WriteRun, lines_of


def test_a_run_becomes_rows(write_run: WriteRun, tmp_path: Path) -> None:
    run_dir = write_run("cory/imdb_ppo", 1, lines_of(2, 20, 1, 0))
    record = json.loads((run_dir / RECORD).read_text())
    record["benchmarks"] = {"agent_0": {"mmlu": {"value": 0.4, "stderr": 0.1}}}
    (run_dir / RECORD).write_text(json.dumps(record))
    line = {"kind": "probe", "who": "agent_0", "prompt": "P", "turns": [{"response": "R"}]}
    drawn = {**line, "sample": 0, "turns": [{"response": "drawn"}]}
    probes = [{**line, "sample": None}, drawn, {**line, "kind": "rollout"}]
    (run_dir / SAMPLES).write_text("".join(json.dumps(one) + "\n" for one in probes))

    (frame,) = finished(tmp_path / "outputs", "small", ["cory/imdb_ppo", "cory/imdb_cory"])
    assert set(frame.experiment) == {"cory/imdb_ppo"}
    assert set(frame.seed) == {1}
    assert set(frame.commit) == {record["commit"][:7]}
    values = frame.set_index(["metric", "iteration"]).value
    lines = [json.loads(raw) for raw in (run_dir / "metrics.jsonl").read_text().splitlines()]
    for written in lines:
        assert (
            values["objective/score/agent_0", written["iteration"]]
            == (written["objective/score/agent_0"])
        )
    assert values["benchmark/mmlu/agent_0", record["iterations"] - 1] == 0.4
    texts = frame[frame.text.notna()].set_index("metric").text
    assert json.loads(texts["probe/greedy/agent_0"]) == ["P", "R"]
    assert json.loads(texts["probe/sampled/agent_0"]) == ["P", "drawn"]
    assert len(texts) == 2
    assert values["rollout/distinct_2/agent_0", 0] == lines[0]["rollout/distinct_2/agent_0"]


def test_a_run_that_is_not_finished_is_refused(write_run: WriteRun) -> None:
    run_dir = write_run("cory/imdb_ppo", 1, lines_of(2, 20, 1, 0))
    (run_dir / RECORD).unlink()
    with pytest.raises(ValueError, match=r"has no record\.json: its run is not finished"):
        run_frame(run_dir)
