"""Rows of a data set: from the hub, from a local file, or from a folder with a file per split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets import load_dataset
from datasets.exceptions import DatasetNotFoundError

from cory.config import ConfigError, require

FORMATS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}


def hub_table(path: str, subset: str | None, split: str, offline: str) -> Any:
    """One split of a data set of the hub.

    subset: of data sets that come in several, the one that is meant
    offline: what to set instead, for the error message
    """
    try:
        return load_dataset(path, subset, split=split)
    except (DatasetNotFoundError, ConnectionError, OSError, ValueError) as error:
        raise ConfigError(
            f"task.path={path}: the hub did not give split '{split}' ({_first_line(error)}); "
            f"to work offline set {offline} (HF_HUB_OFFLINE=1 stops asking the hub)"
        ) from error


def local_table(path: str, split: str) -> Any:
    """A slice of a file, as `train[:90%]`; or of a folder's file `<split>.jsonl` and the like."""
    place = Path(path).expanduser()
    name = split.partition("[")[0]
    file = _file_of_split(place, name, path) if place.is_dir() else place
    require(file.is_file(), f"task.path={path}: there is no such file")
    kind = FORMATS.get(file.suffix)
    if kind is None:
        raise ConfigError(f"task.path={path} must end in one of {', '.join(FORMATS)}")
    # a file is one split called train; `test` of a file would be the same rows again
    require(
        place.is_dir() or split.startswith("train["),
        f"task.source=path needs slices of the file, typed as 'task.train_split=\"train[:90%]\"' "
        f"and 'task.test_split=\"train[90%:]\"', or a folder with a file per split; got {split}",
    )
    try:
        return load_dataset(kind, data_files={name: str(file)}, split=split)
    except Exception as error:  # each reader behind `datasets` raises its own (detail 17)
        raise ConfigError(f"task.path={file}: cannot be read: {_first_line(error)}") from error


def column(table: Any, key: str, name: str) -> list[Any]:
    """One column of a table; `key` names the setting that chose it."""
    require(
        name in table.column_names,
        f"{key}={name} is not in the data; it has {', '.join(table.column_names)}",
    )
    return list(table[name])


def _file_of_split(folder: Path, name: str, path: str) -> Path:
    files = [file for suffix in FORMATS if (file := folder / f"{name}{suffix}").is_file()]
    require(
        len(files) == 1,
        f"task.path={path}: the folder must hold one file for split '{name}' "
        f"({', '.join(name + suffix for suffix in FORMATS)}), found {len(files)}",
    )
    return files[0]


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
