"""Figures of several runs, and scripts/curves.py."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from cory.report.figures.bars import bars_figure
from cory.report.figures.debates import over_steps
from cory.report.figures.page_curves import page_curves
from cory.report.figures.style import figure_of
from cory.report.figures.training import EndPoint, grid_panel, pareto_figure, pass_panel
from cory.report.tables.numbers import agent_label, agents_in_metrics
from cory.report.tables.training import frontier
from cory.runs.run_dir import read_lines

ROOT = Path(__file__).resolve().parent.parent.parent


def write_run(
    run_dir: Path,
    values: list[float],
    agents: int = 1,
    experiment: str = "one",
    scale: str = "paper",
    finished: bool = True,
    seed: int = 0,
) -> Path:
    run_dir.mkdir(parents=True)
    lines = [
        {"iteration": i}
        | {
            f"objective/{key}/agent_{agent}": value + agent
            for key in ("score", "kl", "combined")
            for agent in range(agents)
        }
        for i, value in enumerate(values)
    ]
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run_dir / "config.yaml").write_text(
        f"experiment: {experiment}\nscale: {scale}\nseed: {seed}\n"
    )
    if finished:
        record = json.dumps({"experiment": experiment, "scale": scale})
        (run_dir / "record.json").write_text(record)
    return run_dir


def read(run_dir: Path) -> list[dict[str, Any]]:
    return read_lines(run_dir / "metrics.jsonl")


def test_three_panels_with_a_line_per_method_and_agent(tmp_path: Path) -> None:
    groups = {
        "PPO": [write_run(tmp_path / "p0", [1.0, 2.0, 3.0])],
        "CORY": [write_run(tmp_path / f"c{i}", [1.0, 2.0 + i, 3.0], agents=2) for i in range(2)],
    }
    figure = page_curves({name: list(map(read, dirs)) for name, dirs in groups.items()}, 1)
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "task reward (score)",
        "KL divergence to the reference (nats)",
        r"combined reward (score - $\eta$ KL)",
    ]
    for axes in figure.axes:
        assert axes.get_xlabel().startswith("iterations")
        _, ppo, _, llm1, _, llm2 = axes.get_lines()[:6]  # each after its raw mean
        assert list(ppo.get_ydata()) == [1.0, 2.0, 3.0]
        assert list(llm1.get_ydata()) == [1.0, 2.5, 3.0]
        assert list(llm2.get_ydata()) == [2.0, 3.5, 4.0]


def test_agents_are_called_as_in_the_paper() -> None:
    assert agent_label("PPO", "agent_0", ["agent_0"]) == "PPO"
    assert agent_label("CORY", "agent_1", ["agent_0", "agent_1"]) == "CORY LLM2"


def test_the_x_axis_can_count_responses(tmp_path: Path) -> None:
    runs = {"CORY": [read(write_run(tmp_path / "r", [1.0, 2.0]))]}
    raw, _ = page_curves(runs, 1, {"CORY": 64}).axes[0].get_lines()
    assert list(raw.get_xdata()) == [64, 128]


def test_agents_are_known_from_an_evaluation_alone() -> None:
    line = {"eval/score/agent_1": 1.0, "eval/score/agent_0": 1.0, "eval/score/team": 1.0}
    assert agents_in_metrics([line]) == ["agent_0", "agent_1"]


def test_agents_of_debates_are_named_by_turns() -> None:
    line = {f"objective/score/{name}": 1.0 for name in ("turn_10", "turn_2", "team")}
    assert agents_in_metrics([line]) == ["turn_2", "turn_10"]
    assert agent_label("MAPoRL", "turn_2", ["turn_2", "turn_3"]) == "MAPoRL turn 2"
    pair = ["agent_0_turn_2", "agent_1_turn_2"]
    assert agents_in_metrics([{f"eval/score/{name}": 1.0 for name in reversed(pair)}]) == pair
    assert agent_label("MAPoRL", pair[1], pair) == "MAPoRL LLM2 turn 2"


def named(axes: Any) -> list[Any]:
    """The lines that have a name: not the ends of bars."""
    return [line for line in axes.get_lines() if not line.get_label().startswith("_")] or [
        drawn.lines[0] for drawn in axes.containers
    ]


def test_ten_debates_can_be_told_apart() -> None:
    votes = {turn: [(0.5, 0.4, 0.6)] for turn in (1, 2, 3)}
    (axes,) = over_steps({"": {str(number): votes for number in range(10)}}, "x", "y", True).axes
    styles = {(x.get_color(), x.get_linestyle(), x.get_fillstyle()) for x in named(axes)}
    assert len(styles) == 10
    assert {round(float(y), 3) for _, y in axes.collections[0].get_paths()[0].vertices} == {
        0.4,
        0.6,
    }  # of a single seed: its own interval


def test_bars_are_means_with_one_standard_deviation() -> None:
    groups = {"g": {"one": [0.4, 0.6], "other": [0.25]}, "h": {"one": []}}
    (axes,) = bars_figure({"": groups}, "share", guess=0.5).axes
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([0.5, 0.25])
    (cross,) = [bars.errorbar for bars in axes.containers if getattr(bars, "errorbar", None)]
    ((low, high),) = [segment[:, 1] for segment in cross[2][0].get_segments()]
    assert (low, high) == pytest.approx((0.5 - 0.02**0.5, 0.5 + 0.02**0.5))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["g", "h"]
    assert list(axes.get_lines()[0].get_ydata()) == [0.5, 0.5]


def test_a_legend_with_long_labels_has_fewer_columns() -> None:
    for label, columns in {"short": 3, "a label of some forty letters " * 2: 1}.items():
        own = {f"{label} {number}": [0.5] for number in range(4)}
        figure = bars_figure({"": {"one": own, "other": own}}, "x")
        assert figure.legends[0]._ncols == columns


def test_a_frontier_holds_what_nothing_betters() -> None:
    points = [(0.0, 3.0), (1.0, 2.0), (1.0, 1.0), (0.5, 1.5), (2.0, 0.0), (2.0, 0.0)]
    assert frontier(points) == [(0.0, 3.0), (1.0, 2.0), (2.0, 0.0)]


def test_pareto_points_off_the_frontier_are_hollow() -> None:
    ppo = [EndPoint("1e-2", [1.0, 1.2], [2.0, 4.0]), EndPoint("1e-3", [0.5], [9.0])]
    (axes,) = pareto_figure({"PPO": ppo}).axes
    edge, hollow = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert (list(edge.get_xdata()), list(edge.get_ydata())) == ([1.1], [-3.0])
    assert (list(hollow.get_xdata()), hollow.get_fillstyle()) == ([0.5], "none")
    assert [text.get_text() for text in axes.texts] == [r"$\eta$ = 1e-2", r"$\eta$ = 1e-3"]
    (cross,) = axes.containers  # of the point with several seeds
    assert cross.has_xerr and cross.has_yerr


def test_pareto_points_in_one_place_share_a_label() -> None:
    ppo = [
        EndPoint("1e-2", [1.0], [2.0]),
        EndPoint("1e-3", [1.01], [2.01]),
        EndPoint("1e-4", [1.5], [2.0]),
    ]
    (axes,) = pareto_figure({"PPO": ppo, "CORY": [EndPoint("1e-2", [0.0], [9.0])]}).axes
    assert [(text.get_text(), text.xy) for text in axes.texts] == [
        (r"$\eta$ = 1e-2, 1e-3", (1.0, -2.0)),
        (r"$\eta$ = 1e-4", (1.5, -2.0)),
        (r"$\eta$ = 1e-2", (0.0, -9.0)),
    ]


def test_pass_at_k_has_a_band_of_seeds_or_of_its_interval() -> None:
    seeds = {k: [(0.1 * k, 0.0, 1.0), (0.3 * k, 0.0, 1.0)] for k in (1, 2)}
    single = {1: [(0.5, 0.4, 0.6)], 2: [(0.5, 0.4, 0.6)]}
    (axes,) = figure_of([pass_panel({"CORY": seeds, "PPO": single}, "pass@k")]).axes
    cory, ppo = named(axes)
    assert list(cory.get_ydata()) == pytest.approx([0.2, 0.4])
    assert list(ppo.get_ydata()) == [0.5, 0.5]
    assert axes.get_xscale() == "log" and [t.get_text() for t in axes.get_xticklabels()] == [
        "1",
        "2",
    ]
    spreads = [{round(float(y), 3) for _, y in b.get_paths()[0].vertices} for b in axes.collections]
    assert {0.059, 0.341} <= spreads[0] and spreads[1] == {0.4, 0.6}


def test_a_grid_says_what_was_not_run() -> None:
    means = {("1e-5", "0.1"): 2.0, ("1e-5", "0.3"): math.nan}
    figure = figure_of([grid_panel(["1e-5"], ["0.1", "0.2", "0.3"], means, "KL")])
    assert [text.get_text() for text in figure.axes[0].texts] == ["2.00", "not run", "diverged"]
