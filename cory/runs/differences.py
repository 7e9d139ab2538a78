"""What differs between runs, in short, by their settings: for legends and tables."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cory.runs.settings import comparable_settings, read_settings

SEED = "seed"
# first: what they name settles most other settings
NAMES = ("experiment", "scale", "model.name", "task.name", "algorithm.name", "reward.name")
LONGEST = 40  # characters of a value, whose hash then stands for the rest


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
    telling: list[str] = []
    groups = 1
    for key in [*NAMES, *sorted(others, key=lambda key: (_leaf(key) != "name", key))]:
        apart = len({json.dumps([run.get(one) for one in [*telling, key]]) for run in runs})
        if apart > groups:
            telling.append(key)
            groups = apart
    return telling


def short_words(settings: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    """These settings of a run in short, one text each: `cory`, `kl_coef=0.3`.

    A name stands alone; of two keys with the same last part all is said. A setting without a value
    in this run is left out.
    """
    leaves = [_leaf(key) for key in keys]
    words = []
    for key, leaf in ((key, _leaf(key)) for key in keys if key in settings):
        text = str(settings[key])
        if len(text) > LONGEST:
            text = f"{text[:LONGEST]}..{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        named = key in NAMES or leaf == "name"
        words.append(text if named else f"{leaf if leaves.count(leaf) == 1 else key}={text}")
    return words


def _leaf(key: str) -> str:
    return key.rpartition(".")[2]
