"""Rows of a data set on the hub, in a local file, or in a folder with one file per split."""

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cory.config import ConfigError, nearest, require
from cory.config.task import MessageConfig, QuestionsConfig

FORMATS = (".jsonl", ".json", ".csv", ".parquet")


@dataclass(frozen=True)
class Row:
    """A row of a file or of a data set on the hub."""

    id: str  # file and line, as my.jsonl:3; of the hub split and row; both counted from 1
    where: str  # the same for refusals, with the setting that it comes from
    values: Mapping[str, Any]  # column -> value


def rows_of(
    source: str,
    path: str,
    split: str,
    *,
    split_key: str,
    key: str = "task.path",
    subset: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> list[Row]:
    """The rows of a split, or of a slice of it as `train[:90%]`; a file is the split `train`.

    source: hub | path
    split_key, key: the settings that `split` and `path` come from
    columns: setting that names a column -> the column's name; None: all columns are read
    subset: as in `hub_table`
    Raises ConfigError where the data or a column cannot be had, or there is no row.
    """
    place = f"{key}={path}"
    if source == "hub":
        table = hub_table(path, subset, split, key)
        if columns is not None:
            require_columns(table.column_names, columns.items())
            table = table.select_columns(list(dict.fromkeys(columns.values())))
        rows = [
            Row(f"{split}:{number}", f"{place}: row {number} of {split}", values)
            for number, values in enumerate(table.to_list(), 1)
        ]
    else:
        rows = _rows_of_files(path, split, split_key, key)
        if rows and columns is not None:
            require_columns(list(rows[0].values), columns.items())
    require(bool(rows), f"{place}: there is no row in {split_key}={split}")
    return rows


def part_rows(
    config: QuestionsConfig | MessageConfig,
    part: str,
    columns: Sequence[str],
    subset: str | None = None,
) -> list[tuple[Any, ...]]:
    """The columns' values in each row of the split that a task's settings name for a part.

    part: train | test
    columns: settings that name them
    """
    assert config.path is not None  # generated questions have no rows
    named = {f"task.{setting}": getattr(config, setting) for setting in columns}
    split = config.train_split if part == "train" else config.test_split
    key = f"task.{part}_split"
    return column_rows(config.source, config.path, split, named, split_key=key, subset=subset)


def column_rows(
    source: str, path: str, split: str, columns: Mapping[str, str], **where: Any
) -> list[tuple[Any, ...]]:
    """The values of some columns in each row of a split, in the columns' order.

    columns, where: as in `rows_of`
    """
    rows = rows_of(source, path, split, columns=columns, **where)
    return [tuple(row.values[name] for name in columns.values()) for row in rows]


def row_texts(where: str, *columns: tuple[str, object]) -> list[str]:
    """The texts in some columns of one row; ConfigError for a value that is no text, or blank.

    where: setting, path and row, for the error message
    columns: (name of the column, value in this row)
    """
    texts = []
    for name, value in columns:
        if not isinstance(value, str) or is_blank(value):
            raise ConfigError(f"{where} has no text in '{name}'")
        texts.append(value)
    return texts


def is_blank(text: str) -> bool:
    """Whether a text shows nothing: white space, control and zero-width characters."""
    return not any(sign.isprintable() and not sign.isspace() for sign in text)


def require_columns(names: Sequence[str], wanted: Iterable[tuple[str, str]]) -> None:
    """ConfigError for a column that is not in the data.

    wanted: (setting that names a column, the column's name)
    """
    for key, name in wanted:
        require(
            name in names,
            f"{key}={name} is not in the data; it has {', '.join(names)}{nearest(name, names)}",
        )


def hub_table(path: str, subset: str | None, split: str, key: str) -> Any:
    """One split of a data set on the hub.

    subset: name of a configuration, of data sets that have several
    key: the setting that `path` comes from
    """
    from datasets import load_dataset  # noqa: PLC0415  half a second, and many runs do without

    try:
        return load_dataset(path, subset, split=split)
    except Exception as error:  # its readers and its network, which share no base class
        raise ConfigError(
            f"{key}={path}: the hub did not give split '{split}' ({_first_line(error)}); "
            f"to work offline set {key.removesuffix('path')}source=path with a local file or "
            f"folder as {key} (HF_HUB_OFFLINE=1 stops asking the hub)"
        ) from error


def _rows_of_files(path: str, split: str, split_key: str, key: str) -> list[Row]:
    file, name = file_of_split(path, split, key), split.partition("[")[0]
    folder = Path(path).expanduser().is_dir()
    require(
        folder or name == "train",
        f"{split_key}={split}: {key}={path} is one file, which is the split train; set slices, "
        f"typed as 'task.train_split=\"train[:90%]\"' and 'task.test_split=\"train[90%:]\"', or "
        f"for task=prompts task.held_out_share=0.1 and task.test_split=null",
    )
    rows = file_rows(file, key)
    chosen = rows_of_split(split, name, len(rows), split_key) if rows else []
    line = "line" if file.suffix == ".jsonl" else "row"
    within = f"{file.name} " if folder else ""
    return [
        Row(f"{file.name}:{row + 1}", f"{key}={path}: {within}{line} {row + 1}", rows[row])
        for row in chosen
    ]


def file_of_split(path: str, split: str, key: str = "task.path") -> Path:
    """The one file at `path`, or the file of a split, `name` or a slice of it, in the folder."""
    place, name = Path(path).expanduser(), split.partition("[")[0]
    if place.is_dir():
        files = [file for suffix in FORMATS if (file := place / f"{name}{suffix}").is_file()]
        require(
            len(files) == 1,
            f"{key}={path}: the folder must hold one file for split '{name}' "
            f"({', '.join(name + suffix for suffix in FORMATS)}), found {len(files)}",
        )
        return files[0]
    require(place.is_file(), f"{key}={path}: there is no such file")
    return place


def rows_of_split(split: str, name: str, count: int, key: str) -> list[int]:
    """The row numbers that a split means, `name` itself or a slice as name[:90%], of `count` rows.

    key: the setting that `split` comes from
    Raises ConfigError for a split of another name or form.
    """
    from datasets import ReadInstruction  # noqa: PLC0415  as in hub_table

    try:
        parts = ReadInstruction.from_spec(split).to_absolute({name: count})
    except (ValueError, AssertionError) as error:
        raise ConfigError(
            f"{key}={split} must be {name} or a slice of it, as {name}[:90%]: {_first_line(error)}"
        ) from None
    return [row for part in parts for row in range(part.from_, part.to)]


def file_rows(file: Path, key: str) -> list[dict[str, Any]]:
    """All rows of one file, with exactly the values that stand there.

    A cell of a .csv file is a text, or None if it is empty. A column that a row lacks is None in
    it. Dates and bytes, as Parquet has, are Python's.
    key: the setting that the file comes from
    """
    readers = dict(zip(FORMATS, (json_lines, _json_list, _csv_rows, _parquet_rows), strict=True))
    require(file.suffix in readers, f"{key}={file} must end in one of {', '.join(readers)}")
    rows = readers[file.suffix](file, key)
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def json_lines(file: Path, key: str) -> list[dict[str, Any]]:
    """The object on each line of a .jsonl file; ConfigError for another line, by its number."""
    text = _text(file, key)
    require(bool(text.strip()), f"{key}={file} has no rows")
    # not splitlines(), which would also cut at characters that JSON allows inside a text
    lines = text.rstrip("\n").split("\n")
    rows = [_json(line, f"{key}={file}: line {number}") for number, line in enumerate(lines, 1)]
    for number, row in enumerate(rows, 1):
        require(isinstance(row, dict), f"{key}={file}: line {number} must be an object with keys")
    return rows


def _json_list(file: Path, key: str) -> list[dict[str, Any]]:
    """The objects of a .json file, which is a list of them."""
    rows: Any = _json(_text(file, key), f"{key}={file}")
    require(
        isinstance(rows, list) and all(isinstance(row, dict) for row in rows),
        f"{key}={file} must be a list of objects with keys",
    )
    return list(rows)


def _json(text: str, where: str) -> Any:
    """The value of a text; ConfigError where it is no JSON, or no UTF-8 can hold its texts."""
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # half of a pair of surrogates
    except (ValueError, RecursionError) as error:  # ... brackets within brackets
        raise ConfigError(f"{where} is not JSON: {error}") from None
    return value


def _csv_rows(file: Path, key: str) -> list[dict[str, Any]]:
    """The rows of a .csv file; lines without any cell are none.

    Raises ConfigError for a column named twice, and for a row with more cells than columns.
    """
    csv.field_size_limit(sys.maxsize)  # a text may be longer than 131,072 characters
    reader = csv.DictReader(io.StringIO(_text(file, key), newline=""), strict=True)
    try:
        names, rows = reader.fieldnames or [], list(reader)
    except csv.Error as error:
        raise ConfigError(
            f"{key}={file}: cannot be read as cells between commas: {error}"
        ) from None
    for name in names:
        require(names.count(name) == 1, f"{key}={file}: two columns are called '{name}'")
    for number, row in enumerate(rows, 1):
        require(None not in row, f"{key}={file}: row {number} has more cells than the header")
    return [{name: row[name] or None for name in names} for row in rows]


def _parquet_rows(file: Path, key: str) -> list[dict[str, Any]]:
    from pyarrow import ArrowException  # noqa: PLC0415  as in hub_table; datasets brings it
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    try:
        rows: list[dict[str, Any]] = ParquetFile(file).read().to_pylist()
    except (ArrowException, OSError) as error:
        raise ConfigError(f"{key}={file}: cannot be read: {_first_line(error)}") from error
    return rows


def _text(file: Path, key: str) -> str:
    """A file's text with its own line ends, without a byte order mark."""
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{key}={file}: line {line} is not UTF-8: {error}") from None
    except OSError as error:
        raise ConfigError(f"{key}={file}: cannot be read: {error}") from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
