"""What differs between runs, in short: names for the runs of a sweep, legends, W&B and tables.

Two sources say what differs. Runs that exist are compared by their settings (`telling_keys`, then
`short_words`). A job of a sweep begins before the others exist; there the words of the command say
which settings vary, and `write_varied` keeps them in the run directory (`label_of`).
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cory.runs.stored_settings import comparable_settings, read_settings

VARIED = "varied.json"  # of a run that is one of a sweep: the settings that vary, with its values
SEED = "seed"
# told first: what they name settles most other settings
NAMES = ("experiment", "scale", "model.name", "task.name", "algorithm.name", "reward.name")
LONGEST = 40  # characters of a value


def settings_of(run_dir: Path) -> dict[str, Any]:
    """Settings by dotted keys; without the seed, and without those that change no result.

    Nor does the seed count in a path, as that of the run which this one starts from.
    """
    stored = read_settings(run_dir)
    own = f"{SEED}{stored.get(SEED)}"
    flat = comparable_settings(stored)
    return {key: _without_part(value, own) for key, value in flat.items() if key != SEED}


def seed_of(run_dir: Path) -> Any:
    """The seed of a run; None where its settings have none."""
    return read_settings(run_dir).get(SEED)


def telling_keys(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that tell runs apart, names first.

    Of the names, each that tells more apart than those before it. Then every other setting that
    differs between runs whose names are equal; beside a name that differs (`advantages.name`) its
    group's others only where they tell more apart.

    runs: settings by dotted keys, see `settings_of`
    """
    written = [{key: json.dumps(value) for key, value in run.items()} for run in runs]
    told: list[str] = []

    def parts(keys: Sequence[str]) -> int:
        return len({tuple(run.get(key) for key in keys) for run in written})

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
    return {
        key: key if leaves.count(leaf) > 1 else leaf for key, leaf in zip(keys, leaves, strict=True)
    }


def short_value(value: Any) -> str:
    """A value in short: six digits of a float, both ends of a long text."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}..{text[2 - LONGEST // 2 :]}"


def write_varied(run_dir: Path, varied: Mapping[str, str]) -> None:
    """Keep in a run directory what varies between the jobs of its sweep.

    varied: setting -> its value in this run, as it was typed; the seed may be among them
    """
    (run_dir / VARIED).write_text(json.dumps(dict(varied), indent=1) + "\n", encoding="utf-8")


def read_varied(run_dir: Path) -> dict[str, str]:
    """What varies between the jobs of a run's sweep, with its values; empty for other runs."""
    try:
        found = json.loads((run_dir / VARIED).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def label_of(run_dir: Path) -> str:
    """What tells a run of a sweep from the others, but for its seed: `kl_coef=0.3, tiny_2x`.

    The same for runs that differ in their seed alone, so that it can name a group of runs. Empty
    for a run that is none of a sweep, and where only seeds vary.
    """
    varied = {key: value for key, value in read_varied(run_dir).items() if key != SEED}
    return ", ".join(short_words(varied, list(varied)))


def _without_part(value: Any, own: str) -> Any:
    """A path with `seed*` in the place of this part; any other value as it is."""
    if not isinstance(value, str) or own not in value:
        return value
    return "/".join(f"{SEED}*" if part == own else part for part in value.split("/"))


def _leaf(key: str) -> str:
    return key.rpartition(".")[2]


def _group(key: str) -> str:
    return key.rpartition(".")[0]
