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

from cory.runs.signals import STOP_FILE

# of new variables, those that say how a process is to work; libraries set others when they are
# imported or first used, once and for all
TELLING = ("CORY_", "RANK", "LOCAL_", "WORLD_", "GROUP_", "MASTER_", "OMP_", "CUDA_", "PYTHON")
# of a command, whose process ends with it; here it goes on, and the next test must not read them
OF_A_COMMAND = (STOP_FILE, "HYDRA_FULL_ERROR")
VARIABLE = "the variable "


def surroundings() -> dict[str, Any]:
    """By name, what every test of this process shares and can change."""
    found: dict[str, Any] = {
        "the working directory": os.getcwd(),
        "sys.argv": list(sys.argv),
        "logging.disable": logging.root.manager.disable,
        "whether Hydra is initialised": GlobalHydra.instance().is_initialized(),
        "torch's default dtype": torch.get_default_dtype(),
        "torch's threads": torch.get_num_threads(),
        "torch's deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "whether torch keeps gradients": torch.is_grad_enabled(),
    }
    for number in (signal.SIGINT, signal.SIGTERM):
        found[f"the handler of {number.name}"] = signal.getsignal(number)
    found |= {f"{VARIABLE}{name}": value for name, value in os.environ.items()}
    del found[f"{VARIABLE}PYTEST_CURRENT_TEST"]
    return found


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is not as it was, one line each."""
    return [
        f"{name}: {before.get(name)!r} before, {after.get(name)!r} after"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
        and (name in before or name.removeprefix(VARIABLE).startswith(TELLING))
    ]


@pytest.fixture(autouse=True)
def left_as_found() -> Iterator[None]:
    """Fails a test that leaves something changed. What fixtures of a session set is there before:
    pytest sets them up first."""
    before = surroundings()
    yield
    for name in OF_A_COMMAND:
        os.environ.pop(name, None)
    assert not (found := changes(before, surroundings())), "\n".join(found)
