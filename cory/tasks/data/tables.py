"""Rows of a data set: from the hub, from a local file, or from a folder with a file per split."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import ReadInstruction, load_dataset
from datasets.exceptions import DatasetNotFoundError

from cory.config import ConfigError, require

FORMATS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}


def hub_table(
    path: str, subset: str | None, split: str, offline: str, key: str = "task.path"
) -> Any:
    """One split of a data set of the hub.

    subset: of data sets that come in several, the one that is meant
    offline: what to set instead, for the error message
    key: the setting that `path` comes from
    """
    try:
        return load_dataset(path, subset, split=split)
    except (DatasetNotFoundError, ConnectionError, OSError, ValueError) as error:
        raise ConfigError(
            f"{key}={path}: the hub did not give split '{split}' ({_first_line(error)}); "
            f"to work offline set {offline} (HF_HUB_OFFLINE=1 stops asking the hub)"
        ) from error


def local_table(
    path: str, split: str, needed: Sequence[str], key: str = "task.path", sliced: bool = True
) -> Any:
    """A slice of a file, as `train[:90%]`; or of a folder's file `<split>.jsonl` and the like.

    needed: keys that every line of a .jsonl file must have, unless none has them
    key: the setting that `path` comes from
    sliced: training and test rows come from the same path, so a file must be cut
    """
    place = Path(path).expanduser()
    name = split.partition("[")[0]
    file = _file_of_split(place, name, f"{key}={path}") if place.is_dir() else place
    require(file.is_file(), f"{key}={path}: there is no such file")
    kind = FORMATS.get(file.suffix)
    if kind is None:
        raise ConfigError(f"{key}={path} must end in one of {', '.join(FORMATS)}")
    # a file is one split called train; `test` of a file would be the same rows again
    require(
        place.is_dir() or split.startswith("train[") or (split == "train" and not sliced),
        f"task.source=path needs slices of the file, typed as 'task.train_split=\"train[:90%]\"' "
        f"and 'task.test_split=\"train[90%:]\"', or a folder with a file per split; got {split}",
    )
    if file.suffix == ".jsonl":
        _check_lines(file, needed, key)
    try:
        return load_dataset(kind, data_files={name: str(file)}, split=split)
    except Exception as error:  # each reader behind `datasets` raises its own (detail 17)
        raise ConfigError(f"{key}={file}: cannot be read: {_first_line(error)}") from error


def rows_of_split(split: str, name: str, count: int) -> list[int]:
    """The rows that `name`, or a slice of it as name[:90%], means where there are `count`."""
    try:
        parts = ReadInstruction.from_spec(split).to_absolute({name: count})
    except (ValueError, AssertionError) as error:
        raise ConfigError(
            f"task.{name}_split={split} must be {name} or a slice of it, as {name}[:90%]: "
            f"{_first_line(error)}"
        ) from None
    return [row for part in parts for row in range(part.from_ or 0, part.to or count)]


def column(table: Any, key: str, name: str) -> list[Any]:
    """One column of a table; `key` names the setting that chose it."""
    require(
        name in table.column_names,
        f"{key}={name} is not in the data; it has {', '.join(table.column_names)}",
    )
    return list(table[name])


def _check_lines(file: Path, needed: Sequence[str], key: str) -> None:
    """Refuse an empty, broken or incomplete line by its number: the reader would pass over it."""
    try:
        text = file.read_text(encoding="utf-8")
    except ValueError as error:
        raise ConfigError(f"{key}={file}: cannot be read: {error}") from None
    first: dict[str, Any] = {}
    # not splitlines(), which would also cut at characters that JSON allows inside a text
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        where = f"{key}={file}: line {number}"
        require(bool(line.strip()), f"{where} is empty")
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{where} is not JSON: {error}") from None
        require(isinstance(row, dict), f"{where} must be an object with keys")
        first = first or row
        for name in needed:
            # a key that no line has is the setting's mistake, which `column` names
            require(name in row or name not in first, f"{where} has no '{name}'")


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
