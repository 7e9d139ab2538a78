"""curves.png of one run: what its method learns from, and how well it does, over iterations."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from cory.functional.statistics import mean
from cory.report.agent_names import KINDS, POLICY, agent_name, roles_in
from cory.report.before_after import Change, measured_changes, scores_of
from cory.report.figures.lines import Curve, LinePanel
from cory.report.figures.smoothing import smoothed
from cory.report.figures.style import COLOURS, MARKERS, figure_of, note, save_figure
from cory.runs.run_dir import METRICS, read_lines, read_record
from cory.runs.sweeps.differences import title_of

Lines = Sequence[Mapping[str, Any]]  # of metrics.jsonl
Points = list[tuple[int, float]]  # iteration, from 0, and value
Styles = Mapping[str, tuple[str, int]]  # who -> label and colour, the same in all panels
OwnChanges = dict[int, Change]  # iteration, from 0 -> change since before the training
Since = Mapping[tuple[str, int], Change]  # metric and iteration, from 0
SMOOTH = 10  # iterations that the thick line of a noisy metric averages over
# metrics of the training: pattern with the curve's name in its group, what the y axis says, and
# whether they are shares
TRAINED = (
    (rf"objective/score/({POLICY})", "task reward", False),
    (rf"objective/kl/({POLICY})", "KL to the reference (nats)", False),
    (rf"objective/combined/({POLICY})", "combined reward (reward - $\\eta$ KL)", False),
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
    (rf"score/({POLICY})", "held-out reward", False),
)
MOST_PANELS = 4
MOST_SAID = 4  # verdicts above a panel
DODGE = 0.02  # of the x axis, between bars that would cover each other


def draw_run_curves(run_dir: Path, path: Path) -> bool:
    """Write the curves of a finished run as a PNG; False where it has no metric to draw."""
    record = read_record(run_dir) or {}
    lines = read_lines(run_dir / METRICS)
    since = changes_since(scores_of(run_dir))
    figure = run_figure(lines, since)
    if not figure.axes:
        return False
    called = title_of(run_dir, str(record.get("experiment")), record.get("seed", 0))
    about = [f"{called}, {len(lines)} iterations"]
    if len(lines) > 2 * SMOOTH:
        about.append(f"thick: centred means over {SMOOTH} iterations, thin: each iteration")
    asked = max((row["n"] or 0 for row in record.get("before_after", [])), default=0)
    if asked:
        about.append(
            f"held-out: {asked} prompts, 0 is before training, bars: 95 % interval of the change "
            f"since 0, undecided where a bar reaches the dashed line"
        )
    note(figure, "; ".join(about))
    save_figure(figure, path)
    return True


def changes_since(scores: Sequence[Mapping[str, Any]]) -> Since:
    """The changes since the evaluation before the training, at every later one.

    scores: lines of prompt_scores.jsonl, the untrained agents' first
    """
    return {
        (change.metric, int(line["iteration"])): change
        for line in scores[1:]
        for change in measured_changes(scores[0], line)
    }


def run_figure(lines: Lines, since: Since | None = None) -> Figure:
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
    panels = [
        panel_of(training_curves(found, styles), "iteration", *one[1:]) for one, found in trained
    ]
    for one, found in measured:
        before = grouped(lines, f"before/{one[0]}")
        own = changes_of(one[0], found, since or {})
        curves = held_out_curves(before, found, styles, own)
        panels.append(panel_of(curves, "iterations done", *one[1:], said=verdicts(own, styles)))
    return figure_of(panels, width=3.9) if panels else Figure()


def changes_of(pattern: str, found: Mapping[str, Points], since: Since) -> dict[str, OwnChanges]:
    """Iteration -> change, for each curve of a panel that has some."""
    own: dict[str, OwnChanges] = {}
    for (metric, iteration), change in since.items():
        match = re.fullmatch(f"eval/{pattern}", metric)
        who = next((group for group in match.groups() if group), "") if match else ""
        if who in found and change.low is not None and change.high is not None:
            own.setdefault(who, {})[iteration] = change
    return own


def verdicts(own: Mapping[str, OwnChanges], styles: Styles) -> str:
    """What the last evaluation says of each curve, in a word."""
    said = [f"{styles[who][0]}: {changes[max(changes)].verdict}" for who, changes in own.items()]
    return "\n".join(said) if len(said) <= MOST_SAID else ""


def called(who: str, roles: Mapping[str, str]) -> str:
    """The label of a curve."""
    words = {"auc": "AUC", "accuracy": "accuracy"}
    return words.get(who) or agent_name(who, roles)


def in_order(who: str) -> tuple[str, list[int], str]:
    """Agents before turns, by their numbers."""
    return re.sub(r"\d+", "", who), [int(digits) for digits in re.findall(r"\d+", who)], who


def panel_of(curves: Sequence[Curve], x: str, name: str, share: bool, said: str = "") -> LinePanel:
    """The panel of some curves; said: what stands above it."""
    percent = 0 if share else None
    return LinePanel(curves, x, name, said, percent=percent, steps=(1, 2, 2.5, 5, 10))


def training_curves(found: Mapping[str, Points], styles: Styles) -> list[Curve]:
    """Of each metric a thin line as it was logged, and a thick one of its running mean."""
    curves: list[Curve] = []
    for who, points in found.items():
        label, colour = styles[who]
        series: dict[float, float] = {at + 1: value for at, value in points}
        noisy = len(series) > 2 * SMOOTH
        if noisy:
            thin = {"marker": "", "linewidth": 0.8, "alpha": 0.35}
            curves.append(Curve("", [*series], [*series.values()], colour=colour, look=thin))
            series = smoothed(series, SMOOTH)
        thick = {"marker": "" if noisy else MARKERS[colour], "linewidth": 1.8, "markersize": 4}
        curves.append(Curve(label, [*series], [*series.values()], colour=colour, look=thick))
    return curves


def held_out_curves(
    before: Mapping[str, Points],
    after: Mapping[str, Points],
    styles: Styles,
    own: Mapping[str, OwnChanges],
) -> list[Curve]:
    """The evaluations of each agent, the one before the training first.

    An interval is that of the change since then, so that it excludes the dashed line where the
    table of before and after says that the metric rose or fell.
    """
    curves = []
    last = max((at for found in after.values() for at, _ in found), default=0) + 1
    for place, (who, found) in enumerate(after.items()):
        label, colour = styles[who]
        start = dict(before.get(who, []))
        changes = own.get(who, {}) if start else {}
        points = [(0.0, value, value, value) for value in start.values()]
        aside = DODGE * last * (place - (len(after) - 1) / 2) if changes else 0.0
        for at, value in found:
            change = changes.get(at)
            low, high = (change.low, change.high) if change else (None, None)
            ends = (value, value)
            if change is not None and low is not None and high is not None:
                ends = change.before + low, change.before + high
            points.append((at + 1 + aside, value, *ends))
        x, y, below, above = (list(column) for column in zip(*points, strict=True))
        look = {"markersize": 6}
        if changes:
            level = {"linestyle": "dashed", "linewidth": 0.9, "marker": "", "alpha": 0.6}
            curves.append(Curve("", [0, last], [y[0], y[0]], colour=colour, look=level))
            curves.append(Curve(label, x, y, below, above, colour, look, band=0))
        else:
            curves.append(Curve(label, x, y, colour=colour, look=look))
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
