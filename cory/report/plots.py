"""Three kinds of figure in one style: curves with a band over seeds, grouped bars, and scatter."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by colour-blind readers; their yellow is lost on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255")
MARKERS = "os^DvPX<"
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


def panels(count: int, height: float = 3.0) -> tuple[Figure, Sequence[Axes]]:
    """A figure with so many axes side by side; pyplot's state stays as it is."""
    figure = Figure(figsize=(3.6 * count, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def curve(axes: Axes, lines: pd.DataFrame, label: str | None = None, number: int = 0) -> None:
    """Mean over seeds, with a band of one sample standard deviation.

    lines: of one metric, with columns seed, iteration, value
    """
    table = lines.pivot_table(index="iteration", columns="seed", values="value")
    mean, spread = table.mean(axis=1), table.std(axis=1).fillna(0)
    x = table.index.to_numpy()
    marker = MARKERS[number % len(MARKERS)] if len(x) <= 12 else None
    axes.plot(x, mean, color=colour(number), label=label, marker=marker, markersize=4)
    axes.fill_between(x, mean - spread, mean + spread, color=colour(number), alpha=0.18, lw=0)


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


def scatter(axes: Axes, points: Mapping[str, tuple[pd.Series, pd.Series]]) -> None:
    """One point a label, x and y given per seed; whiskers: standard deviations."""
    for number, (label, (x, y)) in enumerate(points.items()):
        axes.errorbar(
            x.mean(), y.mean(), xerr=_spread(x), yerr=_spread(y), label=label, lw=0.8,
            color=colour(number), marker=MARKERS[number % len(MARKERS)], markersize=5,
        )  # fmt: skip


def _spread(values: pd.Series) -> float:
    return float(values.std()) if len(values) > 1 else 0.0


def add_legend(figure: Figure, axes: Axes, columns: int = 3) -> None:
    """One legend below all panels."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)))


def save(figure: Figure, path: Path, data: Any = None) -> bool:
    """Write a PNG; returns whether it was written.

    data: what is drawn, as text; a file that shows the same data stays as it is, because other
        versions of matplotlib write other bytes
    """
    digest = hashlib.sha256(repr(data).encode()).hexdigest()[:16]
    if data is not None and path.exists() and digest_in(path) == digest:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={DATA: digest, "Software": None})
    return True


def digest_in(path: Path) -> str | None:
    """The digest of what a PNG of ours shows; None in another file."""
    from PIL import Image  # noqa: PLC0415  # comes with matplotlib, and is needed here alone

    with Image.open(path) as image:
        found = image.info.get(DATA)
    return None if found is None else str(found)
