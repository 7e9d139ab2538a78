"""One step of CORY is read in few files: all functions of the package that it calls, one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import cory
from cory.config import Config
from tests.support.building import build

ROOT = str(Path(cory.__file__).parent)


def test_a_step_passes_twenty_files(config_of: Callable[..., Config]) -> None:
    trainer = build(config_of("algorithm=cory", "model.sharing=adapters"))
    trainer.step(0)  # which also checks the first update
    files = set()

    def seen(frame: FrameType, event: str, value: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            files.add(frame.f_code.co_filename)

    sys.setprofile(seen)
    try:
        trainer.step(1)
    finally:
        sys.setprofile(None)
    assert len(files) <= 20, sorted(files)
