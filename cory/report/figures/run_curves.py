"""curves.png of one run: what its method learns from, and how well it does, over iterations."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from cory.functional.statistics import mean
from cory.report.agent_names import KINDS, agent_name, roles_in
from cory.report.figures.lines import Curve, LinePanel
from cory.report.figures.style import COLOURS, MARKERS, figure_of, note, save_figure
from cory.runs.run_dir import METRICS, read_lines, read_record
from cory.runs.sweeps.differences import title_of

Lines = Sequence[Mapping[str, Any]]  # of metrics.jsonl
Points = list[tuple[int, float]]  # iteration, from 0, and value
Styles = Mapping[str, tuple[str, int]]  # who -> label and colour, the same in all panels
SMOOTH = 10  # iterations that the thick line of a noisy metric averages over
# metrics of the training: pattern with the curve's name in its group, what the y axis says, and
# whether they are shares
TRAINED = (
    (r"objective/score/(agent_.+|turn_.+)", "task reward", False),
    (r"objective/kl/(agent_.+|turn_.+)", "KL to the reference (nats)", False),
    (r"objective/combined/(agent_.+|turn_.+)", "combined reward (reward - $\\eta$ KL)", False),
    (r"(?:supervised|offline)/loss/(.+)|verifier/loss", "loss", False),
    (r"offline/kl/(.+)", "KL to the set's start (nats)", False),
    (r"verifier/accuracy", "accuracy of verdicts, training", True),
    (r"debate/right/(turn_\d+)", "single answers right, training", True),
)
# metrics of evaluations, of the last part of their names
HELD_OUT = (
    (r"vote/(turn_\d+)", "held-out: majority right", True),
    (r"win_rate/(?!itself)(.+)", "held-out win rate against", True),
    (r"verifier_(auc|accuracy)/natural", "held-out verdicts", True),
    (r"score/(agent_\d+)", "held-out reward", False),
)
MOST_PANELS = 4


def draw_run_curves(run_dir: Path, path: Path) -> None:
    """Write the curves of a finished run as a PNG."""
    record = read_record(run_dir) or {}
    lines = read_lines(run_dir / METRICS)
    figure = run_figure(lines)
    called = title_of(run_dir, str(record.get("experiment")), record.get("seed", 0))
    about = f"{called}, {len(lines)} iterations"
    asked = max((row["n"] or 0 for row in record.get("before_after", [])), default=0)
    note(figure, f"{about}; held-out: {asked} prompts, 0 is before training" if asked else about)
    save_figure(figure, path)


def run_figure(lines: Lines) -> Figure:
    """A panel for each number that the run has, at most four: of evaluations last.

    x: iterations done, so that the evaluation before the training stands at 0
    """
    trained = [(one, found) for one in TRAINED if (found := grouped(lines, one[0]))]
    trained = trained[:MOST_PANELS]
    measured = [(one, found) for one in HELD_OUT if (found := grouped(lines, f"eval/{one[0]}"))][:1]
    if measured:
        trained = trained[: MOST_PANELS - 1]
    names = sorted({who for _, found in [*trained, *measured] for who in found}, key=in_order)
    if len(names) > len(COLOURS):
        trained = [(one, by_kind(found)) for one, found in trained]
        names = sorted({who for _, found in [*trained, *measured] for who in found}, key=in_order)
    roles = roles_in(lines)
    styles = {who: (called(who, roles), number % len(COLOURS)) for number, who in enumerate(names)}
    panels = [panel_of(training_curves(found, styles), *one[1:]) for one, found in trained]
    for one, found in measured:
        before = grouped(lines, f"before/{one[0]}")
        panels.append(panel_of(held_out_curves(before, found, styles), *one[1:]))
    return figure_of(panels, width=3.9)


def called(who: str, roles: Mapping[str, str]) -> str:
    """The label of a curve."""
    words = {"auc": "AUC", "accuracy": "accuracy"}
    return words.get(who) or agent_name(who, roles)


def in_order(who: str) -> tuple[str, list[int], str]:
    """Agents before turns, by their numbers."""
    return re.sub(r"\d+", "", who), [int(digits) for digits in re.findall(r"\d+", who)], who


def panel_of(curves: Sequence[Curve], name: str, share: bool) -> LinePanel:
    """The panel of some curves."""
    return LinePanel(
        curves, "iterations", name, percent=0 if share else None, steps=(1, 2, 2.5, 5, 10)
    )


def training_curves(found: Mapping[str, Points], styles: Styles) -> list[Curve]:
    """Of each metric a thin line as it was logged, and a thick one of its running mean."""
    curves: list[Curve] = []
    for who, points in found.items():
        label, colour = styles[who]
        x, y = [at + 1 for at, _ in points], [value for _, value in points]
        noisy = len(y) > 2 * SMOOTH
        if noisy:
            thin = {"marker": "", "linewidth": 0.8, "alpha": 0.35}
            curves.append(Curve("", x, y, colour=colour, look=thin))
            y = [mean(y[max(0, end - SMOOTH) : end]) for end in range(1, len(y) + 1)]
        thick = {"marker": "" if noisy else MARKERS[colour], "linewidth": 1.8, "markersize": 4}
        curves.append(Curve(label, x, y, colour=colour, look=thick))
    return curves


def held_out_curves(
    before: Mapping[str, Points], after: Mapping[str, Points], styles: Styles
) -> list[Curve]:
    """The evaluations of each agent, the one before the training first."""
    curves = []
    for who, found in after.items():
        label, colour = styles[who]
        points = [(0, value) for _, value in before.get(who, [])]
        points += [(at + 1, value) for at, value in found]
        x, y = zip(*points, strict=True)
        curves.append(Curve(label, x, y, colour=colour, look={"markersize": 6}))
    return curves


def grouped(lines: Lines, pattern: str) -> dict[str, Points]:
    """Iteration and value of each metric that matches, by the first group that did."""
    found: dict[str, Points] = {}
    for line in lines:
        for key, value in line.items():
            match = re.fullmatch(pattern, key)
            if match:
                who = next((group for group in match.groups() if group), "verifier")
                found.setdefault(who, []).append((int(line["iteration"]), float(value)))
    return found


def by_kind(found: Mapping[str, Points]) -> dict[str, Points]:
    """Means over all agents of a kind, as of generation agents; others as they are."""
    kinds: dict[str, dict[int, list[float]]] = {}
    for who, points in found.items():
        match = re.fullmatch(r"(agent|generation|critic)_.+", who)
        kind = f"{KINDS[match[1]]}s, mean" if match else who
        for at, value in points:
            kinds.setdefault(kind, {}).setdefault(at, []).append(value)
    return {
        kind: [(at, mean(values)) for at, values in by_iteration.items()]
        for kind, by_iteration in kinds.items()
    }
