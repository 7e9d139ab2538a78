"""tiny_math is what its facts say, on the way that a user takes to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cory
from tests.support.warm import WarmCommand

pytestmark = pytest.mark.slow

PACKAGE = Path(cory.__file__).resolve().parent
KINDS = ("add", "subtract", "story")  # with enough held-out questions, some solved and some not
QUESTIONS = 300
WORDS = [
    "algorithm=ppo",
    "algorithm.iterations=0",
    "model=tiny_math",
    "task=arithmetic",
    f"task.kinds=[{','.join(KINDS)}]",
    "task.train_problems=64",
    f"task.test_problems={QUESTIONS}",
    "reward=exact_match",
    f"evaluation.prompts={QUESTIONS}",
    "evaluation.greedy=true",
    "algorithm.sampling.min_response_tokens=48",
    "algorithm.sampling.max_response_tokens=48",
]


def test_tiny_math_solves_as_many_problems_as_its_facts_say(tmp_path: Path) -> None:
    command = WarmCommand(tmp_path, [*WORDS, f"run_dir={tmp_path / 'run'}"])
    assert command.wait(300) == 0, command.err
    final = json.loads((tmp_path / "run" / "record.json").read_text(encoding="utf-8"))["final"]
    facts = json.loads((PACKAGE / "assets" / "tiny_math" / "facts.json").read_text())
    assert 0.2 <= facts["greedy_accuracy"] <= 0.5  # so that something is left to learn
    # other questions of the same part: two samples of about 300 and 600
    expected = sum(facts["greedy_accuracy_by_kind"][kind] for kind in KINDS) / len(KINDS)
    assert final["eval/greedy/agent_0"] == pytest.approx(expected, abs=0.09)
