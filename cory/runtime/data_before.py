"""What can be refused of a run's data before any worker starts: files, lines and columns."""

import csv
import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from cory.config import Config, ConfigError, OfflineConfig, PromptsConfig, nearest
from cory.tasks.data.tables import FORMATS, file_of_split, json_lines

COLUMN = "_column"  # how the names of settings end that name a column
READ_WHOLE = 32 * 2**20  # bytes of a .jsonl file up to which every line is looked at
LOOKED_AT = 100  # lines of a longer one


def data_refusals(config: Config) -> Iterator[str]:
    """Files that are not there or hold no rows, and columns that they lack."""
    task = config.task
    programs = getattr(task, "programs", None)
    parts = {"train": getattr(task, "train_split", None), "test": getattr(task, "test_split", None)}
    if programs is not None:
        yield from table_refusals(task.source, programs, {"train": parts.pop("train")}, "programs")
    yield from table_refusals(getattr(task, "source", ""), task, parts)
    algorithm = config.algorithm
    if isinstance(algorithm, OfflineConfig) and algorithm.instructions.per_iteration > 0:
        group = algorithm.instructions
        key = "algorithm.instructions"
        yield from table_refusals(group.source, group, {"": group.split}, key=key)


def table_refusals(
    source: str, group: Any, splits: dict[str, str | None], part: str = "", key: str = "task"
) -> Iterator[str]:
    """Refusals of the files of one group of settings; none for data on the hub.

    group: with `path`, and settings that name columns
    splits: part of the data -> its split; None: it has none of its own
    part: a group within `key`
    """
    key = f"{key}.{part}" if part else key
    if source != "path" or not is_dataclass(group) or getattr(group, "path", None) is None:
        return
    seen: set[Path] = set()
    for split in filter(None, splits.values()):
        try:
            file = file_of_split(str(vars(group)["path"]), split, f"{key}.path")
            names = [] if file in seen else columns_of(file, f"{key}.path")
        except ConfigError as error:
            yield str(error)
            continue
        seen.add(file)
        if names:
            yield from column_refusals(group, names, file, key)


def column_refusals(group: Any, names: list[str], file: Path, key: str) -> Iterator[str]:
    """Settings that name a column which a file lacks."""
    wanted = [
        (f"{key}.{field.name}", getattr(group, field.name))
        for field in fields(group)
        if field.name.endswith(COLUMN)
    ]
    if isinstance(group, PromptsConfig):
        wanted += [(f"{key}.columns", name) for name in group.columns or ()]
        wanted += [(f"{key}.prompt_template", name) for name in group.template_columns]
    for setting, name in wanted:
        if name is not None and name not in names and not _comes_later(file, name):
            yield (
                f"{setting}={name} is not in the data ({file}); it has {', '.join(names)}"
                f"{nearest(name, names)}"
            )


def columns_of(file: Path, key: str) -> list[str]:
    """The names of a file's columns; empty where only the worker's libraries can tell."""
    suffix = file.suffix
    if suffix not in FORMATS:
        raise ConfigError(f"{key}={file} must end in one of {', '.join(FORMATS)}")
    if suffix == ".csv":
        return _header(file, key)
    if suffix != ".jsonl":
        return []
    rows = _first_rows(file) if _is_long(file) else json_lines(file, key)
    return list(dict.fromkeys(name for row in rows for name in row))


def _is_long(file: Path) -> bool:
    return file.suffix == ".jsonl" and file.stat().st_size > READ_WHOLE


def _comes_later(file: Path, name: str) -> bool:
    """Whether a long file, of which some rows were looked at, may have a column in other rows."""
    if not _is_long(file):
        return False
    spelt = {json.dumps(name), json.dumps(name, ensure_ascii=False)}
    try:
        with file.open(encoding="utf-8") as lines:
            return any(word in line for line in lines for word in spelt)
    except (OSError, ValueError):
        return True  # the worker will say what is wrong with it


def _header(file: Path, key: str) -> list[str]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            return next(csv.reader(lines), [])
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"{key}={file}: cannot be read: {error}") from None


def _first_rows(file: Path) -> list[dict[str, Any]]:
    """Some rows of a long file; empty where they cannot be read, which the worker will say."""
    try:
        with file.open(encoding="utf-8") as lines:
            rows = [json.loads(line) for line in islice(lines, LOOKED_AT)]
    except (OSError, ValueError, RecursionError):
        return []
    return rows if all(isinstance(row, dict) for row in rows) else []
