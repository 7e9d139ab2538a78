"""Curves with a band over seeds: of a run (its curves.png), and of `cory-compare --curves`."""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.rcsetup import cycler
from matplotlib.ticker import MaxNLocator

from cory.report.hints import AGENT
from cory.report.runs import TITLES, judged_by, read_metrics, split_name

# Okabe and Ito's colours, told apart by colour-blind readers; their yellow is lost on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255")
MARKERS = "os^DvPX<"
LETTERS, LINE = 16, 8  # of a legend in an inch; that its line and gap take
MANY = 20  # points of a line from which on they have no markers
STYLE = {
    "axes.prop_cycle": cycler(color=COLOURS),  # C0 is the first of them
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "savefig.dpi": 110,
}
DASHES = ("solid", "dashed", "dotted", "dashdot")
TRAINED = rf"objective/(score|kl|combined)/{AGENT}|(supervised|offline|verifier)/(loss|kl)(/.+)?"
SMOOTH = 10  # iterations that the curves of a long run are averaged over

Groups = Mapping[str, Sequence[pd.DataFrame]]  # name -> runs, as `read_metrics` gives them


def panels(count: int) -> tuple[Figure, Sequence[Axes]]:
    """A figure with so many axes side by side; pyplot's state stays as it is."""
    figure = Figure(figsize=(5.4 if count == 1 else 3.6 * count, 3.4), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def curve(
    axes: Axes, runs: Sequence[pd.Series], number: int, dashes: str = "solid", smooth: int = 1
) -> Line2D:
    """The mean of runs over the iterations that all of them have, and a band of ± one std.

    number: of its colour; smooth: iterations that a running mean is taken over
    """
    together = pd.concat(runs, axis="columns", join="inner")
    mean, spread = together.mean(axis="columns"), together.std(axis="columns")
    how: dict[str, Any] = {"color": f"C{number}", "linestyle": dashes}
    step = mean.index.to_series().diff().median()  # evaluations are farther apart
    smooth = round(smooth / step) if step > 0 else 1
    if 1 < smooth < len(mean):
        axes.plot(mean, **how, linewidth=0.8, alpha=0.35)
        # at both ends over what there is: a curve that stops early hides how a run ended
        mean, spread = (
            own.rolling(smooth, center=True, min_periods=smooth // 2).mean()
            for own in (mean, spread)
        )
    if len(runs) > 1:
        band = mean - spread, mean + spread
        axes.fill_between(mean.index, *band, color=f"C{number}", alpha=0.15, linewidth=0)
    marker = MARKERS[number % len(MARKERS)] if len(mean) < MANY else ""
    (line,) = axes.plot(mean, **how, linewidth=1.8, marker=marker, markersize=4)
    return line


def add_legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend of all panels' lines below them, in as many columns as there is room for."""
    handles: dict[str, Any] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if len(handles) > 1:
        columns = int(figure.get_figwidth() * LETTERS) // (max(map(len, handles)) + LINE)
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=max(1, columns))


def save(figure: Figure, path: Path) -> None:
    """Write a PNG, which does not say by which version of matplotlib."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})


def draw_run(run_dir: Path, path: Path) -> None:
    """Write the curves of a run as a PNG; nothing where it has none of the main metrics."""
    frame = read_metrics(run_dir)
    metrics = main_metrics([frame])
    if metrics:
        caption = "0 iterations: before the training" if 0 in frame.index else ""
        draw({"": [frame]}, metrics, path, caption)


def main_metrics(frames: Sequence[pd.DataFrame]) -> list[str]:
    """The metrics that are drawn unless others are asked for: learnt from, and judged by."""
    every = list(dict.fromkeys(name for frame in frames for name in frame))
    trained = [name for name in every if re.fullmatch(TRAINED, name)]
    return list(dict.fromkeys([*trained, *judged_by(every)]))


def draw(groups: Groups, metrics: Sequence[str], path: Path, caption: str) -> None:
    """Write `curves_of` as a PNG; ValueError for more groups than there are colours."""
    if len(groups) > len(COLOURS):
        raise ValueError(f"at most {len(COLOURS)} groups fit one figure, and these: {len(groups)}")
    longest = max(len(frame) for frames in groups.values() for frame in frames)
    smooth = SMOOTH if longest > 2 * SMOOTH else 1
    with mpl.rc_context(STYLE):
        save(curves_of(groups, metrics, smooth, caption), path)


def curves_of(groups: Groups, metrics: Sequence[str], smooth: int = 1, caption: str = "") -> Figure:
    """A figure with a panel for each kind of metric and a line for each group and agent.

    metrics: by their whole names; smooth: iterations that the lines are running means over
    """
    kinds = list(dict.fromkeys(split_name(metric)[0] for metric in metrics))
    agents = list(dict.fromkeys(split_name(metric)[1] for metric in metrics))
    figure, axes = panels(len(kinds))
    for panel, kind in zip(axes, kinds, strict=True):
        for metric in (metric for metric in metrics if split_name(metric)[0] == kind):
            agent = split_name(metric)[1]
            for number, (group, frames) in enumerate(groups.items()):
                runs = [frame[metric].dropna() for frame in frames if metric in frame]
                colour, dash = number, agents.index(agent)
                if len(groups) == 1:
                    colour, dash = dash % len(COLOURS), dash // len(COLOURS)
                words = [group, agent.replace("_", " ") if not group or len(agents) > 1 else ""]
                if runs:
                    line = curve(panel, runs, colour, DASHES[dash % len(DASHES)], smooth)
                    line.set_label(", ".join(filter(None, words)).replace("$", r"\$"))
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        panel.set(xlabel="iterations done", ylabel=TITLES.get(kind, kind).rstrip(",: "))
    add_legend(figure, axes)
    notes = [caption, f"thick: running means over {smooth} iterations" if smooth > 1 else ""]
    figure.suptitle("; ".join(filter(None, notes)), x=0.01, ha="left", fontsize=8)
    return figure


def draw_matrix(scores: pd.DataFrame, path: Path) -> None:
    """Write cross-play's scores as a heat map, each number in its cell."""
    with mpl.rc_context(STYLE):
        figure, (axes,) = panels(1)
        image = axes.imshow(scores, cmap="cividis")
        middle = (scores.to_numpy().min() + scores.to_numpy().max()) / 2
        for row, column in product(range(len(scores)), repeat=2):
            value = float(scores.iat[row, column])
            colour = "white" if value <= middle else "black"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour)
        axes.grid(visible=False)
        axes.set_xticks(range(len(scores)), scores.columns)
        axes.set_yticks(range(len(scores)), scores.index)
        axes.set(xlabel="partners", ylabel=str(scores.index.name))
        figure.colorbar(image, ax=axes, label="team score")
        save(figure, path)
