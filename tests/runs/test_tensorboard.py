"""TensorBoard: what its event files hold, also of a run that was resumed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cory.config import ConfigError
from cory.episode import Episode, Prompt, Turn
from cory.runs.mirrors.tensorboard import FOLDER, TensorBoard
from cory.runtime import before
from cory.runtime.before import refuse_early
from tests.support.composing import parsed


def events(run_dir: Path) -> Any:
    """The event files as TensorBoard reads them."""
    found = EventAccumulator(str(run_dir / FOLDER))
    found.Reload()
    return found


def scalars(run_dir: Path, name: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in events(run_dir).Scalars(name)]


def start(run_dir: Path, logged: int, *iterations: int, value: float = 1.0) -> None:
    """One start of a run."""
    mirror = TensorBoard(run_dir, logged)
    for iteration in iterations:
        mirror.log(iteration, {"objective/score/agent_0": value * iteration, "time/iteration_s": 2})
    mirror.finish()


def test_every_metric_is_a_scalar_at_its_iteration(tmp_path: Path) -> None:
    start(tmp_path, 0, 0, 1, 2, value=0.5)
    assert scalars(tmp_path, "objective/score/agent_0") == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert events(tmp_path).Tags()["scalars"] == ["objective/score/agent_0", "time/iteration_s"]


def test_a_resumed_run_has_no_step_twice(tmp_path: Path) -> None:
    start(tmp_path, 0, 0, 1, 2, 3)
    start(tmp_path, 2, 2, 3, 4, value=10.0)  # its checkpoint was after two iterations
    assert scalars(tmp_path, "objective/score/agent_0") == [
        (0, 0),
        (1, 1),
        (2, 20),
        (3, 30),
        (4, 40),
    ]
    assert len(list((tmp_path / FOLDER).iterdir())) == 2


def test_what_is_logged_is_on_disk_at_once_and_what_is_not_finite_is_left_out(
    tmp_path: Path,
) -> None:
    mirror = TensorBoard(tmp_path, 0)
    mirror.log(0, {"a": 1.0, "b": math.nan, "c": math.inf})
    assert events(tmp_path).Tags()["scalars"] == ["a"]
    mirror.finish()


def test_samples_are_text_that_markdown_leaves_as_it_is(tmp_path: Path) -> None:
    turns = [
        Turn("agent_0", "pioneer", 0, "context", "# no heading\n<b>", [1], [2], score=0.25),
        Turn("agent_1", "observer", 0, "context", "*said*", [1], [2]),
    ]
    mirror = TensorBoard(tmp_path, 0)
    mirror.log_samples(7, [Episode(Prompt("p-1", "a query"), turns)])
    mirror.finish()
    (event,) = events(tmp_path).Tensors("samples/text_summary")
    assert event.step == 7
    assert event.tensor_proto.string_val[0].decode().splitlines() == [
        *("p-1", "", "    a query", ""),
        *("pioneer (agent_0, score 0.250)", "", "    # no heading", "    <b>", ""),
        *("observer (agent_1)", "", "    *said*"),
    ]


def test_without_the_package_a_run_is_refused_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = parsed("tensorboard=true")
    refuse_early(tmp_path / "run", config)
    monkeypatch.setattr(before, "find_spec", {"tensorboard": None}.__getitem__)
    said = r'^tensorboard=true needs the package tensorboard: pip install "\.\[tensorboard\]"$'
    with pytest.raises(ConfigError, match=said):
        refuse_early(tmp_path / "run", config)
    refuse_early(tmp_path / "run", parsed())
