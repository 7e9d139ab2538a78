"""From composed YAML to checked dataclasses."""

import copy
from dataclasses import fields
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from cory.config.added import complete
from cory.config.checks import ConfigError, nearest, require
from cory.config.experiment import Config
from cory.config.options import option
from cory.config.reward import NO_PARTS, SumConfig, of_part
from cory.config.together import check_together


def parse_config(cfg: DictConfig) -> Config:
    """Checks a composed config and returns it as dataclasses, or raises ConfigError."""
    cfg = copy.deepcopy(cfg)
    with open_dict(cfg):
        complete(cfg)
    schema = OmegaConf.structured(Config)
    for group in ("task", "algorithm", "reward"):
        schema[group] = option(group, OmegaConf.select(cfg, f"{group}.name")).settings
    estimator = OmegaConf.select(cfg, "algorithm.advantages")
    known = [field.name for field in fields(option("algorithm", cfg.algorithm.name).settings)]
    require(
        estimator is None or "advantages" in known,
        f"advantages={estimator}: algorithm={cfg.algorithm.name} estimates no advantages; it is "
        f"for algorithm=ppo, grpo, rloo, cory and maporl",
    )
    if cfg.reward.name == "sum":
        add_parts(schema, cfg)
    try:
        merged = OmegaConf.merge(schema, cfg)
        missing = OmegaConf.missing_keys(merged)
        require(not missing, f"no value given for {', '.join(sorted(missing))}")
        if cfg.reward.name == "sum":
            check_parts(merged.reward.parts)
        config = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        raise ConfigError(explain(error, cfg)) from None
    assert isinstance(config, Config)
    check_together(config)
    return config


def add_parts(schema: DictConfig, cfg: DictConfig) -> None:
    """Give the parts of `reward=sum` the settings of the rewards that they name."""
    schema.reward.parts = {}
    parts = cfg.reward.get("parts")
    for name, part in parts.items() if isinstance(parts, DictConfig) else ():
        key = f"reward.parts.{name!s}"
        require(
            isinstance(part, DictConfig) and "name" in part,
            f"{key} must hold the settings of a reward: +reward@{key}=<option> adds one",
        )
        require(part.name not in NO_PARTS, f"{key}.name={part.name!s} cannot be part of a sum")
        with of_part(str(name), SumConfig):
            schema.reward.parts[name] = option("reward", part.name).settings


def check_parts(parts: DictConfig) -> None:
    """The rules of each part's own settings; refusals name the part."""
    for name, part in parts.items():
        with of_part(str(name), OmegaConf.get_type(part)):
            OmegaConf.to_object(part)


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
    leaf, group = key.rpartition(".")[2], key.partition(".")[0]
    hint = nearest(leaf, known)
    if hint or group not in ("task", "algorithm", "reward"):
        return f"{key} is not a setting{hint}"
    # an experiment may have set it for another option, in whose place this one was typed
    of = f"of {group}={OmegaConf.select(cfg, f'{group}.name')}"
    return f"{key} is not a setting {of}; where a file sets it, ~{key} leaves it out"
