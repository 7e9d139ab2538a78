"""Configs as `python -m cory.train` composes them, without a run.

A file of conf/ is read once per process, a config composed once per state of conf/.
"""

from __future__ import annotations

import inspect
import pickle
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import DictConfig

import cory.config
from cory.config import Config, MaporlConfig, experiment_names, parse_config
from cory.runtime.hydra_options import look_beside
from cory.train import compose
from tests.support.commands import last_wins
from tests.support.compositions import Compositions, digest_of

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"


# Looking for plugins, Hydra executes its own modules once more: the class that it reads files with
# is the one that exists after that.
Plugins.instance()
FileConfigSource = SourcesRegistry.instance().resolve("file")
# Hydra reads some thirty files for each of the thousand configs that the tests compose
_read = FileConfigSource.load_config


@cache
def read_once(folder: str, path: str, changed: int) -> bytes:
    return pickle.dumps(_read(FileConfigSource("tests", f"file://{folder}"), path))


def _remembered(source: ConfigSource, config_path: str) -> ConfigResult:
    """A file of conf/ as it was when last changed; a copy, since Hydra takes its defaults out."""
    file = Path(source.path) / source._normalize_file_name(config_path)
    if not file.exists():
        return _read(source, config_path)  # Hydra's own error
    result = pickle.loads(read_once(source.path, config_path, file.stat().st_mtime_ns))
    result.provider = source.provider
    return result


FileConfigSource.load_config = _remembered


def compose_config(*overrides: str) -> DictConfig:
    """The composed settings; `run_dir` is `unused` unless overridden."""
    return _compositions()(*overrides)


@cache
def _compositions() -> Compositions:
    settings = Path(inspect.getfile(cory.config)).parent
    code = [
        *sorted(settings.glob("*.py")),
        *map(Path, map(inspect.getfile, (compose, look_beside))),
    ]
    return Compositions(ROOT / ".pytest_cache" / "composed", digest_of(CONF, *code), CONF, compose)


def parsed(*overrides: str) -> Config:
    """The checked settings."""
    return parse_config(compose_config(*overrides))


def options(group: str) -> list[str]:
    """The options of a group; of `experiment` also those of conf/names.yaml."""
    if group == "experiment":
        return experiment_names(CONF)
    folder = CONF / group
    names = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yaml"))
    return sorted(name.as_posix() for name in names)


@cache
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


def maporl_settings(*words: str) -> MaporlConfig:
    """The algorithm's settings of debates about sums, paid for right answers."""
    base = ["experiment=quickstart", "task=arithmetic", "reward=exact_match", "algorithm=maporl"]
    config: MaporlConfig = parsed(*last_wins([*base, *words])).algorithm
    return config
