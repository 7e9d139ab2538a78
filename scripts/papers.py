"""Tables of the papers: conf/paper/<paper>.yaml filled with the runs of the archive, as Markdown.

A row is `label: experiment`, without the paper's name and slash, or `label: [experiment, word,
printed ...]`: the word stands for {} in the columns' metrics, and the printed values follow in the
order of the columns. Rows below a name of their own (a task, say) are compared with the first of
them. A table with `models` has all of its rows for each of them: the model's name stands for
{model}, and printed values are given as {model: [value, ...]}. A column is `name: metric`, or
`name: [metric, task]`, where the task stands for {task} in the experiments; `metric @4` is that of
one iteration. Columns whose name ends with % hold shares. A table is run by the sweep of its name,
unless its only scale is `computed`. What stands beside a paper's tables (word, words, seeds_small)
is that of the tables that have none.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
import yaml
from archive import Runs
from pydantic import BaseModel, BeforeValidator

from cory.functional.statistics import mean_interval
from cory.report.runs import EVALUATION, LAST, paired

Cells = str | list[Any]
# [metric] or [metric, task], of which a metric may stand alone
Column = Annotated[list[str], BeforeValidator(lambda x: [x] if isinstance(x, str) else x)]

ITERATION = "iteration"
COMPUTED = "computed"  # the scale of what needs no runs
LONGEST = 120  # characters that are shown of what an agent wrote
NOTHING = pd.DataFrame({name: [] for name in ("seed", "iteration", "value", "commit", "date")})


class Figure(BaseModel, extra="forbid"):
    """A figure of a table: its kind, and the columns that are drawn."""

    kind: Literal["curves", "points", "scatter"]
    columns: list[str]
    over: str = ITERATION  # the name of a curve's x axis
    name: str | None = None  # of what a single panel of curves shows; else the column's


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    group: str
    label: str
    experiment: str  # empty: nothing here stands for it, such as a closed model
    word: str
    printed: list[float | str | None]

    @property
    def name(self) -> str:
        """Its label, below the name of its group where it has one."""
        return f"{self.group}: {self.label}" if self.group else self.label


class Table(BaseModel, extra="forbid"):
    """A table or figure of a paper, or a study of ours."""

    paper: str  # its file's name
    title: str
    scales: list[str] = ["paper", "small"]
    columns: dict[str, Column]
    rows: dict[str, Cells | dict[str, Cells]]
    models: dict[str, str] = {"": ""}  # the label of a group of rows -> what stands for {model}
    word: str = ""  # for {} where a row has none
    words: dict[str, dict[str, str]] = {}  # {name} in experiments and metrics -> its word per scale
    seeds_small: list[int] | None = None  # of its small runs; None: all
    figure: Figure | None = None
    differences: list[list[Any]] = []  # [left, right, column] or [left, factor, right, column]
    texts: bool = False  # whether it shows what agents wrote

    def each_row(self) -> Iterator[Row]:
        """The rows, in the order of the file, those of one model after those of another."""
        for label, model in self.models.items():
            for name, cells in self.rows.items():
                group, own = (name, cells) if isinstance(cells, dict) else (label, {name: cells})
                for row, listed in own.items():
                    experiment, word, *printed = (
                        [listed, None] if isinstance(listed, str) else listed
                    )
                    if printed and isinstance(printed[0], dict):
                        printed = printed[0].get(model, [])
                    experiment = (experiment or "").replace("{model}", model)
                    if experiment and "/" not in experiment:
                        experiment = f"{self.paper}/{experiment}"
                    yield Row(group, row, experiment, word or self.word, printed)

    def experiments(self) -> list[str]:
        """Every experiment of a row, for every task, each once."""
        tasks = [task for _, *tasks in self.columns.values() for task in tasks] or [""]
        named = [row.experiment for row in self.each_row() if row.experiment]
        return list(dict.fromkeys(n.replace("{task}", task) for n in named for task in tasks))


@cache
def load(path: Path) -> dict[str, Table]:
    """The tables of a paper's file; ValueError where there is none, or a key is wrong."""
    if not path.exists():
        known = ", ".join(sorted(other.stem for other in path.parent.glob("*.yaml")))
        raise ValueError(f"{path.stem} is not a paper; choose one of {known}")
    shared = yaml.safe_load(path.read_text(encoding="utf-8"))
    tables = shared.pop("tables")
    for own in ("title", "columns"):  # columns: sets that tables share, by anchors of YAML
        shared.pop(own, None)
    return {name: Table(**{**shared, **own}, paper=path.stem) for name, own in tables.items()}


