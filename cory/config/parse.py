"""From composed YAML to checked dataclasses."""

import copy
import difflib
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cory.config.checks import ConfigError, nearest, renamed, require
from cory.config.experiment import Config
from cory.config.options import option
from cory.config.reward import NO_PARTS, SumConfig, of_part
from cory.config.rules.together import check_together

GROUPS = ("model", "task", "algorithm", "reward", "hardware")  # every run has an option of each

# where the values of the default experiment do not fit an algorithm: an experiment of its own
QUICKSTART = "quickstart"
OWN_EXPERIMENT = {
    "imitation": "spag/llama2_im",
    "maft": "maft/maft",
    "sft": "maporl/gsm8k_maporl",
    "spag": "spag/llama2_spag_1",
    "verifier": "maporl/verifier_gsm8k",
}


def parse_config(cfg: DictConfig) -> Config:
    """Checks a composed config and returns it as dataclasses, or raises ConfigError."""
    config, errors = parse_groups(cfg)
    require(config is not None, (errors or [""])[0])
    assert config is not None
    check_together(config)
    return config


def parse_groups(cfg: DictConfig) -> tuple[Config | None, list[str]]:
    """The settings as dataclasses, each group by itself; None where one of them is refused.

    returns: besides, the first refusal of each group; without the rules that span several groups
    """
    cfg = copy.deepcopy(cfg)
    for group in GROUPS:
        if OmegaConf.select(cfg, f"{group}.name") is None:
            return None, [f"{group} is missing: every run needs one; {group}=<option> chooses it"]
    try:
        schema = _schema_of(cfg)
    except ConfigError as error:
        return None, [str(error)]
    merged: Any = None
    try:
        merged = OmegaConf.merge(schema, cfg)
        return _checked(merged, cfg), []
    except (ConfigError, OmegaConfBaseException) as error:
        refused = error
    errors = list(_refusals(schema, cfg, merged))
    if isinstance(refused, OmegaConfBaseException):
        return None, errors or [explain(refused, cfg)]
    return None, [*errors, *_others(merged, errors)] or [str(refused)]


def _checked(merged: Any, cfg: DictConfig) -> Config:
    """The settings as dataclasses; raises what OmegaConf or a rule has against any of them.

    merged: with the types of the schema
    """
    missing = OmegaConf.missing_keys(merged)
    require(not missing, f"no value given for {', '.join(sorted(missing))}")
    if cfg.reward.name == "sum":
        check_parts(merged.reward.parts)
    config = OmegaConf.to_object(merged)
    assert isinstance(config, Config)
    return config


def _refusals(schema: DictConfig, cfg: DictConfig, merged: Any) -> Iterator[str]:
    """What is refused of each group by itself.

    merged: all of them with the schema's types; None where some have others
    """
    try:
        plain = OmegaConf.to_container(cfg, resolve=True)
    except OmegaConfBaseException:  # told of all groups together
        return
    assert isinstance(plain, dict)
    for key, value in plain.items():
        try:
            _check_alone(schema, str(key), value, cfg, merged)
        except ConfigError as error:
            yield str(error)


def _others(merged: Any, errors: list[str]) -> list[str]:
    """The refusal of the settings that are in no group, where some group is refused, too."""
    shell = object.__new__(Config)  # whose groups are never looked at, but for `hardware`
    if any(error.startswith("hardware") for error in errors):
        return []
    for field in fields(Config):
        node = OmegaConf.select(merged, field.name)
        plain = not OmegaConf.is_config(node)
        if plain or field.name == "hardware":
            setattr(shell, field.name, node if plain else OmegaConf.to_object(node))
    try:
        shell.__post_init__()
    except ConfigError as error:
        return [str(error)]
    return []


def _schema_of(cfg: DictConfig) -> DictConfig:
    """The types of all settings: those of a run, with those of its options."""
    schema = OmegaConf.structured(Config)
    for group in ("task", "algorithm", "reward"):
        schema[group] = option(group, OmegaConf.select(cfg, f"{group}.name")).settings
    estimator = OmegaConf.select(cfg, "algorithm.advantages")
    known = [field.name for field in fields(option("algorithm", cfg.algorithm.name).settings)]
    own = OWN_EXPERIMENT.get(cfg.algorithm.name)
    require(
        own is None or cfg.get("experiment") != QUICKSTART,
        f"algorithm={cfg.algorithm.name} does not fit the default experiment={QUICKSTART}, whose "
        f"values are for ppo, grpo, rloo, cory and maporl; with experiment={own} scale=small it "
        f"makes a small run",
    )
    require(
        estimator is None or "advantages" in known,
        f"advantages={estimator}: algorithm={cfg.algorithm.name} estimates no advantages; it is "
        f"for algorithm=ppo, grpo, rloo, cory and maporl",
    )
    if cfg.reward.name == "sum":
        add_parts(schema, cfg)
    assert isinstance(schema, DictConfig)
    return schema


def _check_alone(schema: DictConfig, key: str, value: Any, cfg: DictConfig, merged: Any) -> None:
    """The rules of one setting, or one group of settings, by itself; ConfigError names it."""
    try:
        if merged is None:
            merged = OmegaConf.merge(schema, {key: value})
        node = OmegaConf.select(merged, key) if isinstance(value, dict) else None
        if not isinstance(node, DictConfig) or OmegaConf.missing_keys(node):
            return  # what is missing is told of all groups together
        if key == "reward" and cfg.reward.name == "sum":
            check_parts(node.parts)
        with renamed("model" if key == "partner" else key, key, OmegaConf.get_type(node)):
            OmegaConf.to_object(node)
    except OmegaConfBaseException as error:
        raise ConfigError(explain(error, cfg)) from None


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


def meant(key: str, cfg: Any) -> str:
    """`; did you mean group.x?` where a setting within a group was typed without its group."""
    paths = sorted(_paths(cfg, ""), key=lambda path: (path.count("."), path))
    ends = [path for path in paths if path.endswith(f".{key}")]
    if not ends:
        leaf, group = key.rpartition(".")[2], key.rpartition(".")[0]
        near = difflib.get_close_matches(leaf, {path.rpartition(".")[2] for path in paths}, n=1)
        ends = [path for path in paths if near and f".{path}".endswith(f"{group}.{near[0]}")]
    return f"; did you mean {' or '.join(ends[:2])}?" if ends else ""


def _paths(node: Any, prefix: str) -> Iterator[str]:
    """The dotted names of all settings of a config, but Hydra's own."""
    if not isinstance(node, DictConfig) or node._is_none() or node._is_missing():
        return
    for name in (name for name in node if f"{prefix}{name!s}" != "hydra"):
        inner = node._get_node(name)
        yield f"{prefix}{name!s}"
        if isinstance(inner, DictConfig) and not inner._is_interpolation():
            yield from _paths(inner, f"{prefix}{name!s}.")


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
    hint = hint or (meant(key, cfg) if key == leaf else "")
    if hint or group not in ("task", "algorithm", "reward"):
        return f"{key} is not a setting{hint}"
    # an experiment may have set it for another option, in whose place this one was typed
    of = f"of {group}={OmegaConf.select(cfg, f'{group}.name')}"
    return f"{key} is not a setting {of}; where a file sets it, ~{key} leaves it out"
