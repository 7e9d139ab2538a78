"""Curves: what is averaged, and what is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from cory.report.plots import curves_of, draw_run, main_metrics
from tests.support.recorded_runs import record_run

KL = "objective/kl/agent_0"


def frames(*values: Sequence[float], metric: str = KL) -> list[pd.DataFrame]:
    return [pd.DataFrame({metric: own}, index=range(1, len(own) + 1)) for own in values]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_line_is_the_mean_of_a_group_with_a_band_of_one_standard_deviation() -> None:
    groups = {"ppo": frames([1.0, 2.0, 9.0], [3.0, 6.0]), "cory": frames([7.0, 9.0])}
    figure = curves_of(groups, [KL])
    (axes,) = figure.axes
    first, second = axes.get_lines()
    # up to the end of the shortest run
    assert list(first.get_xdata()) == [1, 2] and list(first.get_ydata()) == [2.0, 4.0]
    assert list(second.get_ydata()) == [7.0, 9.0]
    (band,) = axes.collections  # one run has none
    assert to_hex(band.get_facecolor()[0]) == to_hex(first.get_color()) != second.get_color()
    edges = {round(float(y), 3) for _, y in band.get_paths()[0].vertices}
    assert edges == {0.586, 3.414, 1.172, 6.828}  # ± sqrt(2) and 2 sqrt(2)
    assert legend(figure) == ["ppo", "cory"]
    assert axes.get_ylabel() == "KL to the reference (nats)"


def test_panels_by_metric_and_lines_by_agent() -> None:
    names = [f"objective/{name}/agent_{n}" for name in ("score", "kl") for n in range(2)]
    frame = pd.DataFrame({name: [float(n), n + 1.0] for n, name in enumerate(names)})
    figure = curves_of({"a": [frame], "b": [frame]}, names)
    titles = [axes.get_ylabel() for axes in figure.axes]
    assert titles == ["reward in training", "KL to the reference (nats)"]
    assert legend(figure) == ["a, agent 0", "b, agent 0", "a, agent 1", "b, agent 1"]
    looks = [(line.get_color(), line.get_linestyle()) for line in figure.axes[0].get_lines()]
    assert len(set(looks)) == 4
    assert legend(curves_of({"": [frame]}, names)) == ["agent 0", "agent 1"]


def test_running_means_are_centred_over_whole_windows() -> None:
    figure = curves_of({"a": frames([0.0, 3.0, 6.0, 30.0, 0.0])}, [KL], smooth=3)
    raw, line = figure.axes[0].get_lines()
    assert list(raw.get_ydata()) == [0, 3, 6, 30, 0] and raw.get_linewidth() < 1
    known = pd.Series(line.get_ydata(), index=line.get_xdata()).dropna()
    assert known.to_dict() == {2: 3.0, 3: 13.0, 4: 12.0}
    (only,) = curves_of({"a": frames([1.0, 2.0])}, [KL], smooth=3).axes[0].get_lines()
    assert list(only.get_ydata()) == [1.0, 2.0]  # too short for a window


def test_a_run_draws_what_it_learns_from_and_what_it_is_judged_by(tmp_path: Path) -> None:
    line = {KL: 1.0, "objective/score/agent_0": 0.5, "objective/score/pioneer": 0.5, "role/a": 1.0}
    run_dir = record_run(tmp_path / "run", [line, {**line, "eval/score/agent_0": 1.0}])
    draw_run(run_dir, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    draw_run(record_run(tmp_path / "none", [{"role/a": 1.0}]), tmp_path / "b.png")
    assert not (tmp_path / "b.png").exists()
    every = [*line, "eval/score/agent_0", "eval/flow_wr/team"]
    frame = pd.DataFrame({name: [1.0] for name in every})
    assert main_metrics([frame]) == [KL, "objective/score/agent_0", "eval/score/agent_0"]
    assert main_metrics([frame[["role/a"]]]) == []
