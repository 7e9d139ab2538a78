"""The settings of a run as its directory stores them: one writer and one reader for all.

`config.yaml` holds the resolved settings, but for `${oc.env:NAME}`: what an environment variable
holds may be secret, so that the text stays and every process looks the variable up again.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import Container, DictConfig, OmegaConf
from omegaconf import resolvers as built_in
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]  # mypy's stubs are not installed

from cory.config import ConfigError, require

SETTINGS = "config.yaml"
# every run has these, whatever its other settings
OF_EVERY_RUN = ("model.name", "task.name", "algorithm.name", "reward.name", "seed")
ENVIRONMENT = "oc.env"  # OmegaConf's resolver
# the variable within another resolver's argument, as in ${oc.decode:${oc.env:NAME}}
WITHIN = re.compile(r"\$\{[^{}]*\$\{oc\.env:")
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
    unreadable = f"{said} holds a {SETTINGS} that cannot be read"
    try:
        stored = OmegaConf.load(path)
        as_written(stored)  # before anybody relies on a value: it may refer to nothing
    except (OSError, ValueError, YAMLError, OmegaConfBaseException, RecursionError) as error:
        raise ConfigError(f"{unreadable} ({_first_line(error)})") from error
    if not isinstance(stored, DictConfig):
        raise ConfigError(f"{unreadable}: it holds no settings by name")
    return stored


def require_every_group(stored: DictConfig, said: str) -> None:
    """Refuse settings that lack what every run's have; said: as for `read_settings`."""
    for key in OF_EVERY_RUN:
        group, _, name = key.rpartition(".")
        node = stored.get(group) if group else stored
        known = isinstance(node, DictConfig) and name in node
        require(known, f"{said} holds a {SETTINGS} without {key}: torn, or not of a run")


def as_written(cfg: Container) -> Any:
    """The settings as plain values; every `${oc.env:NAME}` stays a text."""
    with _environment_kept():
        resolved = OmegaConf.to_container(cfg, resolve=True)
    return _with_texts(resolved, OmegaConf.to_container(cfg, resolve=False))


def comparable_settings(cfg: Any) -> dict[str, Any]:
    """Settings by dotted keys, without those in FREE."""
    return comparable_values(as_written(cfg))


def comparable_values(written: dict[str, Any]) -> dict[str, Any]:
    """As `comparable_settings`, of settings that are plain values already (`as_written`)."""
    flat: dict[str, Any] = {}

    def walk(node: Any, prefix: str) -> None:
        for key, value in node.items():
            if prefix == "" and key in FREE:
                continue
            if isinstance(value, dict):
                walk(value, f"{prefix}{key}.")
            else:
                flat[f"{prefix}{key}"] = value

    walk(written, "")
    return flat


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Inside, `${oc.env:NAME}` resolves to its own text."""
    OmegaConf.register_new_resolver(ENVIRONMENT, _text_of, replace=True)
    try:
        yield
    finally:
        OmegaConf.register_new_resolver(ENVIRONMENT, built_in.oc.env, replace=True)


def _text_of(*arguments: Any) -> str:
    name, *default = arguments
    escaped = [None if value is None else str(value).replace('"', '\\"') for value in default]
    quoted = ["null" if value is None else f'"{value}"' for value in escaped]
    return f"${{{ENVIRONMENT}:{','.join([str(name), *quoted])}}}"


def _with_texts(resolved: Any, raw: Any) -> Any:
    """The resolved values, with the text of those that compute something from a variable."""
    if isinstance(raw, str):
        return raw if WITHIN.search(raw) else resolved
    if isinstance(raw, dict) and isinstance(resolved, dict):
        return {key: _with_texts(value, raw[key]) for key, value in resolved.items()}
    if isinstance(raw, list) and isinstance(resolved, list):
        return [_with_texts(*pair) for pair in zip(resolved, raw, strict=True)]
    return resolved


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
