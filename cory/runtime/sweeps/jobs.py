"""The jobs of a sweep, as the words of the command and Hydra's settings list them."""

import hashlib
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # mypy's stubs are not installed
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from cory.config import require
from cory.runs.sweeps.differences import short_keys
from cory.runtime.sweeps.progress import Job, Progress

# environment variable: the typed words as JSON, for launchers whose jobs are processes of their own
TYPED = "CORY_TYPED"
QUICK = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a tenth of the time, where it is built
OTHER_SCALES = ("small", "medium")  # than the papers' own
FOLDER = "varied_settings"  # the resolver for names of folders
LONGEST = 120  # characters of a folder's name
# what else has no place in a name: init_from=<folder> is read by Hydra, to which = and , mean more
IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]")
NUMBER = re.compile(r"[+-]?\d*\.?\d+(e[+-]?\d+)?", re.IGNORECASE)


def of_this_scale(words: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """The words of a command with `sweep=X` as `sweep=X_small`, where `scale=small` has this form.

    folders: with options, as conf/; the first is it
    Raises ConfigError where this scale has forms of some tables of a paper, and not of this one.
    """
    last = dict(word.partition("=")[::2] for word in words)
    name, scale = last.get("sweep"), last.get("scale")
    form = f"{name}_{scale}"
    if not (name and scale and any((f / "sweep" / f"{form}.yaml").is_file() for f in folders)):
        if name and scale in OTHER_SCALES:
            _refuse_left_out(name, scale, folders[0])
        return list(words)
    print(f"sweep={name} at scale={scale} is sweep={form}", flush=True)
    return [f"sweep={form}" if word == f"sweep={name}" else word for word in words]


def _refuse_left_out(sweep: str, scale: str, conf: Path) -> None:
    """ConfigError for a table of a paper that has forms of some tables only at this scale."""
    paper, _, table = sweep.partition("/")
    file = conf / "paper" / f"{paper}.yaml"
    if not file.is_file():
        return
    about = yaml.load(file.read_text(encoding="utf-8"), QUICK)
    scales = about["tables"].get(table, {}).get("scales", [scale])
    require(
        scale in scales,
        f"sweep={sweep} has no form at scale={scale}, only at {', '.join(scales)}"
        + (f": {about['left_out']}" if "left_out" in about else ""),
    )


def keep_typed(words: Sequence[str]) -> None:
    """Remember the words of the command, for the jobs of this command."""
    os.environ[TYPED] = json.dumps(list(words))


def typed() -> list[str]:
    """The words of the command that this job belongs to."""
    return list(json.loads(os.environ[TYPED])) if TYPED in os.environ else sys.argv[1:]


def refuse_one_folder(words: Sequence[str]) -> None:
    """Refuse a sweep that is typed with one run directory for all its runs."""
    settings = [word for word in words if "=" in word and not word.startswith("-")]
    try:
        overrides = OverridesParser.create().parse_overrides(settings)
    except HydraException:
        return  # which Hydra says in its turn
    several = any(word.is_sweep_override() for word in overrides)
    swept = (several and bool({"-m", "--multirun"} & {*words})) or any(
        word.startswith("sweep=") for word in settings
    )
    for word, override in zip(settings, overrides, strict=True):
        if swept and word.startswith("run_dir=") and not override.is_sweep_override():
            require(
                "${" in word,
                f"{word} is one folder for all runs of a sweep; hydra.sweep.dir=<folder> names the "
                f"folder that theirs lie in",
            )


def for_the_jobs(words: Sequence[str]) -> list[str]:
    """The words of a sweep of experiments, with those of one value among what the sweep lists.

    Before any job Hydra composes the settings without what the sweep lists: with the quickstart,
    which lacks most of what other experiments have. What is listed is left to the jobs.
    """
    if not of_experiments(words):
        return list(words)
    moved = [word for word in words if _is_for_jobs(word)]
    listed = []
    for key, _, value in (word.partition("=") for word in moved):
        text = value.replace("${", "\\${")  # resolved by the job, not by its list
        listed.append(f"{key}: {QuotedString(text, Quote.single).with_quotes()}")
    kept = [word for word in words if word not in moved]
    return [*kept, f"++hydra.sweeper.params={{{', '.join(listed)}}}"] if moved else kept


def _is_for_jobs(word: str) -> bool:
    key, equals, _ = word.partition("=")
    # the sweep's folder is named by the three; nothing is deleted from what is not there
    if not equals or word.startswith(("-", "~")) or key in ("sweep", "scale", "fidelity"):
        return False
    try:
        (override,) = OverridesParser.create().parse_overrides([word])
    except HydraException:
        return False  # which Hydra says in its turn
    return not override.is_sweep_override() and not override.is_hydra_override()


def of_experiments(words: Sequence[str]) -> bool:
    """Whether a command is a sweep with a name, or one that is typed with several experiments."""
    named = any(word.startswith("sweep=") for word in words)
    several = any(word.startswith("experiment=") and "," in word for word in words)
    return named or (several and bool({"-m", "--multirun"} & {*words}))


def choices(sweeper: Any) -> dict[str, list[str]]:
    """What a sweep gives each key, as words `key=value`; none of a key with an interval of values.

    A word that is typed replaces the one that the sweep lists.

    sweeper: Hydra's settings of it, whose `params` a sweep's file lists
    """
    listed = [f"{key}={value}" for key, value in (sweeper.get("params") or {}).items()]
    words = [*listed, *(w for w in typed() if "=" in w and not w.startswith("-"))]
    found = {}
    for word in OverridesParser.create().parse_overrides(words):
        key = word.get_key_element()
        if not word.is_sweep_override():
            found[key] = [f"{key}={word.get_value_element_as_str()}"]
        elif word.is_discrete_sweep():
            found[key] = [f"{key}={value}" for value in word.sweep_string_iterator()]
        else:
            found[key] = []
    return found


def of_hydras_own(sweeper: Any) -> bool:
    """Whether Hydra's own sweeper decides on the jobs, so that all are known from the start."""
    return str(sweeper["_target_"]).endswith(".BasicSweeper")


def job_words(sweeper: Any) -> list[list[str]] | None:
    """The words of each job, in their order; None where another sweeper decides on them."""
    if not of_hydras_own(sweeper):
        return None
    own = {key: words for key, words in choices(sweeper).items() if not key.startswith("hydra")}
    return [list(words) for words in product(*own.values())]


def jobs_in_all() -> int | None:
    """The number of jobs of this sweep; None where a sweeper other than Hydra's own decides."""
    sweeper = HydraConfig.get().sweeper
    if not of_hydras_own(sweeper):
        return None
    return math.prod(map(len, choices(sweeper).values()))


def varied(hydras: Any) -> dict[str, str]:
    """The settings that vary between the jobs of a sweep -> their values in one job, as typed.

    hydras: Hydra's settings of the job
    """
    keys = [key for key, words in choices(hydras.sweeper).items() if len(words) != 1]
    own = dict(word.partition("=")[::2] for word in map(str, hydras.overrides.task))
    return {key.lstrip("+"): own[key].strip("'\"") for key in keys if key in own}


def name_of(values: Mapping[str, str]) -> str:
    """What varies, as a job is called on the screen: `kl_coef=0.3 seed=0`."""
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


def runs_here(hydras: Any) -> bool:
    """Whether the jobs of a sweep run in this process, by Hydra's own launcher."""
    return str(hydras.launcher["_target_"]).endswith("BasicLauncher")


def job_of_sweep(progress: Progress) -> Job | None:
    """The job that Hydra has come to; None where the command is no sweep."""
    hydras = HydraConfig.get()
    if hydras.mode != RunMode.MULTIRUN:
        return None
    progress.jobs = jobs_in_all()
    progress.all_here = runs_here(hydras)
    progress.sweep = str(hydras.runtime.choices["sweep"])
    progress.folder = Path(hydras.sweep.dir)
    values = varied(hydras)
    return progress.job(int(hydras.job.num) + 1, values, name_of(values))


def varied_settings(*besides: str, _root_: DictConfig) -> str:
    """For `hydra.sweep.subdir`: the folder of a job by what varies; by its number if nothing does.

    besides: settings that the rest of the path names; then the part of the others, with a slash
        behind it, or nothing
    """
    hydras = _root_.hydra if "hydra" in _root_ else HydraConfig.get()
    values = {key: value for key, value in varied(hydras).items() if key not in besides}
    if besides:
        return f"{folder_of(values)}/" if values else ""
    return folder_of(values) if values else str(hydras.job.num)


OmegaConf.register_new_resolver(FOLDER, varied_settings, replace=True)
