"""What a finished run prints, and its curves.png, for each kind of run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cory.report import run_summary
from cory.report.figures import style
from cory.report.figures.run_curves import changes_since, run_figure
from cory.report.next_steps import EXPLAINED
from cory.runs.stored_settings import SETTINGS

ROLES = {"role/agent_0": 1.0, "role/agent_1": 0.0}


def reward_lines(count: int) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for n in range(count):
        line = {"iteration": n, **ROLES}
        for agent in (0, 1):
            values = {"score": n + agent, "kl": 0.1 * n, "combined": n + agent - 0.1}
            line |= {f"objective/{key}/agent_{agent}": v for key, v in values.items()}
        lines.append(line)
    lines[0] |= {"before/score/agent_0": -1.0, "before/score/agent_1": -1.0}
    lines[-1] |= {"eval/score/agent_0": 2.0, "eval/score/agent_1": 3.0}
    return lines


def test_curves_of_rewards_name_agents_and_begin_before_the_training() -> None:
    figure = run_figure(reward_lines(30))
    titles = [axes.get_ylabel() for axes in figure.axes]
    assert titles == [
        "task reward",
        "KL to the reference (nats)",
        "combined reward (reward - $\\eta$ KL)",
        "held-out reward",
    ]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["agent 0 (observer)", "agent 1 (pioneer)"]
    thin, smooth, _, _ = figure.axes[0].get_lines()
    assert list(thin.get_xdata()) == list(range(1, 31)) and thin.get_ydata()[29] == 29
    # means of whole windows in their middles: the last is the table's "last 10"
    assert (smooth.get_xdata()[-1], smooth.get_ydata()[-1]) == (25.5, sum(range(20, 30)) / 10)
    assert (smooth.get_xdata()[0], smooth.get_ydata()[0]) == (5.5, 4.5)
    first, second = figure.axes[3].get_lines()
    assert (list(first.get_xdata()), list(first.get_ydata())) == ([0, 30], [-1.0, 2.0])
    assert list(second.get_ydata()) == [-1.0, 3.0]
    # an agent has one colour in all panels
    assert smooth.get_color() == first.get_color() != second.get_color()
    # few iterations are drawn as they are
    assert len(run_figure(reward_lines(4)).axes[0].get_lines()) == 2


AGENTS = [f"{kind}_{n}" for kind in ("generation", "critic") for n in range(3)]
KINDS = {
    "maft": (
        {f"supervised/loss/{who}": 0.5 for who in AGENTS}
        | {f"debate/right/turn_{n}": 0.5 for n in (1, 2)}
        | {f"eval/vote/turn_{n}": 0.5 for n in (1, 2)},
        ["loss", "single answers right, training", "held-out: majority right"],
        ["critic agents, mean", "generation agents, mean", "turn 1", "turn 2"],
    ),
    "spag": (
        {"offline/loss/agent_0": 1.0, "offline/kl/agent_0": 0.1, "eval/win_rate/itself": 0.5,
         "eval/win_rate/scripted": 0.6},
        ["loss", "KL to the set's start (nats)", "held-out win rate against"],
        ["agent 0", "scripted"],
    ),
    "verifier": (
        {"verifier/loss": 0.7, "verifier/accuracy": 0.5, "eval/verifier_auc/natural": 0.5,
         "eval/verifier_accuracy/natural": 0.4},
        ["loss", "accuracy of verdicts, training", "held-out verdicts"],
        ["accuracy", "AUC", "verifier"],
    ),
    "sft": (
        {"supervised/loss/turn_2": 0.7, "debate/right/turn_1": 0.5, "eval/vote/turn_2": 0.5},
        ["loss", "single answers right, training", "held-out: majority right"],
        ["turn 1", "turn 2"],
    ),
    "maporl": (
        {f"objective/{key}/turn_2": 0.1 for key in ("score", "kl", "combined")}
        | {"debate/right/turn_2": 0.5, "eval/vote/turn_1": 0.5, "eval/score/turn_2": 0.5},
        ["task reward", "KL to the reference (nats)", "combined reward (reward - $\\eta$ KL)",
         "held-out: majority right"],
        ["turn 1", "turn 2"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_curves_of_each_kind_of_run(kind: str) -> None:
    metrics, panels, names = KINDS[kind]
    figure = run_figure([{"iteration": n, **metrics} for n in range(3)])
    assert [axes.get_ylabel() for axes in figure.axes] == panels
    assert sorted(text.get_text() for text in figure.legends[0].get_texts()) == sorted(names)


@pytest.mark.slow
def test_the_end_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [{**line, f"{EXPLAINED}agent_0": -3.0} for line in reward_lines(12)]
    record = {"iterations": 12, "wall_s": 3.2, "experiment": "mine", "seed": 0}
    turns = [
        {"agent": "agent_1", "role": "pioneer", "round": 0, "response": "one", "score": 0.5},
        {"agent": "agent_0", "role": "observer", "round": 0, "response": "two", "score": -1.0},
    ]
    sample = {"kind": "training", "iteration": 11, "prompt": "say", "turns": turns}
    scores = [
        {"iteration": n, "prompts": ["a", "b", "c"], "shares": {},
         "values": {f"eval/score/agent_{k}": [v, v + k, v + 2] for k in (0, 1)}}
        for n, v in ((-1, -2.0), (11, 1.0))
    ]  # fmt: skip
    files: dict[str, list[Any]] = {
        "metrics": lines,
        "samples": [sample],
        "times": [{"time/iteration_s": 2.0, "time/rollout_s": 1.0}],
        "prompt_scores": scores,
    }
    for name, content in files.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in content))
    (tmp_path / "record.json").write_text(json.dumps(record))
    (tmp_path / SETTINGS).write_text("model: {value_init: zero}")
    run_summary.show_summary(tmp_path)
    out = capsys.readouterr().out
    assert "agent 0 (observer) first" in out and "agent_0" not in out
    assert "one held-out evaluation" not in out  # the last table has it
    assert "  query: say\n  agent 1 (pioneer): one   [+0.50]\n  agent 0 (observer): two" in out
    end = out[out.index("before and after training") :].splitlines()
    assert [row.split("  ")[0] for row in end[1:5]] == [
        "held-out reward of agent 0 (observer)",
        "held-out reward of agent 1 (pioneer)",
        "KL in training (nats) of agent 0 (observer)",
        "KL in training (nats) of agent 1 (pioneer)",
    ]
    assert end[5].startswith("combined reward in training of agent 0 (observer)")
    assert end[7] == ("(in training: before is the first iteration, after the mean of the last 10)")
    assert end[8] == (
        "Held-out reward of agent 0 (observer) changed by +3.00 (95 % interval 3.00 to 3.00, "
        "3 prompts): no difference can be told from fewer than 20."
    )
    assert end[10].startswith("It cost ") and end[11] == "What next:"
    assert any(step.startswith("- advantages=batch: the value head predicts") for step in end)
    (tmp_path / SETTINGS).write_text("model: {value_init: uniform}")
    run_summary.show_summary(tmp_path)
    assert "- model.value_init=zero, or advantages=batch: the value" in capsys.readouterr().out
    assert end[-2].startswith("- seeds: ") and end[-1] == f"Curves: {tmp_path / 'curves.png'}"
    (tmp_path / "varied.json").write_text('{"seed": "1"}')
    run_summary.show_summary(tmp_path)
    assert "seeds: " not in capsys.readouterr().out  # of a sweep over seeds
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    # a run of before the evaluation came has the row in its first table
    (tmp_path / "prompt_scores.jsonl").unlink()
    run_summary.show_summary(tmp_path)
    out = capsys.readouterr().out
    assert "one held-out evaluation" in out and "before and after" not in out


def test_an_evaluation_is_no_mean_over_a_run() -> None:
    lines = [{"iteration": n, "objective/score/agent_0": float(n)} for n in range(40)]
    for done, value in ((10, 0.1), (20, 0.3), (30, 0.6), (40, 0.9)):
        lines[done - 1]["eval/score/agent_0"] = value
    rows = {row[:26].strip(): row[26:].split() for row in
            run_summary.training_table(lines, {}).splitlines()}  # fmt: skip
    assert rows["one held-out evaluation"] == ["0.100", "0.900"]
    assert rows["task reward"] == ["0.000", "34.500"]


def test_parts_of_a_sum_are_no_agents() -> None:
    line = {f"eval/{name}/agent_0": 0.5 for name in ("score", "reward/taste", "pass_at_1")}
    assert run_summary.evaluation(line).splitlines()[1:] == [
        f"{'task reward':26}{'0.500':>24}", f"{'pass@1':26}{'0.500':>24}"
    ]  # fmt: skip


def test_a_turn_that_never_came_is_absent() -> None:
    turn = {"agent": "agent_0", "role": "debater_0", "round": 1, "response": None, "score": None}
    line = {"kind": "training", "iteration": 0, "prompt": "say", "turns": [turn]}
    assert run_summary.samples([line]).splitlines()[-1] == "  agent 0, turn 2:    [absent]"


def test_fewer_iterations_than_ten_are_counted() -> None:
    table = run_summary.training_table(reward_lines(4), {})
    assert table.splitlines()[0].split() == ["agent", "0", "first", "last", "4",
                                             "agent", "1", "first", "last", "4"]  # fmt: skip
    assert run_summary.learnt([{"verifier/loss": 2.0}]).splitlines()[0].split() == [
        "first", "last", "1"
    ]  # fmt: skip


def scores_line(iteration: int, **values: list[float]) -> dict[str, Any]:
    named = {f"eval/score/{agent}": own for agent, own in values.items()}
    return {"iteration": iteration, "prompts": ["a", "b", "c"], "shares": {}, "values": named}


def test_held_out_results_have_the_interval_of_the_table_and_its_verdict() -> None:
    """Bars are those of the change since before training; the dashed line is its zero."""
    scores = [
        scores_line(-1, agent_0=[-1.0, -1.0, -1.0] * 7, agent_1=[-1.0, -1.0, -1.0] * 7),
        scores_line(29, agent_0=[1.5, 2.0, 2.5] * 7, agent_1=[-27.0, 3.0, 33.0] * 7),
    ]
    since = changes_since(scores)
    axes = run_figure(reward_lines(30), since).axes[3]
    assert axes.get_title() == "agent 0 (observer): rose\nagent 1 (pioneer): undecided"
    levels = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
    assert [list(line.get_ydata()) for line in levels] == [[-1.0, -1.0]] * 2
    bars = [container.lines[2][0].get_segments()[-1] for container in axes.containers]
    for bar, change, level in zip(bars, since.values(), levels, strict=True):
        (_, low), (_, high) = bar
        assert change.low is not None and change.high is not None
        assert (low, high) == pytest.approx((change.low - 1.0, change.high - 1.0))
        assert (low <= level.get_ydata()[0] <= high) == (change.verdict == "undecided")
    assert bars[0][0][0] < 30 < bars[1][0][0]  # beside each other
    assert run_figure(reward_lines(30)).axes[3].get_title() == ""


def test_the_caption_is_not_cut_off(tmp_path: Path) -> None:
    figure = run_figure(reward_lines(4)[:-1])
    style.note(figure, "many words " * 40)
    figure.draw_without_rendering()
    assert figure.get_suptitle().count("\n") >= 1
    (text,) = [one for one in figure.texts if one.get_text() == figure.get_suptitle()]
    assert text.get_window_extent().x1 <= figure.bbox.x1


def test_who_says_a_turn() -> None:
    turn = {"agent": "turn_2", "role": "debater_1", "round": 1}
    assert run_summary.speaker(turn) == "agent 1, turn 2"
    assert run_summary.speaker({"agent": "agent_0", "role": "solo"}) == "agent 0"
    assert run_summary.speaker({"agent": "agent_2", "role": "observer_1"}) == "agent 2 (observer 1)"


def test_what_is_learnt_has_the_agents_name() -> None:
    lines = [{"supervised/loss/critic_0": 1.0, "verifier/loss": 2.0, "offline/kl/agent_0": 3.0}]
    rows = run_summary.learnt(lines).splitlines()[1:]
    assert [row.split("   ")[0] for row in rows] == [
        "KL (nats) of agent 0", "loss of critic agent 0", "loss"
    ]  # fmt: skip


def test_a_role_may_end_as_errors_do() -> None:
    line = {
        "eval/invalid/scripted": 0.0,
        "eval/win_rate/scripted": 0.5,
        "eval/win_rate_se/scripted": 0.1,
        "eval/win_rate_nurse/scripted": 0.25,
        "eval/win_rate_nurse_se/scripted": 0.1,
        "eval/win_rate_oracle/scripted": 0.75,
    }
    head, row = run_summary.games(line).splitlines()
    assert "win rate as nurse" in head and "win rate as oracle" in head
    assert head.count("win rate as") == 2
    assert row.split()[2:6] == ["0.250", "±", "0.196", "0.750"]
