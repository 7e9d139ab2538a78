"""Numbers of runs: one for each seed, their mean, differences paired by seed, and as text."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from cory.functional.statistics import LEVEL, ROUNDING
from cory.report.archive import Runs
from cory.report.papers import Row, Table
from cory.report.runs import EVALUATION, LAST

INTERVAL = f"{100 * LEVEL:.0f} % interval"
NOTHING = pd.DataFrame({name: [] for name in ("seed", "iteration", "value", "commit", "date")})


def at_the_end(lines: pd.DataFrame, metric: str, iteration: int | None = None) -> pd.Series:
    """Per seed, the mean over the metric's last values, or the value of one iteration.

    lines: of the metric in one experiment, with columns seed, iteration, value
    """
    if iteration is not None:
        return lines[lines.iteration == iteration].set_index("seed").value
    last = 1 if metric.startswith(EVALUATION) else LAST
    ends = lines.sort_values("iteration").groupby("seed").tail(last)
    return ends.groupby("seed").value.mean()


def paired(left: pd.Series, right: pd.Series) -> pd.Series:
    """left - right for each seed that both have, all three indexed by seed.

    What differs by float32's rounding alone is equal.
    """
    left, right = left.dropna().align(right.dropna(), join="inner")
    return (left - right).mask(np.isclose(left, right, rtol=ROUNDING, atol=0), 0.0)


def written(value: float, digits: int) -> str:
    """A number with so many decimals, never as -0.00."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if not float(text) else text


def decimals(values: pd.Series) -> int:
    """Decimals that show two digits of the spread over seeds, else three of the number."""
    if len(values) == 1 and float(values.iloc[0]).is_integer():
        return 0
    size = values.std() if len(values) > 1 and values.std() > 0 else abs(values.mean()) / 10
    if not size or not math.isfinite(size):
        return 2
    return min(max(1 - math.floor(math.log10(size)), 0), 6)


def interval_text(low: float, high: float) -> str:
    """`+0.563 to +0.924`; empty where it is not known (NaN)."""
    return "" if math.isnan(low) else f"{low + 0.0:+.3f} to {high + 0.0:+.3f}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table as text: the first column to the left, the others to the right.

    rows: the heads first; columns that have nothing but a head are left out
    """
    table = pd.DataFrame(rows[1:], columns=rows[0]).set_index(rows[0][0]).rename_axis(None)
    return str(table.loc[:, (table != "").any()].to_string())


class Numbers:
    """The numbers of one table at one scale."""

    def __init__(self, table: Table, runs: Runs, scale: str) -> None:
        self.table, self.scale = table, scale
        self.words = {f"{{{name}}}": by[scale] for name, by in table.words.items() if scale in by}
        names = [self._filled(name) for name in table.experiments()]
        self.runs = {name: runs[scale, name] for name in names if (scale, name) in runs}
        printed = scale == "paper"  # of which also rows without runs are shown
        self.rows = [r for r in table.each_row if self.runs_of(r) or (printed and r.printed)]
        # each cell's number by seed, of training its last iterations' mean; may be empty
        self.values = {
            (row.name, column): at_the_end(self.curve_of(row, column), *self._cell(row, column)[1:])
            for row in self.rows
            for column in table.columns
        }
        known = {column for (_, column), values in self.values.items() if not values.empty}
        self.columns = [column for column in table.columns if column in known]

    def runs_of(self, row: Row) -> list[dict[str, pd.DataFrame]]:
        """The runs of a row, metric -> lines, for each task that has any."""
        found = (self._cell(row, column)[0] for column in self.table.columns)
        return [self.runs[name] for name in dict.fromkeys(found) if name in self.runs]

    def curve_of(self, row: Row, column: str) -> pd.DataFrame:
        """The archive's rows of a cell's metric; values in percent where the column is."""
        experiment, metric, _ = self._cell(row, column)
        lines = self.runs.get(experiment, {}).get(metric, NOTHING)
        if self.table.seeds_small is not None and self.scale == "small":
            lines = lines[lines.seed.isin(self.table.seeds_small)]
        return lines.assign(value=lines.value * 100) if column.endswith("%") else lines

    def _filled(self, text: str) -> str:
        for name, word in self.words.items():
            text = text.replace(name, word)
        return text

    def _cell(self, row: Row, column: str) -> tuple[str, str, int | None]:
        """The experiment and the metric of a cell, and the iteration where its column names one."""
        name, *task = self.table.columns[column]
        experiment = self._filled(row.experiment).replace("{task}", "".join(task))
        metric, _, iteration = self._filled(name.replace("{}", row.word)).partition(" @")
        return experiment, metric, int(iteration) if iteration else None
