"""What a test finds around it and has to leave so: else the tests depend on their order."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hydra.core.global_hydra import GlobalHydra

# of pytest itself, and of libraries that set them once, when they are imported or first used
OF_OTHERS = {"PYTEST_CURRENT_TEST", "DS_ACCELERATOR", "KMP_DUPLICATE_LIB_OK"}


def surroundings() -> dict[str, Any]:
    """By name, what every test of this process shares and can change."""
    found: dict[str, Any] = {
        "the working directory": os.getcwd(),
        "sys.argv": list(sys.argv),
        "sys.path": list(sys.path),
        "logging.disable": logging.root.manager.disable,
        "whether Hydra is initialised": GlobalHydra.instance().is_initialized(),
        "torch's default dtype": torch.get_default_dtype(),
        "torch's threads": torch.get_num_threads(),
        "torch's deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "whether torch keeps gradients": torch.is_grad_enabled(),
    }
    for number in (signal.SIGINT, signal.SIGTERM):
        found[f"the handler of {number.name}"] = signal.getsignal(number)
    kept = {name: value for name, value in os.environ.items() if name not in OF_OTHERS}
    return found | {f"the variable {name}": value for name, value in kept.items()}


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is not as it was, one line each."""
    return [
        f"{name}: {before.get(name)!r} before, {after.get(name)!r} after"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


@pytest.fixture(autouse=True)
def left_as_found() -> Iterator[None]:
    """Fails a test that leaves something changed. What fixtures of a session set is there before:
    pytest sets them up first."""
    before = surroundings()
    yield
    assert not (found := changes(before, surroundings())), "\n".join(found)
