"""The table of before and after, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cory.report.agent_names import agent_name, roles_in
from cory.report.before_after import Change, changes, sentence, sentences, table

ROLES = {"agent_0": "pioneer", "agent_1": "observer"}


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
        scores(-1, {name: [1.0, 5.0, 9.0], "eval/greedy/agent_0": [0.0] * 3}),
        scores(9, {name: [0.0, 0.0, 0.0]}),
        scores(19, {name: [1.5, 5.6, 9.7]}),
    )
    kl = [{"objective/kl/agent_0": float(n), "objective/kl/pioneer": 1.0} for n in range(20)]
    reward, last = changes(run_dir, kl)
    assert (reward.metric, reward.n, reward.verdict) == (name, 3, "rose")
    assert reward.before == 5.0 and abs(reward.after - 5.6) < 1e-12
    assert reward.low is not None and 0.3 < reward.low < 0.6  # 0.6 +- 0.25
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


REWARD = "Held-out reward of agent 0 (pioneer)"


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.10, 0.32, "rose by 0.21 (95 % interval 0.10 to 0.32, 64 prompts): training helped."),
        (-0.32, -0.10,
         "fell by 0.21 (95 % interval 0.10 to 0.32, 64 prompts): training made it worse."),
        (-0.05, 0.47,
         "changed by +0.21 (95 % interval -0.05 to 0.47, 64 prompts): no difference can be told."),
        (0.0, 0.42,
         "changed by +0.21 (95 % interval 0.00 to 0.42, 64 prompts): no difference can be told."),
    ],
)  # fmt: skip
def test_the_sentence_says_which_of_three(low: float, high: float, said: str) -> None:
    after = 1.21 if high > 0 else 0.79
    change = Change("eval/score/agent_0", 1.0, after, low, high, 64)
    assert sentence(change, ROLES) == f"{REWARD} {said}"


def test_one_prompt_says_nothing() -> None:
    change = Change("eval/score/agent_0", 1.0, 2.0, None, None, 1)
    assert sentence(change, {}) == (
        "Held-out reward of agent 0 changed by +1.00, of one prompt: no difference can be told."
    )


def row(metric: str, low: float = 0.1) -> Change:
    return Change(metric, 0.0, 0.5, low, 0.9, 12)


def test_the_sentence_is_about_what_matters_most() -> None:
    """Accuracy before reward, for every agent; the last turn's vote; every opponent in games."""
    team = [row(f"eval/{kind}/agent_{n}") for n in (0, 1) for kind in ("score", "pass_at_1")]
    assert [said.split(" rose")[0] for said in sentences(team, ROLES)] == [
        "Held-out accuracy of agent 0 (pioneer)", "Held-out accuracy of agent 1 (observer)"
    ]  # fmt: skip
    debate = [row("eval/vote/turn_1", -1), row("eval/vote/turn_2"), row("eval/right/turn_2")]
    assert sentences([*team, *debate], {})[0].startswith("Majority right at turn 2 rose by 0.50")
    assert len(sentences([*team, *debate], {})) == 1
    games = [row("eval/win_rate/scripted"), row("eval/win_rate/random", -1),
             row("eval/win_rate_attacker/scripted")]  # fmt: skip
    first, second, more = sentences(games, {})
    assert first.startswith("Win rate against scripted rose") and "12 words" in first
    assert second.startswith("Win rate against random changed by +0.50")
    assert more == (
        "An interval half as wide needs about four times the prompts (evaluation.prompts=48)."
    )
    assert sentences([row("eval/right/turn_1")], {}) == []


def test_the_table() -> None:
    rows = [
        Change("eval/score/agent_0", -0.1, 0.087, -0.08, 0.4523, 32),
        Change("objective/kl/agent_1", 0.0, 0.263, None, None, None),
    ]
    assert table(rows, ROLES).splitlines() == [
        "before and after training                       before    after  difference"
        "  95 % interval          n",
        "held-out reward of agent 0 (pioneer)            -0.100    0.087      +0.187"
        "  -0.080 to +0.452      32",
        "KL in training (nats) of agent 1 (observer)      0.000    0.263      +0.263",
    ]
    assert table([], ROLES) == ""


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("agent_0", "agent 0 (pioneer)"),
        ("agent_2", "agent 2"),
        ("agent_0_turn_2", "agent 0, turn 2"),
        ("turn_3", "turn 3"),
        ("generation_1", "generation agent 1"),
        ("critic_0", "critic agent 0"),
        ("single", "single"),
        ("team", "team"),
        ("pioneer", "pioneer"),
        ("partner_reference", "partner reference"),
    ],
)
def test_one_name_for_an_agent(agent: str, name: str) -> None:
    assert agent_name(agent, ROLES) == name


def test_roles_are_those_of_the_last_iteration() -> None:
    two = [{"role/agent_0": 0.0, "role/agent_1": 1.0}, {"role/agent_0": 1.0, "role/agent_1": 0.0}]
    assert roles_in(two) == {"agent_0": "observer", "agent_1": "pioneer"}
    three = [{"role/agent_0": 2.0, "role/agent_1": 0.0, "role/agent_2": 1.0}]
    assert roles_in(three) == {
        "agent_0": "observer 2", "agent_1": "pioneer", "agent_2": "observer 1"
    }  # fmt: skip
    assert roles_in([{"objective/score/agent_0": 1.0}]) == {}
