"""Tables and figures of the papers from archived runs, and the pages that show them.

The words of docs/results/<paper>.md are written by hand. Between the lines

    <!-- fig3 small -->
    <!-- end: of which days and commits the runs are -->

`make report` writes the table fig3 of the runs at small scale, and its figure where it has one.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from cory.functional.statistics import mean_interval
from cory.report.archive import Runs
from cory.report.numbers import Numbers, decimals, paired, written
from cory.report.papers import COMPUTED, Paper, Row
from cory.report.plots import draw_table

BLOCK = re.compile(r"<!-- (\w+) (\w+) -->\n(?:.*?\n)??<!-- end[^>]* -->", re.DOTALL)
LONGEST = 120  # characters that are shown of what an agent wrote


def markdown_of(numbers: Numbers) -> str:
    """The table, its differences and texts; ValueError without runs."""
    if not numbers.runs:
        raise ValueError(f"there is no run of {numbers.table.title} at scale {numbers.scale}")
    scale = "" if numbers.scale == COMPUTED else f"{numbers.scale} scale"
    head = [scale, *numbers.columns, "seeds"]
    body = [[row.name, *_cells(numbers, row)] for row in numbers.rows]
    parts = [_markdown(head, body)]
    lines = [line for one in numbers.table.differences for line in _line(numbers, one)]
    parts += ["\n".join(f"- {line}" for line in lines)] if lines else []
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
    known = [len(numbers.values[row.name, column]) for column in numbers.columns]
    yield str(max(known, default=0) or "-")


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


def _line(numbers: Numbers, difference: list[Any]) -> Iterator[str]:
    """A comparison that the table asks for beside those with the first row."""
    left, *factor, right, column = difference
    values, against = (numbers.values.get((row, column)) for row in (left, right))
    if values is None or against is None:
        return  # it has no runs at this scale
    times = factor[0] if factor else 1.0
    each, name = paired(values, times * against), f"{times:g} x {right}" if factor else right
    for text in _interval(each, decimals(values)):
        yield f"{column}: {left} less {name}: {text}, {len(each)} seeds"


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


def write_page(page: Path, paper: Paper, runs: Runs) -> list[Path]:
    """Fill the blocks of a page; returns the files that have changed."""
    tables = paper.tables
    text = page.read_text(encoding="utf-8")
    changed: list[Path] = []

    def filled(block: re.Match[str]) -> str:
        name, scale = block.groups()
        if name not in tables:
            raise ValueError(f"{page}: {name} is not a table of this paper")
        numbers = Numbers(tables[name], runs, scale)
        parts = [markdown_of(numbers)]
        if tables[name].figure is not None:
            picture = page.parent / "figures" / f"{page.stem}_{name}_{scale}.png"
            changed.extend([picture] if draw_table(numbers, picture) else [])
            parts.insert(0, f"![{tables[name].title}](figures/{picture.name})")
        end = "<!-- end -->"
        if scale != COMPUTED:  # of which days and commits the runs are
            shown = [numbers.curve_of(row, one) for row in numbers.rows for one in numbers.columns]
            commits = sorted({str(one) for lines in shown for one in lines.commit.unique()})
            days = sorted({str(day) for lines in shown for day in lines.date.unique()})
            when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
            end = f"<!-- end: runs of {when}, commits {', '.join(commits)} -->"
        return "\n".join([f"<!-- {name} {scale} -->", "\n\n".join(parts), end])

    new = BLOCK.sub(filled, text)
    if new != text:
        page.write_text(new, encoding="utf-8")
        changed.append(page)
    return changed
