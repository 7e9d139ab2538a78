"""The metrics of a run as columns, and lines of many points thinned by means of neighbours."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIGITS = 5  # significant digits of a number on the page


@dataclass(frozen=True)
class Column:
    """One metric of one run: the iterations that have it, and its values there."""

    iterations: NDArray[np.int64]
    values: NDArray[np.float64]


def columns_of(lines: Iterable[Mapping[str, Any]]) -> dict[str, Column]:
    """Metric -> its column; of lines of metrics.jsonl. What is no number is left out."""
    found: dict[str, tuple[list[int], list[float]]] = {}
    for line in lines:
        iteration = int(line["iteration"])
        for name, value in line.items():
            if name == "iteration" or isinstance(value, bool):
                continue
            if isinstance(value, int | float):
                iterations, values = found.setdefault(name, ([], []))
                iterations.append(iteration)
                values.append(float(value))
    return {
        name: Column(np.array(iterations, np.int64), np.array(values, np.float64))
        for name, (iterations, values) in found.items()
    }


def strides(runs: Iterable[Mapping[str, Column]], points: int) -> dict[str, int]:
    """Metric -> how many neighbouring iterations become one point, in every run alike.

    1 where no run has more than `points` values. Alike in every run, so that seeds have their
    points at the same iterations and can be pooled.
    """
    most: dict[str, int] = {}
    spans: dict[str, int] = {}
    for columns in runs:
        for name, column in columns.items():
            most[name] = max(most.get(name, 0), len(column.values))
            span = int(column.iterations[-1] - column.iterations[0]) + 1
            spans[name] = max(spans.get(name, 0), span)
    return {
        name: 1 if count <= points else math.ceil(spans[name] / points)
        for name, count in most.items()
    }


def thinned(column: Column, stride: int) -> Column:
    """Means over `stride` neighbouring iterations, at the first iteration of each.

    Values that are no finite number are left out of a mean; one of such values alone is NaN.
    """
    if stride == 1:
        return column
    places, inverse = np.unique(column.iterations // stride, return_inverse=True)
    finite = np.isfinite(column.values)
    sums = np.bincount(inverse[finite], column.values[finite], len(places))
    counts = np.bincount(inverse[finite], minlength=len(places))
    means = np.divide(sums, counts, out=np.full(len(places), np.nan), where=counts > 0)
    return Column(places * stride, means)


def rounded(values: Iterable[float]) -> list[float | None]:
    """Numbers with `DIGITS` significant digits; None for what JSON does not know."""
    return [float(f"{float(x):.{DIGITS}g}") if math.isfinite(x) else None for x in values]
