"""Configs as `python -m cory.train` composes them, without a run."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from cory.config import Config, parse_config
from cory.train import compose

CONF = Path(__file__).resolve().parent.parent / "conf"


def compose_config(*overrides: str) -> DictConfig:
    """The composed settings; `run_dir` is `unused` unless overridden."""
    return compose(*overrides)


def parsed(*overrides: str) -> Config:
    """The checked settings."""
    return parse_config(compose_config(*overrides))
