"""Configs as `python -m cory.train` composes them, without a run."""

from __future__ import annotations

from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from cory.config import Config, parse_config

CONF = Path(__file__).resolve().parent.parent / "conf"


def compose_config(*overrides: str) -> DictConfig:
    """The composed settings; `run_dir` is `unused` unless overridden."""
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        cfg = compose("train", overrides=list(overrides), return_hydra_config=True)
    choices = cfg.hydra.runtime.choices
    # these read `${hydra:...}`, which only a run of Hydra resolves
    OmegaConf.set_struct(cfg, False)
    del cfg["hydra"]
    for group in ("experiment", "sweep", "scale"):
        cfg[group] = choices[group]
    if OmegaConf.is_interpolation(cfg, "run_dir"):
        cfg.run_dir = "unused"
    OmegaConf.set_struct(cfg, True)
    return cfg


def parsed(*overrides: str) -> Config:
    """The checked settings."""
    return parse_config(compose_config(*overrides))
