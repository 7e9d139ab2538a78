"""Write the tables and the figure of docs/performance.md from what was measured.

    python scripts/benchmark.py --only all --json docs/performance/benchmark.json
    python scripts/benchmark_peers.py --json docs/performance/peers.json
    python scripts/performance_page.py

Nothing is measured here. The text outside the page's two markers stays as it is.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from cory.performance.alternation import Answer, ratio
from cory.performance.machine import RATE_OF, SQUARE
from cory.report.figures.style import COLOURS, figure_of, finish, save_figure
from cory.report.tables.markdown import DASH, markdown

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"
FOLDER = ROOT / "docs" / "performance"
FIGURE = "performance.png"
BEGIN, END = "<!-- tables: written by scripts/performance_page.py -->", "<!-- tables: end -->"
PHASES = {"rollout": "roll-out", "reward": "scoring", "annotate": "statistics", "update": "update"}
METHODS = {
    "ppo": "PPO", "cory": "CORY", "debate": "MAPoRL, debates", "games": "SPAG, games",
    "maft": "MAFT", "update": "PPO, SmolLM2-135M's size",
}  # fmt: skip
PRECISIONS = {"fp32": "float32", "mixed": "mixed"}
WORKS = {"ppo": "PPO", "cory": "CORY", "comlrl": "64 joint samples, one pass"}
OURS, OUR_PPO = "cory", "cory, PPO alone"
# work, their runner, the largest share of its time that ours may take
GOALS = (
    ("PPO, of TRL's time with 64 prompts at a time", "ppo", "TRL, 64 prompts at a time", 0.5),
    ("PPO, of TRL's time with its default of 4", "ppo", "TRL, 4 prompts at a time", 0.3),
    ("CORY, of our own PPO's time", "cory", OUR_PPO, 2.5),
    ("CORY, of the released code's time", "cory", "TRL, as CORY's released code", 1 / 5),
    ("joint samples, of CoMLRL's time", "comlrl", "CoMLRL, 64 prompts", 1 / 30),
)
UPDATE_GOAL = 0.6  # of the rate of bfloat16 products


def rates_table(own: Answer) -> str:
    """How fast the machine multiplies matrices."""
    rows = [
        [shape, *(f"{of[precision] / 1e9:.0f}" for precision in ("fp32", "bf16"))]
        for shape, of in own["rates"].items()
    ]
    return markdown(["matrix product, GFLOP/s", "float32", "bfloat16"], rows)


def share_of_rate(own: Answer, found: Answer, precision: str, phase: str | None = None) -> float:
    """Operations a second, of an iteration or a phase, as a share of the machine's rate."""
    operations = found["operations"]
    count = sum(operations.values()) if phase is None else operations[phase]
    rate = own["rates"][SQUARE][RATE_OF[precision]]
    return float(count / found["seconds"][phase or "iteration"] / rate)


def methods_table(own: Answer) -> str:
    """One row per workload and precision."""
    head = ["iteration of", "precision", "seconds", *PHASES.values(), "tokens/s generated",
            "GFLOP", "of the rate", "update, of the rate", "peak GiB"]  # fmt: skip
    rows = []
    for name, by_precision in own["workloads"].items():
        for precision, found in by_precision.items():
            seconds, phases = found["seconds"], found["operations"]
            update = "update" in seconds
            rows.append([
                METHODS[name],
                PRECISIONS[precision],
                f"{seconds['iteration']:.2f}",
                *(f"{seconds[phase]:.2f}" if phase in seconds else DASH for phase in PHASES),
                f"{found['tokens'] / seconds['rollout']:.0f}",
                f"{sum(phases.values()) / 1e9:.0f}",
                f"{share_of_rate(own, found, precision):.0%}",
                f"{share_of_rate(own, found, precision, 'update'):.0%}" if update else DASH,
                f"{found['peak_bytes'] / 2**30:.1f}",
            ])  # fmt: skip
    return markdown(head, rows)


