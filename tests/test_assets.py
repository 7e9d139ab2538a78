"""The models in cory/assets are what their facts say, on the way that a user takes to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cory

PACKAGE = Path(cory.__file__).resolve().parent
QUESTIONS = 200
KINDS = (
    "add",
    "subtract",
    "story",
)  # of each enough held-out questions, and neither 0 nor all right


@pytest.fixture(scope="module")
def accuracy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """tiny_math's greedy accuracy on held-out questions of each kind."""
    folder = tmp_path_factory.mktemp("tiny_math")
    found = {}
    for kind in KINDS:
        words = [
            "algorithm=ppo",
            "algorithm.iterations=0",
            "task.train_problems=64",
            "model=tiny_math",
            "task=arithmetic",
            "reward=exact_match",
            f"task.kinds=[{kind}]",
            f"task.test_problems={QUESTIONS}",
            f"evaluation.prompts={QUESTIONS}",
            "evaluation.greedy=true",
            "algorithm.sampling.min_response_tokens=48",
            "algorithm.sampling.max_response_tokens=48",
            f"run_dir={folder / kind}",
        ]
        subprocess.run(
            [sys.executable, "-m", "cory.train", *words],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PACKAGE.parent)},
            check=True,
            capture_output=True,
            timeout=300,
        )
        record = json.loads((folder / kind / "record.json").read_text(encoding="utf-8"))
        found[kind] = record["final"]["eval/greedy/agent_0"]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_tiny_math_solves_as_many_problems_as_its_facts_say(
    accuracy: dict[str, float], kind: str
) -> None:
    facts = json.loads((PACKAGE / "assets" / "tiny_math" / "facts.json").read_text())
    assert 0.2 <= facts["greedy_accuracy"] <= 0.5  # so that something is left to learn
    # other questions of the same part: two samples of about 200
    assert accuracy[kind] == pytest.approx(facts["greedy_accuracy_by_kind"][kind], abs=0.12)
