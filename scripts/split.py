"""Draw README's picture: how teams of `task=split` learn, and what they say before and after.

python scripts/split.py outputs/runs/paper/paper/split docs/results/figures/split.png
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cory.report.plots import STYLE, curve, save
from cory.report.runs import read_metrics

SCORE = "rollout/return/team"
LINES = {"ppo": "team, PPO", "groups": "team, groups of four", "muted": "nothing told"}


def draw_curves(sweep: Path, axes: Axes) -> None:
    """Mean over seeds and a band of one standard deviation, of each kind of run."""
    for number, (run, name) in enumerate(LINES.items()):
        metrics = [
            read_metrics(folder)[SCORE].dropna() for folder in sorted((sweep / run).iterdir())
        ]
        line = curve(axes, metrics, number)
        line.set_label(f"{name} ({len(metrics)} seeds)")
    axes.axhline(0.1, color="#777777", linestyle="dotted", linewidth=1)
    axes.annotate("chance", (40, 0.12), color="#777777", fontsize=8, ha="right")
    axes.set(xlabel="iteration", title="share of right answers", ylim=(0, 1.02))


def dialogues(run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first held-out problem that was answered wrongly before and rightly after: its turns."""
    rows = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    team = [row for row in rows if row.get("who") == "team"]
    before = {row["prompt_id"]: row for row in team if row["kind"] == "before"}
    for after in (row for row in team if row["kind"] == "evaluation"):
        first = before[after["prompt_id"]]
        if not first["turns"][-1]["score"] and after["turns"][-1]["score"]:
            return first, after
    raise SystemExit(f"{run}: nothing was learnt")


def write_dialogues(run: Path, axes: Axes) -> None:
    """What both are shown and say, before and after."""
    axes.axis("off")
    y = 0.98
    for title, row in zip(("before", "after"), dialogues(run), strict=True):
        axes.text(0, y, title, weight="bold", fontsize=9, transform=axes.transAxes)
        for turn in row["turns"]:
            said = turn["response"].strip()
            axes.text(
                0,
                y - 0.08,
                turn["context"],
                fontsize=7.5,
                color="#555555",
                transform=axes.transAxes,
            )
            right = turn["score"] and turn is row["turns"][-1]
            axes.text(
                0.02,
                y - 0.165,
                f"{turn['agent']}: {said}{'   right' if right else ''}",
                fontsize=9,
                color="C1" if turn["agent"] == "teller" else "C0",
                transform=axes.transAxes,
            )
            y -= 0.19
        y -= 0.13


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sweep", type=Path, help="folder of the runs of sweep=split/learns")
    parser.add_argument("picture", type=Path)
    args = parser.parse_args()
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
        draw_curves(args.sweep, left)
        write_dialogues(args.sweep / "ppo" / "seed0", right)
        figure.legend(loc="outside lower center", ncols=len(LINES), fontsize=8)
        save(figure, args.picture)


if __name__ == "__main__":
    main()
