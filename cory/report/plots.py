"""Three kinds of figure in one style: curves with a band over seeds, grouped bars, and scatter."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

# Okabe and Ito's colours, told apart by colour-blind readers; their yellow is lost on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255")
MARKERS = "os^DvPX<"
LETTERS, LINE = 16, 8  # of a legend in an inch; that its line and gap take
MANY = 20  # points of a line from which on they have no markers
DATA = "Data"  # the PNG's field that holds a digest of what is drawn
STYLE = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "savefig.dpi": 110,
}


@contextmanager
def style() -> Iterator[None]:
    """The settings that every figure is drawn and written with."""
    with mpl.rc_context(STYLE):
        yield


def colour(number: int) -> str:
    """The colour of the line or bar with this number."""
    return COLOURS[number % len(COLOURS)]


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
    if 1 < smooth < len(mean):
        axes.plot(mean, color=colour(number), linestyle=dashes, linewidth=0.8, alpha=0.35)
        mean, spread = (own.rolling(smooth, center=True).mean() for own in (mean, spread))
    if len(runs) > 1:
        band = mean - spread, mean + spread
        axes.fill_between(mean.index, *band, color=colour(number), alpha=0.15, linewidth=0)
    marker = MARKERS[number % len(MARKERS)] if len(mean) < MANY else ""
    (line,) = axes.plot(
        mean, color=colour(number), linestyle=dashes, linewidth=1.8, marker=marker, markersize=4
    )
    return line


def bars(axes: Axes, values: Mapping[str, Mapping[str, pd.Series]]) -> None:
    """Groups of bars: group -> label -> one value per seed; whiskers: standard deviation."""
    labels = list(dict.fromkeys(label for group in values.values() for label in group))
    width = 0.8 / max(len(labels), 1)
    for number, label in enumerate(labels):
        known = [(place, own[label]) for place, own in enumerate(values.values()) if label in own]
        x = [place + (number - (len(labels) - 1) / 2) * width for place, _ in known]
        heights = [seeds.mean() for _, seeds in known]
        spread = [_spread(seeds) for _, seeds in known]
        axes.bar(x, heights, width * 0.92, yerr=spread, color=colour(number), label=label,
                 error_kw={"lw": 0.8, "ecolor": "#333333"})  # fmt: skip
    axes.set_xticks(range(len(values)), list(values))
    axes.grid(visible=False, axis="x")
    means = [float(seeds.mean()) for own in values.values() for seeds in own.values()]
    if min(means) > 0.5 * max(means):  # near one another: told apart above a floor
        axes.set_ylim(bottom=min(means) - 0.4 * (max(means) - min(means)))


def scatter(axes: Axes, points: Mapping[tuple[str, str], tuple[pd.Series, pd.Series]]) -> None:
    """Points by group and label, x and y given per seed; whiskers: standard deviations.

    A group has one colour, a label one marker.
    """
    groups, labels = (list(dict.fromkeys(names)) for names in zip(*points, strict=True))
    for (group, label), (x, y) in points.items():
        axes.errorbar(
            x.mean(), y.mean(), xerr=_spread(x), yerr=_spread(y), lw=0.8, markersize=5,
            color=colour(groups.index(group)), marker=MARKERS[labels.index(label) % len(MARKERS)],
            label=f"{group}: {label}" if group else label,
        )  # fmt: skip


def _spread(values: pd.Series) -> float:
    return float(values.std()) if len(values) > 1 else 0.0


def add_legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend of all panels' lines below them, in as many columns as there is room for."""
    handles: dict[str, Any] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if len(handles) > 1:
        letters = figure.get_figwidth() * LETTERS
        columns = max(1, int(letters // (max(map(len, handles)) + LINE)))
        columns = min(columns, len(handles))
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=columns)


def save(figure: Figure, path: Path, digest: str = "") -> None:
    """Write a PNG; digest: of what is drawn, for `digest_in`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={DATA: digest, "Software": None})


def digest_in(path: Path) -> str | None:
    """The digest of what a PNG of ours shows; None in another file."""
    from PIL import Image  # noqa: PLC0415  # comes with matplotlib, and is needed here alone

    with Image.open(path) as image:
        found = image.info.get(DATA)
    return None if found is None else str(found)
