"""What varies between the jobs of a sweep: as they are called on the screen, and their folders."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from cory.config.names import key_of, merged
from cory.runs.differences import short_keys
from cory.runtime.words import alternatives, is_setting, typed, unresolved

ADHOC = "adhoc"  # the sweep of multi-runs that are typed
LONGEST = 120  # characters of a folder's name
# what else has no place in a name: init_from=<folder> is read by Hydra, to which = and , mean more
IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]")
NUMBER = re.compile(r"[+-]?\d*\.?\d+(e[+-]?\d+)?", re.IGNORECASE)


def varied_of(hydras: Any) -> dict[str, str]:
    """The settings that vary in this job's sweep, with its values; also a run's name and seed."""
    params = [f"{key}={value}" for key, value in (hydras.sweeper.get("params") or {}).items()]
    choices = alternatives(merged(params, [*filter(is_setting, typed())]))
    keys = [key.lstrip("+") for key, values in choices.items() if len(values) != 1]
    words = unresolved(hydras.overrides.task)
    own = {key_of(word): word.partition("=")[2].strip("'\"") for word in words}
    if own.get("sweep", ADHOC) != ADHOC:
        keys = ["experiment", *(key for key in keys if key != "seed"), "seed"]
        own["experiment"] = str(hydras.job.name)
    return {key: own[key] for key in keys if key in own}


def name_of(values: Mapping[str, str]) -> str:
    """What varies, as a job is called on the screen: `cory/imdb_ppo kl_coef=0.3 seed=0`."""
    short = short_keys(list(values))
    return " ".join(
        value if key == "experiment" else f"{short[key]}={value}" for key, value in values.items()
    )


def folder_of(values: Mapping[str, str]) -> str:
    """What varies, as the name of a folder: `algorithm-ppo_kl_coef0.3_seed0`.

    Values that a name cannot hold as they are end with a hash, so that no two become the same.
    """
    short = short_keys(list(values))
    # no two experiments differ in a slash alone
    plain = {k: v.replace("/", "-") if k == "experiment" else v for k, v in values.items()}
    whole = "_".join(
        f"{short[key]}{'' if NUMBER.fullmatch(value) else '-'}{value}"
        for key, value in plain.items()
    )
    name = IN_NAMES.sub("-", whole)
    if name == whole and len(name) <= LONGEST:
        return name
    return f"{name[:LONGEST]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def varied_settings(_: str = "", *, _root_: DictConfig) -> str:
    """For `hydra.sweep.subdir`: the folder of a job by what varies, or its number."""
    values = varied_of(_root_.hydra)
    return folder_of(values) if values else str(_root_.hydra.job.num)


OmegaConf.register_new_resolver("varied_settings", varied_settings, replace=True)
