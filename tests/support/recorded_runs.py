"""Run folders with made-up records, for tests of what reads them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.rows import write_rows


def record_run(
    run_dir: Path,
    metrics: Sequence[Mapping[str, Any]],
    scores: Sequence[Mapping[str, Any]] = (),
    samples: Sequence[Mapping[str, Any]] = (),
    finished: bool = True,
    **settings: Any,
) -> Path:
    """Write a run.

    metrics: of each iteration, without its number
    scores: lines of prompt_scores.jsonl; samples: of samples.jsonl
    settings: beside `experiment: mine` and `seed: 0`
    """
    lines = [{"iteration": number, **line} for number, line in enumerate(metrics)]
    files = {"metrics": lines, "prompt_scores": scores, "samples": samples}
    run_dir.mkdir(parents=True)
    for name, content in files.items():
        write_rows(run_dir / f"{name}.jsonl", content)
    stored = {"experiment": "mine", "scale": "paper", "seed": 0, **settings}
    (run_dir / "config.yaml").write_text(json.dumps(stored))
    if finished:
        record = {"iterations": len(lines), "wall_s": 3.2, "experiment": "mine", "seed": 0}
        (run_dir / "record.json").write_text(json.dumps(record))
    return run_dir


def score_line(iteration: int, *values: float, metric: str, tries: int | None = None) -> Any:
    """A line of prompt_scores.jsonl; iteration -1: before the training."""
    return {
        "iteration": iteration,
        "prompts": [f"prompt-{number}" for number in range(len(values))],
        "shares": {} if tries is None else {metric: tries},
        "values": {metric: list(values)},
    }
