"""The settings in which runs differ: what the page filters and groups by."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig

from cory.runs.stored_settings import FREE, as_written, comparable_settings
from cory.runs.sweeps.differences import SEED, telling_keys

NOT_SHOWN = ("run_dir",)  # it differs always


@dataclass(frozen=True)
class Differences:
    """Settings that differ between runs, by dotted key.

    telling: tell groups of runs apart, in the order in which names say them
    other: differ only where a telling one does, or change no result; the seed first
    """

    telling: list[str]
    other: list[str]


def flat(cfg: DictConfig) -> dict[str, Any]:
    """Every setting by its dotted key."""
    found: dict[str, Any] = {}

    def walk(node: Mapping[str, Any], prefix: str) -> None:
        for key, value in node.items():
            if isinstance(value, dict):
                walk(value, f"{prefix}{key}.")
            elif f"{prefix}{key}" not in NOT_SHOWN:
                found[f"{prefix}{key}"] = value

    walk(as_written(cfg), "")
    return found


def differences(settings: Sequence[DictConfig]) -> Differences:
    """In what the runs with these settings differ."""
    settings_only = [comparable_settings(cfg) for cfg in settings]
    telling = telling_keys(
        [{key: value for key, value in run.items() if key != SEED} for run in settings_only]
    )
    compared = [{key: json.dumps(value) for key, value in run.items()} for run in settings_only]
    written = [{key: json.dumps(value) for key, value in flat(cfg).items()} for cfg in settings]
    keys = sorted({key for run in written for key in run}, key=lambda key: (key != SEED, key))
    other = [key for key in keys if key not in telling and _differs(key, written, compared)]
    return Differences(telling, other)


def _differs(
    key: str, written: Sequence[Mapping[str, str]], compared: Sequence[Mapping[str, str]]
) -> bool:
    """Whether runs have different values; one that lacks a later setting has that of before."""
    runs = written if key.partition(".")[0] in FREE else compared
    return len({run.get(key) for run in runs}) > 1
