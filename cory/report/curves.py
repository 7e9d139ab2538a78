"""Metrics of runs over their iterations: the curves.png of a run, and `cory-compare --curves`."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cory.report.plots import COLOURS, add_legend, curve, panels, save, style
from cory.report.runs import AGENT, TITLES, judged_by, read_metrics, split_name

DASHES = ("solid", "dashed", "dotted", "dashdot")
TRAINED = rf"objective/(score|kl|combined)/{AGENT}|(supervised|offline|verifier)/(loss|kl)(/.+)?"
SMOOTH = 10  # iterations that the curves of a long run are averaged over

Groups = Mapping[str, Sequence[pd.DataFrame]]  # name -> runs, as `read_metrics` gives them


def draw_run(run_dir: Path, path: Path) -> None:
    """Write the curves of a run as a PNG; nothing where it has none of the main metrics."""
    frame = read_metrics(run_dir)
    metrics = main_metrics([frame])
    if metrics:
        smooth = SMOOTH if len(frame) > 2 * SMOOTH else 1
        caption = "0 iterations: before the training" if 0 in frame.index else ""
        draw({"": [frame]}, metrics, path, smooth, caption)


def main_metrics(frames: Sequence[pd.DataFrame]) -> list[str]:
    """The metrics that are drawn unless others are asked for: learnt from, and judged by."""
    every = list(dict.fromkeys(name for frame in frames for name in frame))
    trained = [name for name in every if re.fullmatch(TRAINED, name)]
    return list(dict.fromkeys([*trained, *judged_by(every)]))


def draw(
    groups: Groups, metrics: Sequence[str], path: Path, smooth: int = 1, caption: str = ""
) -> None:
    """Write `figure_of` as a PNG; ValueError for more groups than there are colours."""
    if len(groups) > len(COLOURS):
        raise ValueError(
            f"at most {len(COLOURS)} groups fit one figure, and these are {len(groups)}: "
            f"{'; '.join(groups)}; name fewer runs"
        )
    with style():
        save(figure_of(groups, metrics, smooth, caption), path)


def figure_of(groups: Groups, metrics: Sequence[str], smooth: int = 1, caption: str = "") -> Figure:
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
