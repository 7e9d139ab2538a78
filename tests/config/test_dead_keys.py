"""Every setting is read by the code; one that nobody reads would be a promise not kept."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from functools import cache

import pytest

import cory.config
from cory.config import OptimiserConfig, Settings, SumConfig
from cory.config.algorithm import SamplingConfig, StopConfig
from cory.config.options import KINDS, Option
from tests.support.settings_read import ROOT, Reads, function_at, in_config, is_read, settings_read

# Read by a function or method of cory/config alone, which is used elsewhere.
THROUGH = {
    "param_sharing": "policy",
    "train_turns": "trained",
    "iterations_per_epoch": "per_epoch",
    "minibatch_size": "plan_of",
    "microbatch_size": "plan_of",
    "before": "evaluates_before",
    "plain_http": "conflicts",
    "generation_batch_size": "responses_at_once",
    "opponents": "played_against",
    "weights": "weight",
    "value_learning_rate": "value_rate_factor",
    "architecture": "described",
    "chats_only": "of_maft",
    "fidelity": "conflicts",
    "parallel_runs": "conflicts",
}
# settings whose only effect is what is refused; of `parallel_runs` sweeps read the composed value
REFUSING = {"plain_http", "chats_only", "fidelity", "parallel_runs"}
PLANTED = "    max_kl: Positive | None  # nats"


def kinds() -> list[type[Settings]]:
    """The classes of settings that a run may have: all but those that others extend."""
    found = set()
    for module in pkgutil.iter_modules(cory.config.__path__):
        values = vars(importlib.import_module(f"cory.config.{module.name}")).values()
        found |= {v for v in values if isinstance(v, type) and issubclass(v, Settings)}
    named = {
        option.settings
        for table, _ in KINDS.values()
        for option in table.values()
        if isinstance(option, Option)
    }
    extended = {base for kind in found for base in kind.__mro__[1:]} - named
    left = found - extended
    return sorted(left, key=lambda k: k.__name__)


def planted(text: str) -> str:
    """The bounds that stop a run, with a setting of its own that nobody reads.

    Its name is one of `SamplingConfig`'s, which is read in many places.
    """
    assert PLANTED in text
    return text.replace(PLANTED, f"    temperature: Positive\n{PLANTED}", 1)


@cache
def reads() -> Reads:
    return settings_read({"cory.config.algorithm": planted})


@cache
def names_used() -> set[str]:
    """Attributes and names that stand anywhere outside cory/config."""
    found = set()
    for path in ROOT.rglob("*.py"):
        if "config" not in path.relative_to(ROOT).parts:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute):
                    found.add(node.attr)
                elif isinstance(node, ast.Name):
                    found.add(node.id)
    return found


@pytest.mark.slow
def test_every_setting_is_read() -> None:
    dead = {
        f"{kind.__name__}.{field}"
        for kind in kinds()
        for field in kind.model_fields
        if not is_read(kind, field, reads()) and not read_through(kind, field)
    }
    assert not dead


def read_through(kind: type, setting: str) -> bool:
    """Whether the function of cory/config that `THROUGH` names reads it, and is used elsewhere."""
    function = THROUGH.get(setting)
    places = {
        place
        for base in kind.__mro__
        for place in reads().get((f"{base.__module__}.{base.__qualname__}", setting), set())
    }
    inside = {function_at(place) for place in places if in_config(place)}
    return function in inside and (setting in REFUSING or function in names_used())


@pytest.mark.slow
def test_no_exception_is_out_of_date() -> None:
    unread = {
        field
        for kind in kinds()
        for field in kind.model_fields
        if not is_read(kind, field, reads())
    }
    assert unread == set(THROUGH)


def test_a_setting_is_not_read_because_another_class_has_one_of_its_name() -> None:
    assert is_read(SamplingConfig, "temperature", reads())
    assert not is_read(StopConfig, "temperature", reads())
    assert is_read(StopConfig, "max_kl", reads())


def test_the_classes_are_those_of_runs() -> None:
    assert len(kinds()) > 30
    assert SumConfig in kinds() and cory.config.PPOConfig in kinds()
    assert OptimiserConfig not in kinds()
