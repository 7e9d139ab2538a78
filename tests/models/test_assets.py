"""Models that solve arithmetic are what their facts say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cory
from tests.support.building import build, measure
from tests.support.composing import parsed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("process_group")]

PACKAGE = Path(cory.__file__).resolve().parent
QUESTIONS = 120


@pytest.mark.parametrize(
    ("model", "kinds", "bounds"),
    [
        # with enough held-out questions, some solved and some not; something is left to learn
        ("tiny_math", ("add", "subtract", "story"), (0.2, 0.5)),
        # their mistakes are drawn, not made greedily
        ("tiny_steps", ("chain", "story"), (0.9, 1.0)),
        ("tiny_steps_2x", ("chain", "story"), (0.9, 1.0)),
    ],
)
def test_a_model_solves_as_many_problems_as_its_facts_say(
    model: str, kinds: tuple[str, ...], bounds: tuple[float, float], tmp_path: Path
) -> None:
    config = parsed(
        "algorithm=ppo",
        "algorithm.iterations=0",
        f"model={model}",
        "task=arithmetic",
        f"task.kinds=[{','.join(kinds)}]",
        "task.train_problems=64",
        f"task.test_problems={QUESTIONS}",
        "reward=exact_match",
        f"evaluation.prompts={QUESTIONS}",
        "evaluation.greedy=true",
        "algorithm.sampling.min_response_tokens=50",
        "algorithm.sampling.max_response_tokens=50",
    )
    final, _ = measure(build(config), config, tmp_path)
    facts = json.loads((PACKAGE / "assets" / model / "facts.json").read_text())
    assert bounds[0] <= facts["greedy_accuracy"] <= bounds[1]
    # other questions of the same part: two samples of 120 and 300 to 600
    expected = sum(facts["greedy_accuracy_by_kind"][kind] for kind in kinds) / len(kinds)
    assert final["eval/greedy/agent_0"] == pytest.approx(expected, abs=0.1)
