"""Curves of groups of runs: what is averaged, what is drawn, and what makes no curve."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from cory.report.figures.groups import cut_short, groups_figure, wanted
from cory.report.figures.smoothing import smoothed
from cory.report.figures.style import save_figure
from tests.report.test_plots import curves, write_run

KL = "objective/kl"


def seeds(
    *values: Sequence[float], metric: str = KL, agents: int = 1
) -> list[list[dict[str, float]]]:
    """Runs of a group: the metric of each agent, which agent 1 has ten times as large."""
    return [
        [
            {"iteration": i} | {f"{metric}/agent_{a}": v * 10**a for a in range(agents)}
            for i, v in enumerate(own)
        ]
        for own in values
    ]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_line_is_the_mean_of_a_group_and_no_more() -> None:
    runs = {"kl_coef=0.1": seeds([1, 2], [3, 6], agents=2), "kl_coef=0.3": seeds([7, 9], agents=2)}
    (axes,) = groups_figure(runs, [KL], title="what").axes
    first, second, third, fourth = axes.get_lines()
    assert [list(line.get_ydata()) for line in (first, second)] == [[2.0, 4.0], [20.0, 40.0]]
    assert [list(line.get_ydata()) for line in (third, fourth)] == [[7.0, 9.0], [70.0, 90.0]]
    assert list(first.get_xdata()) == [1, 2]  # iterations done
    assert first.get_color() == second.get_color() != third.get_color() == fourth.get_color()
    assert [line.get_linestyle() for line in (first, second)] == ["-", "--"]
    bands = [to_hex(band.get_facecolor()[0]) for band in axes.collections]
    assert bands == [first.get_color().lower()] * 2  # one run has no band
    edges = {round(float(y), 3) for _, y in axes.collections[0].get_paths()[0].vertices}
    assert edges == {0.586, 3.414, 1.172, 6.828}  # ± sqrt(2) and 2 sqrt(2)
    assert axes.get_ylabel() == "KL to the reference (nats)"


def test_metrics_of_the_whole_iteration_have_panels_of_their_own() -> None:
    names = ("verifier/accuracy", "verifier/loss", "reward/tokens", "reward/logged/a/b")
    names = (*names, "reward/taste/logged/c")
    runs = {"a": [[{"iteration": n, **dict.fromkeys(names, 1.0)} for n in range(2)]]}
    for some in (names[:3], names[3:]):
        assert wanted(runs, some) == {name: [""] for name in some}
    assert wanted({"a": seeds([1, 2])}, [f"{KL}/agent_0"]) == {KL: ["agent_0"]}
    assert groups_figure(runs, names[:1]).axes[0].get_ylabel() == "verifier/accuracy"


def test_lines_that_end_early_or_lack_runs_are_named() -> None:
    runs = {"a": seeds([1, 2, 3], [1, 2]), "b": [*seeds([1, 2]), [{"iteration": 0.0}]]}
    assert cut_short(runs, [KL]) == [
        f"{KL}/agent_0 of a ends at 2, with its shortest run",
        f"{KL}/agent_0 of b is of 1 of 2 runs",
    ]
    assert cut_short({"a": seeds([1, 2], [3, 4])}, [KL]) == []


def test_lines_are_named_by_group_and_agent() -> None:
    runs = {"a": seeds([1, 2], agents=2), "b": seeds([1, 2], agents=2)}
    assert legend(groups_figure(runs, [KL])) == [
        "a, agent 0", "a, agent 1", "b, agent 0", "b, agent 1"
    ]  # fmt: skip
    figure = groups_figure(runs, [f"{KL}/agent_1"])
    assert legend(figure) == ["a", "b"]
    assert list(figure.axes[0].get_lines()[0].get_ydata()) == [10.0, 20.0]


def test_names_and_titles_are_drawn_as_they_are_written(tmp_path: Path) -> None:
    runs = {"_mine": seeds([1, 2]), r"\$5 or $\foo$": seeds([3, 4])}
    runs = {name: [[line | {"objective/combined/agent_0": 1.0} for line in one] for one in own]
            for name, own in runs.items()}  # fmt: skip
    figure = groups_figure(runs, [KL, "objective/combined"], title=r"costs $\foo$")
    assert [name.strip() for name in legend(figure)] == list(runs)
    save_figure(figure, tmp_path / "a.png")
    texts = {text.get_text().strip(): text.get_parse_math() for text in figure.findobj(Text)}
    assert not texts[r"costs $\foo$"] and not texts[r"\$5 or $\foo$"]
    assert texts["combined reward (reward - $\\eta$ KL)"]  # a formula of this package


def test_each_metric_has_a_panel() -> None:
    both = [
        [one | other for one, other in zip(a, b, strict=True)]
        for a, b in zip(seeds([1, 2]), seeds([5, 6], metric="rollout/distinct_2"), strict=True)
    ]
    figure = groups_figure({"a": both}, [KL, "rollout/distinct_2/agent_0"])
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "KL to the reference (nats)",
        "rollout/distinct_2",
    ]
    assert list(figure.axes[1].get_lines()[0].get_ydata()) == [5.0, 6.0]


def test_running_means_are_centred_over_whole_windows_and_stand_before_the_values() -> None:
    series = dict(enumerate([0.0, 3.0, 6.0, 30.0, 0.0]))
    assert smoothed(series, 3) == {1: 3.0, 2: 13.0, 3: 12.0}
    assert smoothed(series, 4) == {1.5: 9.75, 2.5: 9.75}  # between two values
    assert smoothed(series, 1) == series and smoothed(series, 6) == {}
    rising = dict(enumerate(map(float, range(9))))
    assert all(at == value for at, value in smoothed(rising, 4).items())  # no lag
    (axes,) = groups_figure({"a": seeds([0, 3, 6, 30, 0])}, [KL], smooth=3).axes
    raw, line = axes.get_lines()
    assert list(raw.get_ydata()) == [0, 3, 6, 30, 0] and raw.get_linewidth() < 1
    assert list(line.get_xdata()) == [2, 3, 4] and list(line.get_ydata()) == [3.0, 13.0, 12.0]


def test_a_run_too_short_for_a_window_is_drawn_as_logged() -> None:
    runs = {"long": seeds([0, 3, 6, 30, 0]), "short": seeds([1, 2])}
    (axes,) = groups_figure(runs, [KL], smooth=3).axes
    assert [len(line.get_xdata()) for line in axes.get_lines()] == [5, 3, 2]


@pytest.mark.parametrize(
    ("runs", "metrics", "smooth", "said"),
    [
        ({"a": seeds([1, 2])}, ["objective/score"], 1, "objective/score is no metric of these"),
        ({"a": seeds([1])}, [KL], 1, "objective/kl/agent_0 has one value in each run"),
        ({"a": seeds([1, 2])}, [KL], 3, "--smooth 3 is more than the 2 values of"),
        (
            {f"k={n}": seeds([1, 2]) for n in range(8)},
            [KL],
            1,
            "at most 7 groups fit one figure, got 8: k=0; k=1; k=2; k=3; k=4; k=5; k=6; k=7$",
        ),
    ],
)
def test_what_makes_no_curve_is_refused(
    runs: dict[str, list[list[dict[str, float]]]], metrics: list[str], smooth: int, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        groups_figure(runs, metrics, smooth)


def test_a_long_legend_leaves_room_for_the_axes() -> None:
    names = [f"learning_rate=0.00{n}, kl_coef=0.{n}, minibatch_size={n}" for n in range(7)]
    runs = {name: seeds([1, 2], agents=2) for name in names}
    figure = groups_figure(runs, [KL])
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert len(legend(figure)) == 14
    (axes,) = figure.axes
    label = axes.yaxis.label.get_window_extent()
    assert label.y1 <= figure.bbox.y1 and label.y0 >= box.y1, "the label of the y axis is cut"
    assert axes.get_tightbbox().y0 >= box.y1


@pytest.mark.slow
def test_the_command_draws_what_it_is_asked(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path / f"one{seed}", [1.0, 2.0, 3.0], seed=seed, agents=2)
    write_run(tmp_path / "two", [1.0, 2.0, 3.0], experiment="two")
    out = tmp_path / "out.png"
    words = (
        tmp_path,
        "--metric",
        "objective/kl",
        "--smooth",
        "2",
        "--label",
        "PPO,CORY",
        "-o",
        out,
    )
    done = curves(*words)
    assert done.returncode == 0 and out.exists(), done.stderr
    assert done.stdout.splitlines() == ["PPO: 2 runs", "CORY: 1 run", str(out)]
    assert "not drawn" not in done.stderr
    only = write_run(tmp_path / "three", [1.0, 2.0], experiment="three")
    lines = (only / "metrics.jsonl").read_text().replace("objective/kl", "offline/loss")
    (only / "metrics.jsonl").write_text(lines)
    part = curves(tmp_path, "--metric", "objective/kl", "-o", out)
    assert part.returncode == 0 and "three" not in part.stdout
    assert "note: not drawn, without objective/kl: three\n" in part.stderr
    shutil.rmtree(only)
    pooled = curves(tmp_path, "--group-by", "scale", "-o", out)
    assert pooled.stderr == (
        "error: scale is the same in all of these runs; they differ in experiment\n"
    )
    for wrong, said in {
        ("--smooth", "0"): "--smooth must be at least 1, got 0",
        ("--metric", "objective/kll"): "objective/kll is no metric of these runs; did you mean "
        "objective/kl?",
        ("--label", "x"): "--label needs a name of its own for each of 2 groups (one; two), got x",
    }.items():
        refused = curves(tmp_path, *wrong, "-o", out)
        assert (refused.returncode, refused.stderr) == (1, f"error: {said}\n")


def test_too_many_groups_are_refused_with_what_to_do(tmp_path: Path) -> None:
    for n in range(8):
        run_dir = write_run(tmp_path / f"run{n}", [1.0, 2.0], experiment=f"e{n}")
        with (run_dir / "config.yaml").open("a") as file:
            file.write(f"model: {{depth: {n % 2}}}\n")
    refused = curves(tmp_path, "-o", tmp_path / "out.png")
    assert refused.stderr.startswith(
        "error: at most 7 groups fit one figure, and these are 8: e0; e1;"
    )
    assert refused.stderr.endswith("name fewer run directories\n")
