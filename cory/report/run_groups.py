"""Runs that differ in nothing but their seed, and by which settings such groups are told apart."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from omegaconf import OmegaConf

from cory.runs.run_dir import METRICS, RECORD
from cory.runs.stored_settings import SETTINGS, comparable_settings, read_settings

# told first: what they name settles most other settings
NAMES = ("experiment", "scale", "model.name", "task.name", "algorithm.name", "reward.name")


def find_runs(folders: Sequence[Path], unfinished: bool) -> tuple[list[Path], list[Path]]:
    """The run directories in or below the folders, each once, and those that are left out.

    unfinished: take those, too, that have metrics, but no record yet
    Raises ValueError for a folder without a run, and where all are left out.
    """
    found: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a directory")
        runs = sorted(path.parent for path in folder.rglob(SETTINGS))
        if not runs:
            raise ValueError(f"{folder} holds no run: there is no {SETTINGS} in it or below it")
        found |= dict.fromkeys(runs)
    needed = [METRICS] if unfinished else [METRICS, RECORD]
    kept = [run_dir for run_dir in found if all((run_dir / name).exists() for name in needed)]
    if not kept:
        some = next(iter(found))
        hint = "" if unfinished else "; --unfinished draws runs that are not finished"
        raise ValueError(f"{some} has no {' and '.join(needed)}, nor has any other run{hint}")
    return kept, [run_dir for run_dir in found if run_dir not in kept]


def without_repeats(groups: Mapping[str, Sequence[Path]]) -> tuple[dict[str, list[Path]], int]:
    """The groups with one run for each seed, the last one that was given; and how many are out.

    A run that was made twice would weigh twice in a mean, and narrow its band.
    """
    kept = {
        name: list({_seed(run_dir): run_dir for run_dir in run_dirs}.values())
        for name, run_dirs in groups.items()
    }
    return kept, sum(len(groups[name]) - len(kept[name]) for name in groups)


def group_runs(run_dirs: Sequence[Path]) -> dict[str, list[Path]]:
    """What tells a group from the others -> its runs, in the order in which they were given.

    Runs of a group have equal settings but for the seed and those that change no result. A group
    is named by what differs: `ppo`, `cory, kl_coef=0.3`; one group alone by its experiment.
    """
    settings = {run_dir: _settings(run_dir) for run_dir in run_dirs}
    told = _telling(list(settings.values()))
    groups: dict[str, list[Path]] = {}
    for run_dir, flat in settings.items():
        groups.setdefault(_label(flat, told) or _experiment(flat), []).append(run_dir)
    return groups


def _seed(run_dir: Path) -> object:
    return OmegaConf.select(read_settings(run_dir), "seed")


def _settings(run_dir: Path) -> dict[str, str]:
    """Settings by dotted keys, as JSON; without the seed, and what changes no result."""
    flat = comparable_settings(read_settings(run_dir))
    return {key: json.dumps(value) for key, value in flat.items() if key != "seed"}


def _telling(runs: Sequence[Mapping[str, str]]) -> list[str]:
    """The settings that tell the groups apart.

    Of the names, each that tells more apart than those before it. Then every other setting that
    differs between runs whose names are equal; beside a name that differs (`advantages.name`) its
    group's others only where they tell more apart.
    """
    told: list[str] = []

    def parts(keys: Sequence[str]) -> int:
        return len({tuple(run.get(key) for key in keys) for run in runs})

    def differs(key: str, within: Sequence[str]) -> bool:
        return parts([*within, key]) > parts(within)

    for key in NAMES:
        if differs(key, told):
            told.append(key)
    names = list(told)
    keys = sorted({key for run in runs for key in run}, key=lambda key: (_leaf(key) != "name", key))
    for key in keys:
        named = any(_leaf(own) == "name" and _group(own) == _group(key) for own in told)
        if key not in told and differs(key, told if named else names):
            told.append(key)
    return told


def _label(flat: Mapping[str, str], told: Sequence[str]) -> str:
    words = []
    for key in told:
        if key not in flat:
            continue
        value = json.loads(flat[key])
        named = key in NAMES or _leaf(key) == "name"
        words.append(str(value) if named else f"{_leaf(key)}={value}")
    return ", ".join(words)


def _experiment(flat: Mapping[str, str]) -> str:
    """The experiment, and its scale unless that is the paper's."""
    experiment, scale = (str(json.loads(flat[key])) for key in ("experiment", "scale"))
    return experiment if scale == "paper" else f"{experiment} ({scale})"


def _leaf(key: str) -> str:
    return key.rpartition(".")[2]


def _group(key: str) -> str:
    return key.rpartition(".")[0]
