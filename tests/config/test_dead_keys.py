"""Every setting is read by the code; one that nobody reads would be a promise not kept."""

from __future__ import annotations

import ast
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import pytest

import cory.config

ROOT = Path(cory.__file__).resolve().parent
CONFIGS = [
    value
    for name, value in vars(cory.config).items()
    if isinstance(value, type) and is_dataclass(value) and name.endswith("Config")
]
# read by cory/config itself, which is their use
ONLY_IN_CONFIG: dict[str, str] = {
    "param_sharing": "DebateConfig.policy",
    "train_turns": "DebateConfig.trained",
    "input_price": "EndpointConfig.cost",
    "output_price": "EndpointConfig.cost",
    "plain_http": "EndpointConfig.__post_init__",
    "cot": "SuiteConfig.names",
    "iterations_per_epoch": "OfflineConfig.per_epoch",
    "microbatch_size": "plan_of",
    "generation_batch_size": "HardwareConfig.responses_at_once",
}


@cache
def attributes_read() -> set[str]:
    names = set()
    for path in ROOT.rglob("*.py"):
        if path.parent.name == "config":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                names.add(node.attr)
    return names


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_every_setting_is_read(config: type) -> None:
    read = attributes_read()
    dead = [f.name for f in fields(config) if f.name not in read | set(ONLY_IN_CONFIG)]
    assert not dead


def test_no_exception_is_out_of_date() -> None:
    known = {field.name for config in CONFIGS for field in fields(config)}
    assert len(CONFIGS) > 8
    assert set(ONLY_IN_CONFIG) <= known - attributes_read()
