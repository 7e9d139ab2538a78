"""The numbers behind a table: for each of its rows and columns, one for every seed."""

import pandas as pd

from cory.report.archive import Runs
from cory.report.numbers import at_the_end
from cory.report.papers import Row, Table
from cory.report.runs import EVALUATION, LAST

Words = dict[str, dict[str, str]]  # name -> scale -> what stands for {name}
NOTHING = pd.DataFrame({name: [] for name in ("seed", "iteration", "value", "commit", "date")})


class Numbers:
    """The numbers of one table at one scale."""

    def __init__(self, table: Table, runs: Runs, scale: str, words: Words | None = None) -> None:
        """words: of the paper, see papers.Paper."""
        self.table, self.scale = table, scale
        self.words = {f"{{{name}}}": by[scale] for name, by in (words or {}).items() if scale in by}
        names = [self._filled(name) for name in table.experiments()]
        self.runs = {name: runs[scale, name] for name in names if (scale, name) in runs}
        printed = scale == "paper"  # of which also rows without runs are shown
        self.rows = [r for r in table.each_row if self.runs_of(r) or (printed and r.printed)]
        self.values = {
            (row.name, column): self._at_the_end(row, column)
            for row in self.rows
            for column in table.each_column
        }
        known = {column for (_, column), values in self.values.items() if not values.empty}
        self.columns = [column for column in table.each_column if column in known]

    def runs_of(self, row: Row) -> list[dict[str, pd.DataFrame]]:
        """The runs of a row, metric -> lines, for each task that has any."""
        found = (self._experiment(row, name) for name in self.table.each_column)
        return [self.runs[name] for name in dict.fromkeys(found) if name in self.runs]

    def curve_of(self, row: Row, column: str) -> pd.DataFrame:
        """The archive's rows of a cell's metric; values in percent where the column is."""
        metric, _, _ = self._metric(row, column).partition(" @")
        lines = self.runs.get(self._experiment(row, column), {}).get(metric, NOTHING)
        if self.table.seeds_small is not None and self.scale == "small":
            lines = lines[lines.seed.isin(self.table.seeds_small)]
        return lines.assign(value=lines.value * 100) if column.endswith("%") else lines

    def seeds_of(self, row: Row, column: str) -> pd.Series:
        """A cell's number for each seed: of training its last iterations' mean; may be empty."""
        return self.values[row.name, column]

    def _at_the_end(self, row: Row, column: str) -> pd.Series:
        name, _, iteration = self._metric(row, column).partition(" @")
        last = 1 if name.startswith(EVALUATION) else LAST
        lines = self.curve_of(row, column)
        return at_the_end(lines, last, int(iteration) if iteration else None)

    def row(self, name: str) -> Row | None:
        """The row with this name, if it has runs."""
        return next((row for row in self.rows if row.name == name), None)

    def first_of(self, row: Row) -> Row:
        """The row that another one is compared with: the first of its group that has runs."""
        return next(other for other in self.rows if other.group == row.group)

    def _filled(self, text: str) -> str:
        for name, word in self.words.items():
            text = text.replace(name, word)
        return text

    def _experiment(self, row: Row, column: str) -> str:
        _, *task = self.table.each_column[column]
        return self._filled(row.experiment or "").replace("{task}", "".join(task))

    def _metric(self, row: Row, column: str) -> str:
        return self._filled(self.table.each_column[column][0].replace("{}", row.word))
