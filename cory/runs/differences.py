"""What differs between runs, in short, by their settings: for legends and tables."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cory.runs.settings import comparable_settings, read_settings

SEED = "seed"
# first: what they name settles most other settings
NAMES = ("experiment", "scale", "model.name", "task.name", "algorithm.name", "reward.name")
LONGEST = 40  # characters of a value


def settings_of(run_dir: Path) -> dict[str, Any]:
    """Settings by dotted keys; without the seed, and without those that change no result.

    Nor does the seed count in a path, as that of the run which this one starts from.
    """
    stored = read_settings(run_dir)
    seed = f"{SEED}{stored.seed}"

    def without_seed(value: Any) -> Any:
        if not isinstance(value, str) or seed not in value:
            return value
        return "/".join(f"{SEED}*" if part == seed else part for part in value.split("/"))

    flat = comparable_settings(stored)
    return {key: without_seed(value) for key, value in flat.items() if key != SEED}


def telling_keys(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that tell runs apart: names first, and each tells more than those before it.

    runs: settings by dotted keys, see `settings_of`
    """
    others = {key for run in runs for key in run} - {*NAMES}
    told: list[str] = []
    groups = 1
    for key in [*NAMES, *sorted(others, key=lambda key: (_leaf(key) != "name", key))]:
        apart = len({json.dumps([run.get(one) for one in [*told, key]]) for run in runs})
        if apart > groups:
            told.append(key)
            groups = apart
    return told


def short_words(settings: Mapping[str, Any], keys: Sequence[str], whole: bool = False) -> list[str]:
    """These settings of a run in short, one text each: `cory`, `kl_coef=0.3`.

    A name stands alone. A setting without a value in this run is left out.

    whole: values with all their digits and characters
    """
    words = []
    for key in (key for key in keys if key in settings):
        text = str(settings[key]) if whole else short_value(settings[key])
        named = key in NAMES or _leaf(key) == "name"
        words.append(text if named else f"{short_keys(keys)[key]}={text}")
    return words


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Each setting -> its last part, or all of it where two have the same last part."""
    leaves = [_leaf(key) for key in keys]
    return {key: key if leaves.count(_leaf(key)) > 1 else _leaf(key) for key in keys}


def short_value(value: Any) -> str:
    """A value in short: six digits of a float, both ends of a long text."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}..{text[2 - LONGEST // 2 :]}"


def _leaf(key: str) -> str:
    return key.rpartition(".")[2]
