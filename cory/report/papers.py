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
from typing import Annotated, Any, Literal

from omegaconf import OmegaConf
from pydantic import BaseModel, BeforeValidator

Value = float | str | None
Cells = str | list[Value | dict[str, list[Value]]]
# [metric] or [metric, task], of which a metric may stand alone
Column = Annotated[list[str], BeforeValidator(lambda x: [x] if isinstance(x, str) else x)]

COMPUTED = "computed"  # the scale of what needs no runs


class Figure(BaseModel, extra="forbid"):
    """A figure of a table: its kind, and the columns that are drawn."""

    kind: Literal["curves", "bars", "scatter"]
    columns: list[str]
    over: str = "iteration"  # the name of a curve's x axis
    name: str | None = None  # of what a single panel of curves shows; else the column's


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    group: str
    label: str
    experiment: str  # empty: nothing here stands for it, such as a closed model
    word: str
    printed: list[Value]

    @property
    def name(self) -> str:
        """Its label, below the name of its group where it has one."""
        return f"{self.group}: {self.label}" if self.group else self.label


class Table(BaseModel, extra="forbid"):
    """A table or figure of a paper, or a study of ours."""

    paper: str = ""  # its file's name
    title: str
    scales: list[str] = ["paper", "small"]
    columns: dict[str, Column]
    rows: dict[str, Cells | dict[str, Cells]]
    models: dict[str, str] = {}  # the label of a group of rows -> what stands for {model}
    word: str | None = None  # for {} where a row has none
    words: dict[str, dict[str, str]] = {}  # {name} in experiments and metrics -> its word per scale
    seeds_small: list[int] | None = None  # of its small runs; None: all
    figure: Figure | None = None
    differences: list[list[Any]] = []  # [left, right, column] or [left, factor, right, column]
    texts: bool = False  # whether it shows what agents wrote

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
                padded: list[Any] = listed if isinstance(listed, list) else [listed, None]
                experiment, word, *printed = padded
                if printed and isinstance(printed[0], dict):
                    printed = printed[0].get(model, [])
                known = (experiment or "").replace("{model}", model)
                if known and "/" not in known:
                    known = f"{self.paper}/{known}"
                yield Row(group, row, known, str(self.word if word is None else word), printed)

    def experiments(self) -> list[str]:
        """Every experiment of a row, for every task, each once."""
        tasks = [task for _, *tasks in self.columns.values() for task in tasks] or [""]
        named = [row.experiment for row in self.each_row if row.experiment]
        filled = (name.replace("{task}", task) for name in named for task in tasks)
        return list(dict.fromkeys(filled))


class Paper(BaseModel, extra="forbid"):
    """One file of conf/paper."""

    title: str
    columns: dict[str, Any] = {}  # sets that tables share, by anchors of YAML
    word: str = ""  # of the tables that name none
    words: dict[str, dict[str, str]] = {}  # of all tables
    seeds_small: list[int] | None = None  # of the tables that name none
    tables: dict[str, Table]


@cache
def load(path: Path) -> Paper:
    """A paper's file; ValueError where there is none, or a key is wrong."""
    if not path.exists():
        known = ", ".join(sorted(other.stem for other in path.parent.glob("*.yaml")))
        raise ValueError(f"{path.stem} is not a paper; choose one of {known}")
    paper = Paper.model_validate(OmegaConf.to_container(OmegaConf.load(path)))
    for table in paper.tables.values():
        table.paper, table.words = path.stem, paper.words
        table.word = paper.word if table.word is None else table.word
        table.seeds_small = table.seeds_small or paper.seeds_small
    return paper
