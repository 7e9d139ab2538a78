"""Rows of a data set on the hub, in a local file, or in a folder with one file per split."""

import csv
import glob
import io
import json
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

from cory.config import ConfigError, require
from cory.config.task import MessageConfig, QuestionsConfig

FORMATS = (".jsonl", ".json", ".csv", ".parquet")


def split_rows(
    source: str,
    path: str,
    split: str,
    columns: Mapping[str, str],
    *,
    subset: str | None = None,
    key: str = "task.path",
    offline: str = "task.source=path with a local file or folder",
    sliced: bool = True,
) -> list[tuple[Any, ...]]:
    """The rows of one split, each as a tuple of the columns in their order.

    source: hub | path
    columns: setting that names a column -> the column's name in the data
    subset, offline, key: as in `hub_table`
    sliced: as in `local_table`
    Raises ConfigError where the data or a column cannot be had.
    """
    if source == "hub":
        found = hub_table(path, subset, split, offline, key)
        table = {name: found[name] for name in found.column_names}  # read when asked for
    else:
        table = local_table(path, split, tuple(columns.values()), key, sliced)
    values = [column(table, setting, name) for setting, name in columns.items()]
    return list(zip(*values, strict=True))


def part_rows(
    config: QuestionsConfig | MessageConfig,
    part: str,
    columns: Mapping[str, str],
    subset: str | None = None,
) -> list[tuple[Any, ...]]:
    """`split_rows` of the split that a task's settings name for a part, `train` or `test`."""
    assert config.path is not None  # generated questions have no rows
    split = config.train_split if part == "train" else config.test_split
    sliced = not config.picks()  # picked problems of one split share no question
    return split_rows(config.source, config.path, split, columns, subset=subset, sliced=sliced)


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


def hub_table(
    path: str, subset: str | None, split: str, offline: str, key: str = "task.path"
) -> Any:
    """One split of a data set on the hub.

    subset: name of a configuration, of data sets that have several
    offline: settings that need no network, for the error message
    key: the setting that `path` comes from
    """
    from datasets import load_dataset  # noqa: PLC0415  half a second, and many runs do without

    try:
        return load_dataset(path, subset, split=split)
    except Exception as error:  # its readers and its network, which share no base class
        raise ConfigError(
            f"{key}={path}: the hub did not give split '{split}' ({_first_line(error)}); "
            f"to work offline set {offline} (HF_HUB_OFFLINE=1 stops asking the hub)"
        ) from error


def local_table(
    path: str, split: str, columns: Sequence[str], key: str = "task.path", sliced: bool = True
) -> dict[str, list[Any]]:
    """The columns of a slice of one file, as `train[:90%]`, or of a split's file in a folder.

    columns: keys that every line of a .jsonl file must have
    key: the setting that `path` comes from
    sliced: refuse all of one file as a split, because training and test rows would be the same
    """
    place = Path(path).expanduser()
    file, name = file_of_split(path, split, key), split.partition("[")[0]
    # a file is one split called train; `test` of a file would be the same rows again
    require(
        place.is_dir() or split.startswith("train[") or (split == "train" and not sliced),
        f"task.source=path needs slices of the file, typed as 'task.train_split=\"train[:90%]\"' "
        f"and 'task.test_split=\"train[90%:]\"', or a folder with a file per split; got {split}",
    )
    rows = file_rows(file, key, columns)
    require(bool(rows), f"{key}={file} has no rows")
    chosen = rows_of_split(split, name, len(rows), f"{key}={file}: split")
    return {column: [rows[row][column] for row in chosen] for column in rows[0]}


