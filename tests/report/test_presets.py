"""The paper's printed settings beside conf/."""

from __future__ import annotations

from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from cory.report.checks import load_table
from cory.report.pages.presets import compare, differing
from tests.support.composing import CONF, compose_config


def composed(experiment: str, scale: str) -> DictConfig:
    return compose_config(f"experiment={experiment}", f"scale={scale}")


@pytest.mark.parametrize(("name", "settings"), [("tab1", 15), ("tab2", 14)])
def test_every_printed_value_is_that_of_conf(name: str, settings: int) -> None:
    entry = load_table(CONF, "cory", name, "paper").entry
    assert len(entry["settings"]) == settings  # the rows that the paper prints
    assert all(len(row["printed"]) == 3 for row in entry["settings"])
    assert list(differing(entry, composed)) == []
    without = {one.setting for one in compare(entry, composed) if one.same is None}
    assert without == {"Epochs"}


@pytest.mark.parametrize(
    ("row", "ours", "same"),
    [
        ({"printed": [4], "keys": ["a.x"]}, 4.0, True),
        ({"printed": [4], "keys": ["a.x"]}, 5, False),
        ({"printed": [0], "keys": ["a.x"]}, False, False),
        ({"printed": ["-"], "means": [None], "keys": ["a.x"]}, None, True),
        ({"printed": ["-"], "means": [None], "keys": ["a.x", "a.y"]}, None, False),
        ({"printed": [3], "times": "other", "keys": ["a.x"]}, 6, True),
        ({"printed": [3], "times": "other", "keys": ["a.x"]}, 3, False),
        ({"printed": [1]}, 1, None),
    ],
)
def test_comparing(row: dict[str, Any], ours: Any, same: bool | None) -> None:
    cfg = OmegaConf.create({"a": {"x": ours, "y": 1}})
    settings = [{"setting": "other", "printed": [2]}, {"setting": "s", **row}]
    entry = {"rows": [{"label": "PPO", "experiment": "e"}], "settings": settings}
    one = compare(entry, lambda experiment, scale: cfg)[1]
    assert one.same is same
    assert len(list(differing(entry, lambda experiment, scale: cfg))) == (same is False)
