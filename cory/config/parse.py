"""From composed YAML to checked dataclasses."""

import copy
import difflib
from dataclasses import fields
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from cory.config.added import complete
from cory.config.checks import ConfigError, require
from cory.config.experiment import Config
from cory.config.options import option
from cory.config.together import check_together


def parse_config(cfg: DictConfig) -> Config:
    """Checks a composed config and returns it as dataclasses, or raises ConfigError."""
    cfg = copy.deepcopy(cfg)
    with open_dict(cfg):
        complete(cfg)
    schema = OmegaConf.structured(Config)
    for group in ("task", "algorithm", "reward"):
        schema[group] = option(group, OmegaConf.select(cfg, f"{group}.name")).settings
    try:
        merged = OmegaConf.merge(schema, cfg)
        missing = OmegaConf.missing_keys(merged)
        require(not missing, f"no value given for {', '.join(sorted(missing))}")
        config = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        raise ConfigError(explain(error, cfg)) from None
    assert isinstance(config, Config)
    check_together(config)
    return config


def explain(error: OmegaConfBaseException, cfg: DictConfig) -> str:
    """One line for an OmegaConf error, with the nearest known key when one was misspelt."""
    first = str(error).splitlines()[0]
    key = error.full_key or ""
    if "is not a ListConfig" in first:
        return f"{key} must be a list, typed as '{key}=[...]'"
    if "is not a subclass of" in first:
        return f"{key} must hold settings by name, not a single value"
    if " not in " not in first:
        return f"{key}: {first}" if key else first
    node: Any = error.object_type
    known = [f.name for f in fields(node)] if hasattr(node, "__dataclass_fields__") else []
    leaf = key.rpartition(".")[2]
    return f"{key} is not a setting{nearest(leaf, known)}"


def nearest(name: str, known: list[str]) -> str:
    """`; did you mean x?` when a known name is close, else nothing."""
    near = difflib.get_close_matches(name, [k for k in known if k != name], n=1)
    return f"; did you mean {near[0]}?" if near else ""
