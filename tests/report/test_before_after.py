"""The rows of the table of before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cory.report.before_after import changes


def scores(iteration: int, values: dict[str, list[float]], **shares: int) -> dict[str, Any]:
    prompts = [f"p{number}" for number in range(len(next(iter(values.values()))))]
    named = {name: shares["tries"] for name in values if "tries" in shares}
    return {"iteration": iteration, "prompts": prompts, "shares": named, "values": values}


def written(folder: Path, *lines: dict[str, Any]) -> Path:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "prompt_scores.jsonl").write_text(text)
    return folder


def test_the_first_and_the_last_evaluation_are_compared_prompt_by_prompt(tmp_path: Path) -> None:
    name = "eval/score/agent_0"
    run_dir = written(
        tmp_path,
        scores(-1, {name: [1.0, 5.0, 9.0] * 7, "eval/greedy/agent_0": [0.0] * 21}),
        scores(9, {name: [0.0, 0.0, 0.0] * 7}),
        scores(19, {name: [1.5, 5.6, 9.7] * 7}),
    )
    kl = [{"objective/kl/agent_0": float(n), "objective/kl/pioneer": 1.0} for n in range(20)]
    reward, last = changes(run_dir, kl)
    assert (reward.metric, reward.n, reward.verdict) == (name, 21, "rose")
    assert reward.before == 5.0 and abs(reward.after - 5.6) < 1e-12
    assert reward.low is not None and 0.5 < reward.low < 0.6  # 0.6 +- 0.04
    assert (last.metric, last.before, last.after) == ("objective/kl/agent_0", 0.0, 14.5)
    assert last.as_line() == {
        "metric": "objective/kl/agent_0", "before": 0.0, "after": 14.5, "low": None, "high": None,
        "n": None, "difference": 14.5,
    }  # fmt: skip
    assert reward.as_line()["verdict"] == "rose"


@pytest.mark.parametrize("fault", ["not before", "other prompts", "once", "absent"])
def test_nothing_is_compared_that_does_not_belong_together(tmp_path: Path, fault: str) -> None:
    first, last = (scores(n, {"eval/score/agent_0": [1.0, 2.0]}) for n in (-1, 5))
    if fault == "not before":
        first["iteration"] = 0
    if fault == "other prompts":
        last["prompts"] = ["p1", "p0"]
    if fault != "absent":
        written(tmp_path, *([first] if fault == "once" else [first, last]))
    assert changes(tmp_path, [{"objective/kl/agent_0": 1.0}]) == []


def test_shares_are_judged_as_shares(tmp_path: Path) -> None:
    """All four prompts rose by 1, which of shares is not certain, and of other numbers is."""
    values = {"eval/pass_at_1/agent_0": [0.0] * 4}, {"eval/pass_at_1/agent_0": [1.0] * 4}
    run_dir = written(tmp_path, scores(-1, values[0], tries=1), scores(3, values[1], tries=1))
    (row,) = changes(run_dir, [])
    assert row.low is not None and row.low < 0.7
    written(tmp_path, scores(-1, values[0]), scores(3, values[1]))
    assert changes(tmp_path, [])[0].low == 1.0


def test_what_says_the_same_twice_stands_once(tmp_path: Path) -> None:
    same = {name: [0.0, 1.0] for name in ("eval/score/agent_0", "eval/pass_at_1/agent_0")}
    other = {"eval/solved/itself": [0.0, 0.0], "eval/score/agent_1": [0.5, 0.25]}
    lines = [scores(n, same | other) for n in (-1, 3)]
    found = changes(written(tmp_path, *lines), [])
    assert [row.metric for row in found] == ["eval/pass_at_1/agent_0", "eval/score/agent_1"]
    debated = {"eval/vote/turn_1": [0.0, 1.0], "eval/score/turn_1": [0.0, 1.0]}
    lines = [scores(n, same | debated | {"eval/score/team": [1.0, 1.0]}) for n in (-1, 3)]
    found = changes(written(tmp_path, *lines), [])
    assert [row.metric for row in found] == ["eval/vote/turn_1", "eval/score/team"]


def test_the_combined_reward_of_the_training_is_a_row_without_an_interval(tmp_path: Path) -> None:
    """The mean of the last ten of twelve iterations, beside the first one."""
    run_dir = written(tmp_path, *(scores(n, {"eval/score/agent_0": [1.0, 2.0]}) for n in (-1, 11)))
    lines = [
        {"objective/combined/agent_0": 5.0 - n, "objective/combined/pioneer": 0.0}
        for n in range(12)
    ]
    (_, combined) = changes(run_dir, lines)
    assert (combined.metric, combined.n) == ("objective/combined/agent_0", None)
    assert (combined.before, combined.after) == (5.0, -1.5)
