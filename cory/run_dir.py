"""A run directory on disk: what was asked, and whether it is done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from yaml import YAMLError  # type: ignore[import-untyped]  # mypy's stubs are not installed

from cory.config import ConfigError, require

SETTINGS = "config.yaml"
OVERRIDES = "overrides.txt"
METRICS = "metrics.jsonl"
SAMPLES = "samples.jsonl"
RECORD = "record.json"
# what may differ between two starts of the same run
FREE = ("hardware", "wandb", "run_dir", "sweep")


def is_complete(run_dir: Path, cfg: DictConfig) -> bool:
    """Whether the run is finished there; refuses a directory that holds another run."""
    settings = run_dir / SETTINGS
    if not settings.exists():
        return False
    try:
        stored = OmegaConf.load(settings)
    except (OSError, YAMLError) as error:
        raise ConfigError(f"run_dir={run_dir} holds a {SETTINGS} that cannot be read") from error
    old, new = _comparable(stored), _comparable(cfg)
    other = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    if other:
        key = other[0]
        require(
            False,
            f"run_dir={run_dir} holds a run with {key}={old.get(key)}, not {new.get(key)}; "
            f"delete it or choose another run_dir",
        )
    return (run_dir / RECORD).exists()


def write_settings(run_dir: Path, cfg: DictConfig, overrides: list[str]) -> None:
    """Start a run directory: the resolved settings, and what was typed."""
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        (run_dir / SETTINGS).write_text(OmegaConf.to_yaml(cfg, resolve=True), encoding="utf-8")
        (run_dir / OVERRIDES).write_text(
            "".join(f"{line}\n" for line in overrides), encoding="utf-8"
        )
    except OSError as error:
        require(False, f"run_dir={run_dir} cannot be written: {error.strerror}")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a .jsonl file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _comparable(cfg: Any) -> dict[str, Any]:
    """Settings as dotted keys, without those that may differ."""
    flat: dict[str, Any] = {}

    def walk(node: Any, prefix: str) -> None:
        for key, value in node.items():
            if prefix == "" and key in FREE:
                continue
            if isinstance(value, dict):
                walk(value, f"{prefix}{key}.")
            else:
                flat[f"{prefix}{key}"] = value

    walk(OmegaConf.to_container(cfg, resolve=True), "")
    return flat