class Numbers:
    """The numbers of one table at one scale."""

    def __init__(self, table: Table, runs: Runs, scale: str) -> None:
        self.table, self.scale, self.runs = table, scale, runs
        printed = scale == "paper"  # of which also rows without runs are shown
        every = table.each_row()
        self.rows = [row for row in every if any(self.runs_of(row)) or (printed and row.printed)]
        # each cell's number by seed, of training its last iterations' mean; may be empty
        self.values = {
            (row.name, column): self._ends(row, column)
            for row in self.rows
            for column in table.columns
        }
        known = {column for (_, column), values in self.values.items() if not values.empty}
        self.columns = [column for column in table.columns if column in known]

    def runs_of(self, row: Row) -> list[dict[str, pd.DataFrame]]:
        """The runs of a row, metric -> lines, one for each task."""
        names = dict.fromkeys(self._cell(row, column)[0] for column in self.table.columns)
        return [self.runs.get((self.scale, name), {}) for name in names]

    def curve_of(self, row: Row, column: str) -> pd.DataFrame:
        """The archive's rows of a cell's metric; values in percent where the column is."""
        experiment, metric, _ = self._cell(row, column)
        lines = self.runs.get((self.scale, experiment), {}).get(metric, NOTHING)
        if self.table.seeds_small is not None and self.scale == "small":
            lines = lines[lines.seed.isin(self.table.seeds_small)]
        return lines.assign(value=lines.value * 100) if column.endswith("%") else lines

    def _ends(self, row: Row, column: str) -> pd.Series:
        _, metric, iteration = self._cell(row, column)
        return at_the_end(self.curve_of(row, column), metric, iteration)

    def _cell(self, row: Row, column: str) -> tuple[str, str, int | None]:
        """The experiment and the metric of a cell, and the iteration where its column names one."""
        metric, *task = self.table.columns[column]
        experiment = row.experiment.replace("{task}", "".join(task))
        metric = metric.replace("{}", row.word)
        for name, by_scale in self.table.words.items():
            word = by_scale.get(self.scale, f"{{{name}}}")
            experiment, metric = (t.replace(f"{{{name}}}", word) for t in (experiment, metric))
        metric, _, iteration = metric.partition(" @")
        return experiment, metric, int(iteration) if iteration else None


def at_the_end(lines: pd.DataFrame, metric: str, iteration: int | None = None) -> pd.Series:
    """Per seed, the mean over the metric's last values, or the value of one iteration.

    lines: of the metric in one experiment, with columns seed, iteration, value
    """
    if iteration is not None:
        return lines[lines.iteration == iteration].set_index("seed").value
    last = 1 if metric.startswith(EVALUATION) else LAST
    ends = lines.sort_values("iteration").groupby("seed").tail(last)
    return ends.groupby("seed").value.mean()


def markdown_of(numbers: Numbers) -> str:
    """The table, its differences and texts; ValueError without runs."""
    if not any(run for row in numbers.rows for run in numbers.runs_of(row)):
        raise ValueError(f"there is no run of {numbers.table.title} at scale {numbers.scale}")
    named = numbers.scale != COMPUTED and len(numbers.table.scales) > 1
    scale = f"{numbers.scale} scale" if named else ""
    head = [scale, *numbers.columns, "seeds"]
    parts = [_markdown(head, [[row.name, *_cells(numbers, row)] for row in numbers.rows])]
    lines = [line for one in numbers.table.differences for line in _line(numbers, *one)]
    parts += ["\n".join(lines)] if lines else []
    parts += [_texts(numbers)] if numbers.table.texts else []
    return "\n\n".join(parts)


def _cells(numbers: Numbers, row: Row) -> Iterator[str]:
    """Mean and deviation, the difference to the first row, what is printed; at last the seeds."""
    first = next(other for other in numbers.rows if other.group == row.group)
    printed = dict(zip(numbers.table.columns, row.printed, strict=False))
    for column in numbers.columns:
        values = numbers.values[row.name, column]
        lines = []
        if not values.empty:
            digits = decimals(values)
            spread = f" ± {written(values.std(), digits)}" if len(values) > 1 else ""
            lines = [f"{written(values.mean(), digits)}{spread}"]
        if row is not first and not values.empty:
            lines += _interval(paired(values, numbers.values[first.name, column]), digits)
        if printed.get(column) is not None:
            lines.append(f"paper: {printed[column]}")
        yield "<br>".join(lines) or "-"
    yield str(
        max((len(numbers.values[row.name, one]) for one in numbers.columns), default=0) or "-"
    )


def _interval(each: pd.Series, digits: int) -> list[str]:
    """A difference by seed and its interval, in bold where that excludes 0; of one seed nothing."""
    if len(each) < 2:
        return []
    mean = written(each.mean(), digits)
    text = f"{'' if mean.startswith('-') else '+'}{mean}"
    interval = mean_interval(each)
    if interval is None:
        return [text]
    low, high = interval
    text += f" ({written(low, digits)} to {written(high, digits)})"
    return [f"**{text}**" if low > 0 or high < 0 else text]


def _line(numbers: Numbers, left: str, *others: Any) -> Iterator[str]:
    """A comparison that the table asks for; nothing where it has no runs at this scale."""
    *factor, right, column = others
    values, against = (numbers.values.get((row, column)) for row in (left, right))
    if values is not None and against is not None:
        times = factor[0] if factor else 1.0
        each, name = paired(values, times * against), f"{times:g} x {right}" if factor else right
        for text in _interval(each, decimals(values)):
            yield f"- {column}: {left} less {name}: {text}, {len(each)} seeds"


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


def _texts(numbers: Numbers) -> str:
    """What the first seed's agents wrote without sampling: a line per prompt, a column per row."""
    said: dict[str, dict[str, str]] = {}
    for row in numbers.rows:
        for metrics in numbers.runs_of(row):
            probes = metrics.get(f"probe/greedy/{row.word}")
            if probes is None:
                continue
            for text in probes[probes.seed == probes.seed.min()].text:
                prompt, response = json.loads(text)
                said.setdefault(_plain(prompt), {})[row.name] = _plain(response)
    names = [row.name for row in numbers.rows]
    body = [[prompt, *(own.get(name, "-") for name in names)] for prompt, own in said.items()]
    return _markdown(["prompt, then greedy responses", *names], sorted(body))


def _plain(text: str) -> str:
    """A text in one cell: nothing in it is markup, and it is cut when it is long."""
    short = text if len(text) <= LONGEST else text[:LONGEST] + " ..."
    escaped = re.sub(r"([\\`*_{}\[\]<>|$#])", r"\\\1", short)
    return " / ".join(line.strip() for line in escaped.splitlines() if line.strip())


def _markdown(head: list[str], body: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
