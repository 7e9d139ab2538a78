"""The settings of a run as its directory stores them: resolved, in config.yaml."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from omegaconf.resolvers.oc import env
from yaml import YAMLError  # type: ignore[import-untyped]  # mypy's stubs are not installed

from cory.config import ConfigError, flat, require

SETTINGS = "config.yaml"
ENVIRONMENT = "oc.env"  # OmegaConf's resolver of environment variables
HIDDEN = "cory-hides-the-environment"  # stands for what it gives; one word, for `oc.decode`
ITERATIONS_KEY = "algorithm.iterations"  # the setting that may grow
# settings that may differ between two starts of the same run
FREE = (
    "objective",
    "hardware",
    "wandb",
    "tensorboard",
    "trackio",
    "run_dir",
    "sweep",
    "checkpoint_every",
    "export_every",
    "keep_last",
    "keep_state",
    "keep_best",
    "keep_best_mode",
    "parallel_runs",
)


def read_settings(run_dir: Path, said: str | None = None) -> DictConfig:
    """The settings in a run's directory; ConfigError, in one line, where that is impossible.

    said: how the refusal names the directory, such as `run_dir=<run_dir>`; None: by its path
    """
    said = said or str(run_dir)
    path = run_dir / SETTINGS
    require(path.is_file(), f"{said}: there is no run")
    try:
        stored = OmegaConf.load(path)
        resolved(stored)  # before anybody relies on a value: it may refer to nothing
    except (OSError, ValueError, YAMLError, OmegaConfBaseException, RecursionError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(f"{said} holds a {SETTINGS} that cannot be read ({reason})") from error
    if not isinstance(stored, DictConfig):
        raise ConfigError(f"{said} holds a {SETTINGS} that cannot be read: it is no mapping")
    return stored


def resolved(cfg: Container) -> Any:
    """The settings as plain values, but for what depends on `${oc.env:NAME}`, which may be secret.

    There the text stays, and every process looks the variable up again; it need not exist here.
    """
    OmegaConf.register_new_resolver(ENVIRONMENT, lambda *_: HIDDEN, replace=True)
    try:
        hidden = OmegaConf.to_container(cfg, resolve=True)
    finally:
        OmegaConf.register_new_resolver(ENVIRONMENT, env, replace=True)
    return _with_texts(hidden, OmegaConf.to_container(cfg, resolve=False))


def _with_texts(value: Any, raw: Any) -> Any:
    if isinstance(raw, str):
        return raw if HIDDEN in str(value) else value
    if isinstance(raw, dict):
        return {key: _with_texts(value[key], one) for key, one in raw.items()}
    if isinstance(raw, list):
        return [_with_texts(*pair) for pair in zip(value, raw, strict=True)]
    return value


def comparable_settings(cfg: Container) -> dict[str, Any]:
    """Settings by dotted keys, without those in FREE."""
    values = {key: value for key, value in resolved(cfg).items() if key not in FREE}
    return {key: value for key, value in flat(values).items() if not isinstance(value, Mapping)}


def settings_digest(cfg: DictConfig) -> str:
    """A hash of the settings that must be the same when a run goes on; its length may grow."""
    settings = comparable_settings(cfg)
    settings.pop(ITERATIONS_KEY, None)
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
