"""One step of CORY is read in few files: all functions of the package that it calls, one by one."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import cory
from cory.models.actor_critic import ActorCriticModel
from tests.support.building import build

ROOT = str(Path(cory.__file__).parent)


# adapters: their reference is of their base's own file
@pytest.mark.parametrize(("sharing", "most"), [("copies", 21), ("adapters", 22)])
def test_a_step_passes_few_files_and_seven_calls_to_the_model(config_of, sharing, most) -> None:
    trainer = build(config_of("algorithm=cory", f"model.sharing={sharing}"))
    trainer.step(0)  # which also checks the first update
    files, hops = set(), set()

    def seen(frame: FrameType, event: str, value: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(ROOT):
            return
        files.add(frame.f_code.co_filename)
        if frame.f_code is ActorCriticModel.forward.__code__:
            above, depth = frame.f_back, 1
            while above is not None and above.f_code.co_name != "step":
                depth += above.f_code.co_filename.startswith(ROOT)
                above = above.f_back
            hops.add(depth)

    sys.setprofile(seen)
    try:
        trainer.step(1)
    finally:
        sys.setprofile(None)
    assert len(files) <= most, sorted(files)
    assert hops == {7}
