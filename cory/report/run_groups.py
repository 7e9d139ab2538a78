"""Runs that differ in nothing but their seed, and by which settings such groups are told apart."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cory.runs.run_dir import METRICS, RECORD
from cory.runs.stored_settings import SETTINGS
from cory.runs.sweeps.differences import SEED, seed_of, settings_of, short_words, telling_keys


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
    # agents of another time, and the finished part of a run that went on, are parts of that run
    own = {run_dir for run_dir in found for above in run_dir.parents if above in found}
    return kept, [run_dir for run_dir in found if run_dir not in kept and run_dir not in own]


def without_repeats(groups: Mapping[str, Sequence[Path]]) -> tuple[dict[str, list[Path]], int]:
    """The groups with one run for equal settings and seed, the last given; and how many are out.

    A run that was made twice would weigh twice in a mean, and narrow its band.
    """
    kept = {
        name: list({_identity(run_dir): run_dir for run_dir in run_dirs}.values())
        for name, run_dirs in groups.items()
    }
    return kept, sum(len(groups[name]) - len(kept[name]) for name in groups)


def group_runs(run_dirs: Sequence[Path], group_by: Sequence[str] = ()) -> dict[str, list[Path]]:
    """What tells a group from the others -> its runs, in the order in which they were given.

    Runs of a group have equal settings but for the seed and those that change no result. A group
    is named by what differs: `ppo`, `cory, kl_coef=0.3`; one group alone by its experiment.

    group_by: settings; runs that differ in others alone are then pooled. See `grouping_keys`
    """
    settings = {run_dir: settings_of(run_dir) for run_dir in run_dirs}
    told, _ = grouping_keys(run_dirs, group_by)
    parted: dict[str, list[Path]] = {}
    for run_dir, flat in settings.items():
        parted.setdefault(_written(flat, told), []).append(run_dir)
    names = {key: short_words(settings[own[0]], told) for key, own in parted.items()}
    if len({*map(tuple, names.values())}) < len(names):  # long values that begin and end alike
        names = {
            key: short_words(settings[own[0]], told, whole=True) for key, own in parted.items()
        }
    alone = _experiment(settings[run_dirs[0]])
    return {", ".join(names[key]) or alone: own for key, own in parted.items()}


def grouping_keys(
    run_dirs: Sequence[Path], group_by: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """The settings that tell groups apart, and those that are pooled although they differ.

    group_by: settings by their whole names or last parts; empty: every one that differs
    Raises ValueError for one that is no setting of these runs, or that does not differ.
    """
    settings = [settings_of(run_dir) for run_dir in run_dirs]
    differing = telling_keys(settings)
    if not group_by:
        return differing, []
    if SEED in group_by:
        raise ValueError("seeds are what is pooled; name another setting")
    every = sorted({key for flat in settings for key in flat})
    chosen = [_setting_named(word, every, differing) for word in group_by]
    for key in chosen:
        if len({_written(flat, [key]) for flat in settings}) == 1:
            raise ValueError(f"{key} is the same in all of these runs{_which(differing)}")
    pooled = [key for key in differing if not _settled(key, chosen, settings)]
    return chosen, pooled


def _settled(key: str, chosen: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> bool:
    """Whether runs that agree in the chosen settings agree in this one, too."""
    apart = {_written(flat, chosen) for flat in settings}
    return len({_written(flat, [*chosen, key]) for flat in settings}) == len(apart)


def _setting_named(word: str, every: Sequence[str], differing: Sequence[str]) -> str:
    found = [key for key in every if key == word or key.rpartition(".")[2] == word]
    found += [key for key in every if key == f"{word}.name"]  # algorithm for algorithm.name
    of_them = [key for key in found if key in differing] or found
    if word in of_them:
        return word
    if len(of_them) > 1:
        raise ValueError(f"{word} is not one setting, but any of {', '.join(of_them)}")
    if not of_them:
        raise ValueError(f"{word} is no setting of these runs{_which(differing)}")
    return of_them[0]


def _which(differing: Sequence[str]) -> str:
    return (
        f"; they differ in {', '.join(differing)}" if differing else "; they differ in no setting"
    )


def _written(flat: Mapping[str, Any], keys: Sequence[str]) -> str:
    return json.dumps([flat.get(key) for key in keys])


def _identity(run_dir: Path) -> str:
    return json.dumps([seed_of(run_dir), settings_of(run_dir)], sort_keys=True)


def _experiment(flat: Mapping[str, Any]) -> str:
    """The experiment, and its scale unless that is the paper's."""
    experiment, scale = str(flat["experiment"]), str(flat["scale"])
    return experiment if scale == "paper" else f"{experiment} ({scale})"
