"""The runs of a sweep, as conf/sweep/ lists them."""

from pathlib import Path

from omegaconf import OmegaConf


def exists(conf: Path, name: str) -> bool:
    """Whether there is a sweep of this name."""
    return _path(conf, name).exists()


def values_of(conf: Path, name: str, key: str, where: str) -> list[str]:
    """The values that a sweep gives a key: its experiments, in their order, or its seeds.

    where: what asks, for the ValueError where the sweep or the key does not exist
    """
    if not exists(conf, name):
        raise ValueError(f"{where} does not exist")
    values = OmegaConf.select(OmegaConf.load(_path(conf, name)), f"hydra.sweeper.params.{key}")
    if values is None:
        raise ValueError(f"{where} has no hydra.sweeper.params.{key}")
    return [value.strip() for value in str(values).split(",")]


def _path(conf: Path, name: str) -> Path:
    return conf / "sweep" / f"{name}.yaml"
