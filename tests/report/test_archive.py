"""A finished run as rows of the archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cory.report.archive import finished, run_frame
from cory.runs.run_dir import RECORD
from tests.support.recorded_runs import record_run


def test_a_run_becomes_rows(tmp_path: Path) -> None:
    def probe(text: str, **more: Any) -> dict[str, Any]:
        line = {"kind": "probe", "who": "agent_0", "prompt": "P", "sample": 0}
        return {**line, "turns": [{"response": text}], **more}

    samples = [probe("R", sample=None), probe("drawn"), probe("no", kind="rollout")]
    lines = [{"objective/score/agent_0": n + 0.5} for n in range(3)]
    run_dir = tmp_path / "runs" / "small" / "paper" / "cory" / "imdb_ppo" / "seed1"
    record_run(run_dir, lines, samples=samples)
    about = {"experiment": "cory/imdb_ppo", "scale": "small", "seed": 1, "commit": "ab" * 20}
    scores = {"agent_0": {"mmlu": {"value": 0.4, "stderr": 0.1}}}
    record = {**about, "iterations": 3, "began": "2026-01-02T03:04:05", "benchmarks": scores}
    (run_dir / RECORD).write_text(json.dumps(record))

    (found,) = finished(tmp_path, "small", ["cory/imdb_ppo", "cory/imdb_cory"])
    frame = run_frame(found)
    stored = ("experiment", "scale", "seed", "commit", "date")
    expected = ["cory/imdb_ppo", "small", 1, "abababa", "2026-01-02"]
    assert [frame[name].unique().tolist() for name in stored] == [[one] for one in expected]
    values = frame.set_index(["metric", "iteration"]).value
    assert [values["objective/score/agent_0", n] for n in range(3)] == [0.5, 1.5, 2.5]
    assert values["benchmark/mmlu/agent_0", 2] == 0.4
    texts = frame[frame.text.notna()].set_index("metric").text.map(json.loads).to_dict()
    assert texts == {"probe/greedy/agent_0": ["P", "R"], "probe/sampled/agent_0": ["P", "drawn"]}

    (run_dir / RECORD).unlink()
    with pytest.raises(ValueError, match=r"has no record\.json: its run is not finished"):
        run_frame(run_dir)
