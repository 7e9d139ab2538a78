"""Rows of data with their place in the file, and their values as JSON has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import Any

from cory.config import ConfigError, PromptsConfig, require
from cory.tasks.data.tables import file_of_split, file_rows, hub_table, rows_of_split

OFFLINE = "task.source=path with a local file or folder"


@dataclass(frozen=True)
class Row:
    """A row of a file or of a data set on the hub."""

    id: str  # file and line, as my.jsonl:3; of the hub split and row; both counted from 1
    where: str  # the same for refusals, with the setting that it comes from
    values: Mapping[str, Any]  # column -> value


def rows_of(config: PromptsConfig, split: str, key: str) -> list[Row]:
    """The rows of a split, or of a slice of it; ConfigError where there is none.

    key: the setting that `split` comes from
    """
    place = f"task.path={config.path}"
    if config.source == "hub":
        table = hub_table(config.path, config.subset, split, OFFLINE)
        found = [
            Row(f"{split}:{number}", f"{place}: row {number} of {split}", values)
            for number, values in enumerate(table.to_list(), 1)
        ]
    else:
        found = _rows_of_file(config.path, split, key, place)
    require(bool(found), f"{place}: there is no row in {key}={split}")
    return found


def _rows_of_file(path: str, split: str, key: str, place: str) -> list[Row]:
    file, name = file_of_split(path, split), split.partition("[")[0]
    folder = Path(path).expanduser().is_dir()
    require(
        folder or name == "train",
        f"{key}={split}: {place} is one file, which is the split train; set "
        f"task.held_out_share=0.1 and task.test_split=null, or slices, typed as "
        f"'task.train_split=\"train[:90%]\"' and 'task.test_split=\"train[90%:]\"'",
    )
    rows = file_rows(file)
    chosen = rows_of_split(split, name, len(rows), key) if rows else []
    line = "line" if file.suffix == ".jsonl" else "row"
    within = f"{file.name} " if folder else ""
    return [
        Row(f"{file.name}:{row + 1}", f"{place}: {within}{line} {row + 1}", rows[row])
        for row in chosen
    ]


def plain_value(value: object, where: str, column: str) -> Any:
    """A value as JSON has it, dates as ISO 8601; ConfigError for one that JSON does not know.

    where: the row, for the refusal
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [plain_value(entry, where, column) for entry in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain_value(entry, where, column) for key, entry in value.items()}
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    raise ConfigError(
        f"{where}: '{column}' holds {type(value).__name__}, which no reward is handed; name the "
        f"columns to hand over in task.columns"
    )
