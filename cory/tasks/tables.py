"""Rows of a data set on the hub, in a local file, or in a folder with one file per split."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cory.config import ConfigError, nearest, require

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """A row of a file or of a data set on the hub."""

    id: str  # file and line, as my.jsonl:3; of the hub split and row; both counted from 1
    values: Mapping[str, Any]  # column -> value


def rows_of(
    source: str, path: str, split: str, key: str = "task.path", subset: str | None = None
) -> list[Row]:
    """The rows of a split, or of a slice of it as `train[:90%]`; a file is the split `train`.

    source: hub | path
    key: the setting that `path` comes from
    subset: as in `hub_table`
    Raises ConfigError where the data cannot be had, or there is no row.
    """
    if source == "hub":
        table = hub_table(path, subset, split, key).to_list()
        name = split if subset is None else f"{subset}/{split}"
        rows = [Row(f"{name}:{number}", values) for number, values in enumerate(table, 1)]
    else:
        file = file_of_split(path, split, key)
        table = file_rows(file, key)
        numbers = rows_of_split(split, split.partition("[")[0], len(table))
        rows = [Row(f"{file.name}:{number + 1}", table[number]) for number in numbers]
    require(bool(rows), f"{key}={path}: there is no row in split {split}")
    return rows


def require_columns(rows: Sequence[Row], wanted: Iterable[tuple[str, str | None]]) -> None:
    """ConfigError for a column that is not in the data.

    wanted: (setting that names a column, the column's name); None: none is named
    """
    names = list(rows[0].values)
    for key, name in wanted:
        if name is not None and name not in names:
            known = f"it has {', '.join(names)}{nearest(name, names)}"
            raise ConfigError(f"{key}={name} is not in the data; {known}")


def hub_table(path: str, subset: str | None, split: str, key: str) -> Any:
    """One split of a data set on the hub.

    subset: name of a configuration, of data sets that have several
    """
    from datasets import load_dataset  # noqa: PLC0415  half a second, and many runs do without

    try:
        return load_dataset(path, subset, split=split)
    except Exception as error:  # its readers and its network, which share no base class
        raise ConfigError(
            f"{key}={path}: the hub did not give split '{split}' ({error}); to work offline set "
            f"{key.removesuffix('path')}source=path with a local file or folder as {key}"
        ) from error


def file_of_split(path: str, split: str, key: str) -> Path:
    """The one file at `path`, or the file of a split, `name` or a slice of it, in the folder."""
    place, name = Path(path).expanduser(), split.partition("[")[0]
    if place.is_dir():
        files = [file for suffix in READERS if (file := place / f"{name}{suffix}").is_file()]
        require(
            len(files) == 1,
            f"{key}={path}: the folder must hold one file for split '{name}' "
            f"({', '.join(name + suffix for suffix in READERS)}), found {len(files)}",
        )
        return files[0]
    require(place.is_file(), f"{key}={path}: there is no such file")
    require(
        name == "train",
        f"{key}={path} is one file, which is the split train, not {split}; set slices, typed as "
        f"'task.train_split=\"train[:90%]\"' and 'task.test_split=\"train[90%:]\"', or "
        f"task.held_out_share=0.1 and task.test_split=null",
    )
    return place


def rows_of_split(split: str, name: str, count: int) -> list[int]:
    """The row numbers that a split means, `name` itself or a slice as name[:90%], of `count` rows.

    Raises ConfigError for a split of another name or form.
    """
    if split == name:
        return [*range(count)]
    from datasets import ReadInstruction  # noqa: PLC0415  as in hub_table

    try:
        parts = ReadInstruction.from_spec(split).to_absolute({name: count})
    except (ValueError, AssertionError) as error:
        raise ConfigError(
            f"split {split} must be {name} or a slice as {name}[:90%]: {error}"
        ) from None
    return [row for part in parts for row in range(part.from_, part.to)]


def file_rows(file: Path, key: str) -> Rows:
    """All rows of one file, with exactly the values that stand there.

    A cell of a .csv file is a text, or None if it is empty. A column that a row lacks is None in
    it. Dates and bytes, as Parquet has, are Python's.
    """
    require(file.suffix in READERS, f"{key}={file} must end in one of {', '.join(READERS)}")
    try:
        rows = READERS[file.suffix](file)
    except (OSError, ValueError, NotImplementedError, csv.Error) as error:
        raise ConfigError(f"{key}={file}: cannot be read: {error}") from None
    require(isinstance(rows, list), f"{key}={file} must hold a list of objects")
    for number, row in enumerate(rows, 1):
        # a line of a .csv file with more cells than the header has them under None
        right = isinstance(row, dict) and None not in row
        require(right, f"{key}={file}: row {number} must be an object with the file's keys")
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def _json_lines(file: Path) -> Rows:
    rows = []
    # not splitlines(), which would also cut at characters that JSON allows inside a text
    for number, line in enumerate(file.read_text(encoding="utf-8-sig").rstrip().split("\n"), 1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            said = error if line.strip() else "it is empty"
            raise ValueError(f"line {number}: {said}") from None
    return rows


def _csv_rows(file: Path) -> Rows:
    """Lines without any cell are no rows."""
    csv.field_size_limit(sys.maxsize)  # a text may be longer than 131,072 characters
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return [
            {name: cell or None for name, cell in row.items()}
            for row in csv.DictReader(lines, strict=True)
        ]


def _parquet_rows(file: Path) -> Rows:
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415  as in hub_table; datasets brings it

    return list(ParquetFile(file).read().to_pylist())


READERS: Mapping[str, Callable[[Path], Rows]] = {
    ".jsonl": _json_lines,
    ".json": lambda file: json.loads(file.read_text(encoding="utf-8-sig")),
    ".csv": _csv_rows,
    ".parquet": _parquet_rows,
}


def read_words(path: str, key: str) -> list[str]:
    """The different words of a .txt file, one a line, or of a .json list, in their order."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
        words = json.loads(text) if path.endswith(".json") else text.splitlines()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{key}={path}: cannot be read: {error}") from None
    right = isinstance(words, list) and all(isinstance(word, str) for word in words)
    require(right, f"{key}={path} must hold a list of words")
    return list(dict.fromkeys(word.strip() for word in words if word.strip()))
