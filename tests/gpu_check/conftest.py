"""A made-up machine for the check of a GPU."""

from __future__ import annotations

import pytest

from cory.gpu_check.machine import Machine
from cory.runs.provenance import PACKAGES


@pytest.fixture
def gpu() -> Machine:
    """Eight GPUs on which every case can run."""
    return Machine(
        device="cuda",
        name="Made-up 100",
        devices=8,
        processes=8,
        memory=80 * 2**30,
        main_memory=500 * 2**30,
        cores=64,
        capability=(9, 0),
        cuda="13.0",
        has_flash_attention=True,
        has_bitsandbytes=True,
        python="3.11.7",
        packages=dict.fromkeys(PACKAGES, "1.0"),
    )