def file_rows(
    file: Path, key: str = "task.path", columns: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """All rows of one file, with exactly the values that stand there.

    A cell of a .csv file is a text, or None if it is empty. A column that a row lacks is None in
    it. Dates and bytes, as Parquet has, are Python's.
    key: the setting that the file comes from
    columns: keys that every line of a .jsonl file must have, if its first one has them
    """
    require(
        file.suffix in FORMATS,
        f"{key}={file} must end in one of {', '.join(FORMATS)}",
    )
    if file.suffix == ".parquet":
        return _parquet_rows(file, key)
    if file.suffix == ".csv":
        return csv_rows(file, key)
    rows = _json_list(file, key) if file.suffix == ".json" else json_lines(file, key)
    if file.suffix == ".jsonl":
        for (number, row), name in product(enumerate(rows, 1), columns):
            # a key that the first line lacks, too, is the setting's mistake: `column` reports it
            require(
                name in row or name not in rows[0],
                f"{key}={file}: line {number} has no '{name}'",
            )
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def csv_rows(file: Path, key: str) -> list[dict[str, Any]]:
    """The rows of a .csv file: every cell a text as it stands there, an empty one None.

    Lines without any cell are no rows; cells that a short row lacks are empty.
    Raises ConfigError for a column named twice, and for a row with more cells than columns.
    """
    csv.field_size_limit(sys.maxsize)  # a text may be longer than 131,072 characters
    # not universal newlines, which would change a text's own; a byte order mark is no text
    lines = io.StringIO(_text(file, key, newline="").removeprefix("\ufeff"), newline="")
    try:
        names, *rows = [row for row in csv.reader(lines, strict=True) if row] or [[]]
    except csv.Error as error:
        raise ConfigError(
            f"{key}={file}: cannot be read as cells between commas: {error}"
        ) from None
    require(
        len(names) > 1 or not re.search("[;\t]", "".join(names)),
        f"{key}={file}: cells must be separated by commas, got the header '{''.join(names)}'",
    )
    for name in names:
        require(names.count(name) == 1, f"{key}={file}: two columns are called '{name}'")
    for number, row in enumerate(rows, 1):
        require(
            len(row) <= len(names),
            f"{key}={file}: row {number} has {len(row)} cells, the header {len(names)}",
        )
    return [{name: cell or None for name, cell in zip_longest(names, row)} for row in rows]


def json_lines(file: Path, key: str) -> list[dict[str, Any]]:
    """The object on each line of a .jsonl file; ConfigError for another line, by its number."""
    text = _text(file, key)
    require(bool(text.strip()), f"{key}={file} has no rows")
    rows = []
    # not splitlines(), which would also cut at characters that JSON allows inside a text
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        where = f"{key}={file}: line {number}"
        require(bool(line.strip()), f"{where} is empty")
        row = _json(line, where)
        require(isinstance(row, dict), f"{where} must be an object with keys")
        rows.append(row)
    return rows


def _json(text: str, where: str) -> Any:
    """The value of a text; ConfigError where it is no JSON, or no UTF-8 can hold its texts."""
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # half of a pair of surrogates
    except (ValueError, RecursionError) as error:  # ... brackets within brackets
        raise ConfigError(f"{where} is not JSON: {error}") from None
    return value


def file_of_split(path: str, split: str, key: str = "task.path") -> Path:
    """The one file at `path`, or the file of a split, `name` or a slice of it, in the folder."""
    place = Path(path).expanduser()
    file = place
    if place.is_dir():
        file = _file_of_split(place, split.partition("[")[0], f"{key}={path}")
    require(file.is_file(), f"{key}={path}: there is no such file")
    return file


def rows_of_split(split: str, name: str, count: int, key: str = "") -> list[int]:
    """The row numbers that a split means, `name` itself or a slice as name[:90%], of `count` rows.

    key: the setting that `split` comes from; empty: task.<name>_split
    Raises ConfigError for a split of another name or form.
    """
    from datasets import ReadInstruction  # noqa: PLC0415  as in hub_table

    try:
        parts = ReadInstruction.from_spec(split).to_absolute({name: count})
    except (ValueError, AssertionError) as error:
        raise ConfigError(
            f"{key or f'task.{name}_split'}={split} must be {name} or a slice of it, as "
            f"{name}[:90%]: "
            f"{_first_line(error)}"
        ) from None
    return [row for part in parts for row in range(part.from_, part.to)]


def column(table: Mapping[str, Sequence[Any]], key: str, name: str) -> list[Any]:
    """All values of one column; ConfigError where the table has none of this name.

    key: the setting that `name` comes from
    """
    require(name in table, f"{key}={name} is not in the data; it has {', '.join(table)}")
    return list(table[name])


def _parquet_rows(file: Path, key: str) -> list[dict[str, Any]]:
    from datasets import load_dataset  # noqa: PLC0415  as in hub_table

    try:
        exactly = glob.escape(str(file))  # the library takes names for patterns
        table = load_dataset("parquet", data_files={"train": exactly}, split="train")
    except Exception as error:  # each reader behind `datasets` raises its own
        raise ConfigError(f"{key}={file}: cannot be read: {_first_line(error)}") from error
    rows: list[dict[str, Any]] = table.to_list()
    return rows


def _json_list(file: Path, key: str) -> list[dict[str, Any]]:
    """The objects of a .json file, which is a list of them."""
    rows: Any = _json(_text(file, key), f"{key}={file}")
    require(
        isinstance(rows, list) and all(isinstance(row, dict) for row in rows),
        f"{key}={file} must be a list of objects with keys",
    )
    found: list[dict[str, Any]] = rows
    return found


def _text(file: Path, key: str, newline: str | None = None) -> str:
    try:
        with file.open(encoding="utf-8", newline=newline) as opened:
            return opened.read()
    except UnicodeDecodeError as error:
        line = file.read_bytes()[: error.start].count(b"\n") + 1
        raise ConfigError(f"{key}={file}: line {line} is not UTF-8: {error}") from None
    except OSError as error:
        raise ConfigError(f"{key}={file}: cannot be read: {error}") from None


def _file_of_split(folder: Path, name: str, where: str) -> Path:
    files = [file for suffix in FORMATS if (file := folder / f"{name}{suffix}").is_file()]
    require(
        len(files) == 1,
        f"{where}: the folder must hold one file for split '{name}' "
        f"({', '.join(name + suffix for suffix in FORMATS)}), found {len(files)}",
    )
    return files[0]


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