def floor_table(own: Answer) -> str:
    """What an iteration takes, beside its products by themselves; empty where not measured."""
    head = ["iteration of", "precision", "seconds", "products alone", "of it",
            "operations of torch", "microseconds besides, each"]  # fmt: skip
    rows = []
    for name, by_precision in own["workloads"].items():
        for precision, found in by_precision.items():
            if "products_alone" not in found:  # measured before this was
                return ""
            for phase in ("iteration", "rollout", "update"):
                whole = phase == "iteration"
                seconds = found["seconds"].get(phase)
                if seconds is None:
                    continue
                floor, calls = (
                    sum(of.values()) if whole else of[phase]
                    for of in (found["products_alone"], found["torch_operations"])
                )
                title = METHODS[name] if whole else f"... {PHASES[phase]}"
                rows.append([
                    title,
                    PRECISIONS[precision],
                    f"{seconds:.2f}",
                    f"{floor:.2f}",
                    f"{floor / seconds:.0%}",
                    str(calls),
                    f"{(seconds - floor) / calls * 1e6:.0f}",
                ])  # fmt: skip
    return markdown(head, rows)


def parts_table(own: Answer) -> str:
    """Where updates spend their time, by part of the model."""
    shares = {}
    for name in ("ppo", "update"):
        for precision, found in own["workloads"].get(name, {}).items():
            parts = found["update_by_part"]
            title = f"{METHODS[name]}, {PRECISIONS[precision]}"
            shares[title] = {part: value / sum(parts.values()) for part, value in parts.items()}
    order = dict.fromkeys(
        part for own in shares.values() for part in sorted(own, key=lambda p: -own[p])
    )
    rows = [[part, *(f"{own.get(part, 0):.0%}" for own in shares.values())] for part in order]
    return markdown(["part of an update", *shares], rows)


def seconds(answers: Sequence[Answer]) -> list[float]:
    """Of whole iterations."""
    return [float(answer["seconds"]["iteration"]) for answer in answers]


def peers_table(peers: Answer) -> str:
    """Every runner of every work, beside ours."""
    rows = []
    for work, by_precision in peers["works"].items():
        for precision, answers in by_precision.items():
            own = seconds(answers[OURS])
            for name, each in answers.items():
                middle, least, most = ratio(own, seconds(each))
                compared = name != OURS
                rows.append([
                    WORKS[work],
                    PRECISIONS[precision],
                    name,
                    f"{statistics.median(seconds(each)):.2f}",
                    f"{middle:.3f} ({least:.3f} to {most:.3f})" if compared else DASH,
                    f"{1 / middle:.1f}" if compared else DASH,
                ])  # fmt: skip
    head = ["work", "precision", "runner", "seconds", "ours / this (rounds)", "times as fast"]
    return markdown(head, rows)


def fastest(by_precision: dict[str, dict[str, list[Answer]]], name: str) -> list[float]:
    """A runner's seconds per round, in the precision in which it is faster."""
    each = [seconds(answers[name]) for answers in by_precision.values()]
    return min(each, key=statistics.median)


def goals_table(own: Answer, peers: Answer) -> str:
    """What was to be reached; every side in the precision in which it is faster."""
    rows = []
    for title, work, other, goal in GOALS:
        by_precision = peers["works"].get(work)
        if by_precision is not None:
            reached, _, _ = ratio(fastest(by_precision, OURS), fastest(by_precision, other))
            said = "yes" if reached <= goal else "**no**"
            rows.append([title, f"at most {goal:.3g}", f"{reached:#.3g}", said])
    update = own["workloads"].get("update", {})
    if "mixed" in update:
        share = share_of_rate(own, update["mixed"], "mixed", "update")
        said = "yes" if share >= UPDATE_GOAL else "**no**"
        title = "update at SmolLM2-135M's size, of the rate of bfloat16 products"
        rows.append([title, f"at least {UPDATE_GOAL:.0%}", f"{share:.0%}", said])
    return markdown(["goal", "wanted", "measured", "reached"], rows)


