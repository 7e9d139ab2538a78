"""What conf/paper/<paper>.yaml says of a paper's tables and figures: rows, columns, figures.

A row is `label: experiment`, without the paper's name and slash, or `label: [experiment, word,
printed ...]`: the word stands for {} in the columns' metrics, and the printed values follow in the
order of the columns. Rows below a
name of their own (a task, say) are compared with the first of them. A table with `models` has all
of its rows for each of them: the model's name stands for {model}, and printed values are given as
{model: [value, ...]}. A column is `name: metric`, or `name: [metric, task]`, where the task stands
for {task} in the experiments. Columns whose name ends with % hold shares. A table is run by the
sweep of its name, unless its only scale is `computed`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from omegaconf import OmegaConf
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

Value = float | str | None
Cells = str | list[Value | dict[str, list[Value]]]
Kind = Literal["curves", "bars", "scatter"]

COMPUTED = "computed"  # the scale of what needs no runs


class Figure(BaseModel):
    """A figure of a table: its kind, and the columns that are drawn."""

    model_config = ConfigDict(extra="forbid")

    kind: Kind
    columns: list[str]
    over: str = "iteration"  # the name of a curve's x axis
    name: str | None = None  # of what a single panel of curves shows; else the column's


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    group: str
    label: str
    experiment: str | None  # None: nothing here stands for it, such as a closed model
    word: str
    printed: list[Value]

    @property
    def name(self) -> str:
        """Its label, below the name of its group where it has one."""
        return f"{self.group}: {self.label}" if self.group else self.label


class Table(BaseModel):
    """A table or figure of a paper, or a study of ours."""

    model_config = ConfigDict(extra="forbid")

    paper: str = ""  # its file's name, and
    name: str = ""  # its key there
    title: str
    scales: list[str] = ["paper", "small"]
    columns: str | dict[str, str | list[str]]  # a name: of a set of columns
    rows: dict[str, Cells | dict[str, Cells]]
    models: dict[str, str] = {}  # the label of a group of rows -> what stands for {model}
    word: str | None = None  # for {} where a row has none
    seeds_small: list[int] | None = None  # of its small runs; None: all
    figure: Figure | None = None
    differences: list[list[Any]] = []  # [left, right, column] or [left, factor, right, column]
    texts: bool = False  # whether it shows what agents wrote

    @field_validator("differences")
    @classmethod
    def _lengths(cls, value: list[list[Any]]) -> list[list[Any]]:
        if any(len(one) not in (3, 4) for one in value):
            raise ValueError("each must be [left, right, column] or [left, factor, right, column]")
        return value

    @property
    def computed(self) -> bool:
        """Whether its numbers need no runs."""
        return self.scales == [COMPUTED]

    @property
    def each_row(self) -> list[Row]:
        """The rows, in the order of the file, those of one model after those of another."""
        models = self.models or {"": ""}
        return [row for label, model in models.items() for row in self._rows(label, model)]

    def _rows(self, label: str, model: str) -> Iterator[Row]:
        for name, cells in self.rows.items():
            inner = cells if isinstance(cells, dict) else {name: cells}
            group = name if isinstance(cells, dict) else label
            for row, listed in inner.items():
                experiment, word, *printed = _padded(listed)
                if printed and isinstance(printed[0], dict):
                    printed = list(printed[0].get(model, []))
                filled = (experiment or "").replace("{model}", model)
                known = filled if "/" in filled or not filled else f"{self.paper}/{filled}"
                said = self.word if word is None else word
                yield Row(group, row, known or None, str(said), printed)

    def experiments(self) -> list[str]:
        """Every experiment of a row, for every task, each once."""
        tasks = [spec[1] for spec in self.each_column.values() if len(spec) > 1] or [""]
        named = [row.experiment for row in self.each_row if row.experiment is not None]
        filled = (name.replace("{task}", task) for name in named for task in tasks)
        return list(dict.fromkeys(filled))

    @property
    def each_column(self) -> dict[str, list[str]]:
        """Name -> [metric] or [metric, task]."""
        assert isinstance(self.columns, dict)  # a set's name is replaced when the file is read
        return {n: [spec] if isinstance(spec, str) else spec for n, spec in self.columns.items()}


def _padded(cells: Cells) -> list[Any]:
    """Experiment, word (None: the table's) and printed values."""
    listed = cells if isinstance(cells, list) else [cells]
    return [*listed, None] if len(listed) == 1 else listed


class Paper(BaseModel):
    """One file of conf/paper."""

    model_config = ConfigDict(extra="forbid")

    title: str
    where: str
    columns: dict[str, dict[str, str | list[str]]] = {}  # sets that tables share
    word: str = ""  # of the tables that name none
    words: dict[str, dict[str, str]] = {}  # {name} in experiments and metrics -> its word per scale
    seeds_small: list[int] | None = None  # of the tables that name none
    left_out: str = ""  # why some tables have no small form
    tables: dict[str, Table]


@cache
def load(path: Path) -> Paper:
    """A paper's file; ValueError names the key that is wrong."""
    if not path.exists():
        known = ", ".join(sorted(other.stem for other in path.parent.glob("*.yaml")))
        raise ValueError(f"{path.stem} is not a paper; choose one of {known}")
    try:
        paper = Paper.model_validate(OmegaConf.to_container(OmegaConf.load(path)))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{path.name}: {where}={first['input']}: {first['msg']}") from None
    for name, table in paper.tables.items():
        table.paper, table.name = path.stem, name
        if isinstance(table.columns, str):
            if table.columns not in paper.columns:
                known = ", ".join(paper.columns)
                raise ValueError(f"{path.name}: {name}.columns={table.columns}: one of {known}")
            table.columns = paper.columns[table.columns]
        table.word = paper.word if table.word is None else table.word
        table.seeds_small = table.seeds_small or paper.seeds_small
        _check_names(path, name, table)
    return paper


def _check_names(path: Path, name: str, table: Table) -> None:
    """Columns and rows that figures and differences name must be there."""
    columns, rows = set(table.each_column), {row.name for row in table.each_row}
    named = [] if table.figure is None else table.figure.columns
    for column in [*named, *(one[-1] for one in table.differences)]:
        if column not in columns:
            raise ValueError(f"{path.name}: {name}: {column} is not one of its columns")
    for left, *_, right, _ in table.differences:
        for row in (left, right):
            if row not in rows:
                raise ValueError(f"{path.name}: {name}: {row} is not one of its rows")
    for row in table.each_row:
        if len(row.printed) > len(columns):
            raise ValueError(f"{path.name}: {name}: {row.name} has more values than columns")
