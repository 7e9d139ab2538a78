"""The command `cory-curves`, and the curves.png of a run: metrics over iterations."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from cory.report.compare import add_arguments, chosen, finished
from cory.report.plots import COLOURS, curve
from cory.report.runs import AGENT, TITLES, group_runs, judged_by, read_metrics, split_name

ABOUT = """Draw the curves of any runs side by side.

    cory-curves outputs/adhoc/2026-01-31_12-00-00 -o curves.png
    cory-curves outputs/mine_sweep --metric objective/kl,rollout/distinct_2 --smooth 5

A folder stands for every run below it. Runs that differ in their seed alone make one line per
agent, with a band of one standard deviation; what else differs names the lines.
"""
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
        figure_of({"": [frame]}, metrics, smooth, caption).savefig(path, dpi=150)


def main_metrics(frames: Sequence[pd.DataFrame]) -> list[str]:
    """The metrics that are drawn unless others are asked for: learnt from, and judged by."""
    every = list(dict.fromkeys(name for frame in frames for name in frame))
    trained = [name for name in every if re.fullmatch(TRAINED, name)]
    return list(dict.fromkeys([*trained, *judged_by(every)]))


def figure_of(groups: Groups, metrics: Sequence[str], smooth: int = 1, caption: str = "") -> Figure:
    """A figure with a panel for each kind of metric and a line for each group and agent.

    metrics: by their whole names; smooth: iterations that the lines are running means over
    """
    panels: dict[str, list[str]] = {}
    for metric in metrics:
        panels.setdefault(split_name(metric)[0], []).append(metric)
    agents = list(dict.fromkeys(split_name(metric)[1] for metric in metrics))
    # a Figure of its own: pyplot and the backend that the user chose stay as they are
    figure = Figure(figsize=(3.9 * len(panels), 4.2), layout="constrained")
    legend: dict[str, Line2D] = {}
    for axes, name in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for metric in panels[name]:
            agent = split_name(metric)[1]
            for number, (group, frames) in enumerate(groups.items()):
                runs = [frame[metric].dropna() for frame in frames if metric in frame]
                colour, dash = number, agents.index(agent)
                if len(groups) == 1:
                    colour, dash = dash % len(COLOURS), dash // len(COLOURS)
                words = [group, agent.replace("_", " ") if not group or len(agents) > 1 else ""]
                label = ", ".join(filter(None, words)).replace("$", r"\$")
                if runs:
                    dashes = DASHES[dash % len(DASHES)]
                    legend[label] = curve(axes, runs, colour, dashes, smooth)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.set(xlabel="iterations done", ylabel=TITLES.get(name, name).rstrip(",: "))
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    below = {"loc": "outside lower center", "ncols": min(4, len(legend)), "frameon": False}
    figure.legend(list(legend.values()), list(legend), **below)
    notes = [caption, f"thick: running means over {smooth} iterations" if smooth > 1 else ""]
    figure.suptitle("; ".join(filter(None, notes)), x=0.01, ha="left", fontsize=8)
    return figure


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument(
        "--smooth", type=int, default=1, metavar="N", help="running means over N iterations"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("curves.png"))
    args = parser.parse_args()
    try:
        if args.smooth < 1:
            raise ValueError(f"--smooth must be at least 1, got {args.smooth}")
        runs = group_runs(finished(args.run_dirs, args.unfinished))
        groups = {
            str(name): [read_metrics(run_dir) for run_dir in own.index]
            for name, own in runs.groupby("group", sort=False)
        }
        if len(groups) > len(COLOURS):
            raise ValueError(
                f"at most {len(COLOURS)} groups fit one figure, and these are {len(groups)}: "
                f"{'; '.join(groups)}; name fewer runs"
            )
        frames = [frame for own in groups.values() for frame in own]
        every = list(dict.fromkeys(name for frame in frames for name in frame))
        metrics = chosen(every, args.metric) if args.metric else main_metrics(frames)
        if not metrics:
            raise ValueError(f"name what to draw with --metric, as one of {', '.join(every[:5])}")
        caption = "mean ± one standard deviation of runs"
        figure_of(groups, metrics, args.smooth, caption).savefig(args.output, dpi=150)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    for name, own in groups.items():
        print(f"{name}: {len(own)} run{'s' if len(own) > 1 else ''}")
    print(args.output)


if __name__ == "__main__":
    main()
