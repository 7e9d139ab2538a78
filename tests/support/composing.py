"""Configs as `python -m cory.train` composes them, without a run.

`experiment=<run of conf/sweeps>` stands for the words of that run.

A choice of options is composed once per process.
"""

import pickle
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from cory.config import (
    Config,
    MaporlConfig,
    experiment_names,
    parse_config,
    read_sweep,
    sweep_names,
)
from cory.config.sweep_files import LOADER, merged, words_of
from cory.runtime.hydra_setup import compose
from tests.support.commands import last_wins

ROOT = Path(__file__).resolve().parents[2]
ConfigOf = Callable[..., Config]  # the checked settings with these words beside others
CONF = ROOT / "conf"
# words with which Hydra reads files elsewhere, or that concern Hydra itself
OF_HYDRA = ("hydra.", "hydra/", "+hydra", "-")
NAME = "hydra.job.name="  # of a run; it is the setting experiment, and chooses nothing


def compose_config(*overrides: str) -> DictConfig:
    """The composed settings; `run_dir` is `unused` unless overridden."""
    return _composed(run_for(overrides))


@cache
def runs_at(scale: str) -> dict[str, list[str]]:
    """<file>/<run> of all runs in conf/sweeps -> its words at a scale."""
    return {
        f"{file.stem}/{run}": words_of(runs, run, scale)
        for file in sorted((CONF / "sweeps").glob("*.yaml"))
        for runs in [yaml.load(file.read_text(), LOADER)["runs"]]
        for run in runs
    }


def run_for(overrides: Sequence[str]) -> list[str]:
    """Words with those of a run in conf/sweeps in the place of experiment=<run>."""
    own = dict(word.partition("=")[::2] for word in overrides)
    name = own.get("experiment")
    runs = runs_at(own.get("scale", "paper"))
    if name is None or name in experiment_names(CONF) or name not in runs:
        return list(overrides)
    rest = [word for word in overrides if not word.startswith("experiment=")]
    words = merged(runs[name], rest)
    return [*words, f"hydra.job.name={name}"]


def _composed(words: Sequence[str]) -> DictConfig:
    """A new object each time. The options that words choose are composed once in each process."""
    named = [word for word in words if word.startswith(NAME)]
    words = [word for word in words if word not in named]
    chosen = [word for word in words if _chooses(word)]
    rest = [word for word in words if word not in chosen]
    values = OverridesParser.create().parse_overrides(rest)
    if any(word.startswith(OF_HYDRA) for word in words) or any(
        v.is_sweep_override() for v in values
    ):
        return compose(*words, *named)
    config: DictConfig = pickle.loads(_options(*chosen))
    if named:
        config.experiment = named[-1].partition("=")[2]
    ConfigLoaderImpl._apply_overrides_to_config(values, config)  # as Hydra sets them
    return config


@cache
def _options(*words: str) -> bytes:
    return pickle.dumps(compose(*words))


def _chooses(word: str) -> bool:
    """Whether it names an option of a group; else it gives a value."""
    return (CONF / word.lstrip("+~").partition("=")[0].partition("@")[0]).is_dir()


def parsed(*overrides: str) -> Config:
    """The checked settings."""
    return parse_config(compose_config(*overrides))


def options(group: str) -> list[str]:
    """The options of a group; also the runs and the names of conf/sweeps."""
    if group == "experiment":
        return sorted({*experiment_names(CONF), *runs_at("paper")})
    if group == "sweep":
        return sweep_names([CONF])
    folder = CONF / group
    names = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yaml"))
    return sorted(name.as_posix() for name in names)


def jobs(sweep: str, scale: str = "paper") -> list[tuple[str, int]]:
    """The run and seed of each job of a sweep."""
    own = read_sweep(sweep, scale, [CONF])
    return [(name, seed) for name in own.runs for seed in own.seeds]


def leaves(cfg: DictConfig) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in cfg.items():
        inner = leaves(value) if isinstance(value, DictConfig) else {"": value}
        flat |= {f"{key}.{name}".strip("."): leaf for name, leaf in inner.items()}
    return flat


@cache
def composed(*words: str) -> DictConfig:
    """As `compose_config`, composed once: not to be changed."""
    return compose_config(*words)


def selected(cfg: DictConfig, key: str) -> Any:
    """A setting as plain values; None where there is none."""
    found = OmegaConf.select(cfg, key)
    return OmegaConf.to_container(found) if OmegaConf.is_config(found) else found


def changed(base: str, name: str, *words: str) -> dict[str, Any]:
    """What a run has that another has otherwise, where both have it; but for its name."""
    one, other = (leaves(composed(f"experiment={run}", *words)) for run in (base, name))
    both = one.keys() & other.keys() - {"experiment"}
    return {key: other[key] for key in both if other[key] != one[key]}


def maporl_settings(*words: str) -> MaporlConfig:
    """The algorithm's settings of debates about sums, paid for right answers."""
    base = ["task=arithmetic", "reward=exact_match", "algorithm=maporl"]
    config: MaporlConfig = parsed(*last_wins([*base, *words])).algorithm
    return config
