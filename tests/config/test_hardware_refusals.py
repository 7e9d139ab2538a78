"""Layouts that cannot work are refused in one line, before anything heavy is loaded."""

from __future__ import annotations

import pytest
import torch

from cory.config import ConfigError
from cory.runtime.build import check_devices
from tests.support.composing import parsed


@pytest.mark.parametrize(
    ("hardware", "devices", "said"),
    [
        ("gpu1", 0, "hardware.device=cuda: this machine has no CUDA device; use hardware=cpu"),
        (
            "gpu4_zero2",
            1,
            "hardware.processes=4: this machine has 1 CUDA devices; one process needs one",
        ),
    ],
)
def test_missing_gpus_are_refused(
    hardware: str, devices: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    with pytest.raises(ConfigError) as refusal:
        check_devices(parsed(f"hardware={hardware}").hardware)
    assert str(refusal.value) == said
