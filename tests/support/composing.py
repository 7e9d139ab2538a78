"""Configs as `python -m cory.train` composes them, without a run."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig

from cory.config import Config, parse_config
from cory.train import compose

CONF = Path(__file__).resolve().parents[2] / "conf"


# Hydra reads some thirty files for each of the thousand configs that the tests compose
_read = FileConfigSource.load_config


@cache
def _read_once(folder: str, path: str, changed: int) -> ConfigResult:
    return _read(FileConfigSource("tests", f"file://{folder}"), path)


def _remembered(source: FileConfigSource, config_path: str) -> ConfigResult:
    """A file of conf/ as it was when last changed; a copy, since Hydra takes its defaults out."""
    file = Path(source.path) / source._normalize_file_name(config_path)
    if not file.exists():
        return _read(source, config_path)  # Hydra's own error
    result = deepcopy(_read_once(source.path, config_path, file.stat().st_mtime_ns))
    result.provider = source.provider
    return result


FileConfigSource.load_config = _remembered


def compose_config(*overrides: str) -> DictConfig:
    """The composed settings; `run_dir` is `unused` unless overridden."""
    return compose(*overrides)


def parsed(*overrides: str) -> Config:
    """The checked settings."""
    return parse_config(compose_config(*overrides))


def options(group: str) -> list[str]:
    folder = CONF / group
    names = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yaml"))
    return sorted(name.as_posix() for name in names)


def jobs(sweep: str) -> list[list[str]]:
    """The overrides of each job of a sweep."""
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        cfg = hydra_compose("train", overrides=[f"sweep={sweep}"], return_hydra_config=True)
    params = cfg.hydra.sweeper.params or {}
    return [
        [f"sweep={sweep}", *(f"{key}={value}" for key, value in zip(params, values, strict=True))]
        for values in product(*(str(choices).split(",") for choices in params.values()))
    ]


def leaves(cfg: DictConfig) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in cfg.items():
        inner = leaves(value) if isinstance(value, DictConfig) else {"": value}
        flat |= {f"{key}.{name}".strip("."): leaf for name, leaf in inner.items()}
    return flat
