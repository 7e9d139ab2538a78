"""From composed YAML to checked settings."""

from collections.abc import Callable, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError

from cory.config.errors import ConfigError, lines_of, require
from cory.config.experiment import Config
from cory.config.options import option
from cory.config.rules import refusals_together

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


def parse_config(
    cfg: DictConfig, also: Callable[[Config], list[str]] = lambda config: []
) -> Config:
    """The checked settings; a ConfigError has a line for every mistake in them.

    Rules that span several groups are looked at where each group by itself is as it should be.
    also: what else is wrong with settings that break such a rule
    """
    for group in GROUPS:
        there = OmegaConf.select(cfg, f"{group}.name") is not None
        require(there, f"{group} is missing: {group}=<option> chooses one")
    name = cfg.algorithm.name
    own = OWN_EXPERIMENT.get(name)
    require(
        own is None or cfg.get("experiment") != QUICKSTART,
        f"algorithm={name} does not fit the default experiment={QUICKSTART}, whose values are for "
        f"ppo, grpo, rloo, cory and maporl; experiment={own} scale=small makes a small run",
    )
    given = OmegaConf.select(cfg, "algorithm.advantages")
    takes = given is None or "advantages" in option("algorithm", name).settings.model_fields
    learners = "algorithm=ppo, grpo, rloo, cory or maporl"
    require(takes, f"advantages={given}: needs {learners}; {name} has none")
    try:
        values = _given(OmegaConf.to_container(cfg, resolve=True))
    except OmegaConfBaseException as error:
        said = str(error).splitlines()[0]
        raise ConfigError(f"{error.full_key}: {said}" if error.full_key else said) from None
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(lines_of(error, values))) from None
    broken = list(refusals_together(config))
    require(not broken, "\n".join([*broken, *(also(config) if broken else [])]))
    return config


def _given(values: Any) -> Any:
    """The settings that have a value."""
    if not isinstance(values, Mapping):
        return values
    return {key: _given(value) for key, value in values.items() if value != "???"}
