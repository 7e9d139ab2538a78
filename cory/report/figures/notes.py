"""Texts beside points: each where it covers no other text and no point."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from cory.report.figures.style import PALETTE

# where a text may stand: its corner or edge at the point, in points of the page
# fmt: off
BESIDE = ((6, 4, "left", "bottom"), (6, -4, "left", "top"), (-6, 4, "right", "bottom"),
          (-6, -4, "right", "top"), (0, 9, "center", "bottom"), (0, -9, "center", "top"),
          (16, 12, "left", "bottom"), (16, -12, "left", "top"), (-16, 12, "right", "bottom"),
          (-16, -12, "right", "top"), (0, 22, "center", "bottom"), (0, -22, "center", "top"))
# fmt: on
LETTER = 0.62  # width of a letter, in sizes of the font
Box = tuple[float, float, float, float]  # left, bottom, right, top


@dataclass(frozen=True)
class Note:
    """A text beside a point."""

    text: str
    place: tuple[float, float]
    colour: int
    size: float = 8

    def draw(self, axes: Axes) -> None:
        """Write it right above the point."""
        self.draw_at(axes, *BESIDE[0])

    def draw_at(self, axes: Axes, dx: float, dy: float, ha: str, va: str) -> None:
        """Write it at a distance in points."""
        axes.annotate(
            self.text, self.place, xytext=(dx, dy), textcoords="offset points",
            fontsize=self.size, color=PALETTE[self.colour], ha=ha, va=va,
        )  # fmt: skip


@dataclass(frozen=True)
class Notes:
    """Texts of one panel. Drawn last: places depend on the limits of the axes."""

    texts: Sequence[Note]
    points: Sequence[tuple[float, float]]  # that no text may cover

    def draw(self, axes: Axes) -> None:
        """Write each at the first place that is free, else at the one that covers least."""
        taken = [_around(point) for point in self._on_page(axes, self.points)]
        spots = self._on_page(axes, [note.place for note in self.texts])
        for note, spot in zip(self.texts, spots, strict=True):
            boxes = [_box(note, spot, *beside) for beside in BESIDE]
            covered = [sum(_overlap(box, other) for other in taken) for box in boxes]
            best = int(np.argmin(covered))
            note.draw_at(axes, *BESIDE[best])
            taken.append(boxes[best])

    def _on_page(
        self, axes: Axes, places: Sequence[tuple[float, float]]
    ) -> list[tuple[float, float]]:
        """Points of the data as points of the page (1/72 inch)."""
        axes.autoscale_view()
        return [
            (float(x) * 72 / axes.figure.dpi, float(y) * 72 / axes.figure.dpi)
            for x, y in axes.transData.transform(np.array(places, dtype=float).reshape(-1, 2))
        ]


def _around(point: tuple[float, float]) -> Box:
    return point[0] - 4, point[1] - 4, point[0] + 4, point[1] + 4


def _box(note: Note, spot: tuple[float, float], dx: float, dy: float, ha: str, va: str) -> Box:
    """The box that a text would fill."""
    letters = len(note.text.replace("$", "").replace("\\eta", "n"))
    width, height = LETTER * note.size * letters, 1.25 * note.size
    left = spot[0] + dx - {"left": 0.0, "center": width / 2, "right": width}[ha]
    low = spot[1] + dy - (height if va == "top" else 0.0)
    return left, low, left + width, low + height


def _overlap(one: Box, other: Box) -> float:
    """The area that two boxes share."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(wide, 0.0) * max(high, 0.0)