def about(measured: Answer) -> str:
    """Where and when something was measured."""
    libraries = measured["versions"]
    return (
        f"{measured['cpu']}, {measured['threads']} threads, torch {libraries['torch']}, "
        f"transformers {libraries['transformers']}; commit {measured['commit'][:7]}, "
        f"{measured['day']}"
    )


@dataclass(frozen=True)
class Bars:
    """Horizontal bars, each of one or several pieces end to end."""

    rows: Sequence[tuple[str, Sequence[tuple[str, float, str]]]]  # tick; label, length, colour
    axis: str
    logarithmic: bool = False

    def draw(self, axes: Axes) -> None:
        """Draw them."""
        for place, (_, pieces) in enumerate(self.rows):
            left = 0.0
            for label, length, colour in pieces:
                axes.barh(place, length, left=left, height=0.75, color=colour, label=label)
                left += length
            axes.text(left, place, f" {left:.3g}", va="center", fontsize=7)
        axes.set_yticks(range(len(self.rows)), [tick for tick, _ in self.rows], fontsize=7)
        axes.invert_yaxis()
        if self.logarithmic:
            axes.set_xscale("log")
            axes.axvline(1.0, color="#555555", linewidth=0.8)
        axes.margins(x=0.15)
        axes.set_xlabel(self.axis)
        finish(axes)
        axes.grid(axis="y", visible=False)


def draw(own: Answer, peers: Answer, path: Path) -> None:
    """The figure: seconds by phase, and how many times as long others take."""
    phases = [
        (
            f"{METHODS[name]}, {PRECISIONS[precision]}",
            [
                (title, found["seconds"][phase], COLOURS[number])
                for number, (phase, title) in enumerate(PHASES.items())
                if phase in found["seconds"]
            ],
        )
        for name, by_precision in own["workloads"].items()
        if name != "update"  # minutes beside seconds
        for precision, found in by_precision.items()
    ]
    others = []
    for work, by_precision in peers["works"].items():
        for name in next(iter(by_precision.values())):
            if name not in (OURS, OUR_PPO):
                times, _, _ = ratio(fastest(by_precision, name), fastest(by_precision, OURS))
                others.append((f"{WORKS[work]}:\n{name}", [("", times, COLOURS[6])]))
    panels = [
        Bars(phases, "seconds of an iteration's phases, a median each"),
        Bars(others, "times as long as cory, each in its faster precision", logarithmic=True),
    ]
    save_figure(figure_of(panels, width=5.5, height=4.2), path)


def page_with(text: str, tables: str) -> str:
    """The page with other tables between its markers; ValueError where it has none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs a line {BEGIN}, and after it one {END}")
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def tables_of(own: Answer, peers: Answer) -> str:
    """Everything between the markers."""
    parts = [
        f"- Ours: {about(own)}.\n- Beside others: {about(peers)}.",
        goals_table(own, peers),
        f"![Seconds by phase, and how many times as long others take]({FOLDER.name}/{FIGURE})",
        methods_table(own),
        floor_table(own),
        parts_table(own),
        rates_table(own),
        peers_table(peers),
    ]
    return "\n\n".join(part for part in parts if part)


def read(path: Path) -> dict[str, Any]:
    """What a benchmark wrote."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--benchmark", type=Path, default=FOLDER / "benchmark.json")
    parser.add_argument("--peers", type=Path, default=FOLDER / "peers.json")
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args()
    own, peers = read(args.benchmark), read(args.peers)
    text = page_with(args.page.read_text(encoding="utf-8"), tables_of(own, peers))
    args.page.write_text(text, encoding="utf-8")
    draw(own, peers, args.benchmark.with_name(FIGURE))


if __name__ == "__main__":
    main()
