"""Runs of a sweep side by side: when each starts, what is said, and how they end together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from cory.config import Config
from cory.runs.run_dir import METRICS, OUTPUT
from cory.runtime import side_by_side
from cory.runtime.launch import JobFailed
from cory.runtime.side_by_side import SideBySide
from cory.runtime.sweeps import progress as progress_module
from cory.runtime.sweeps.progress import FAILED, FINISHED, Progress, clock
from tests.support.composing import parsed


class Scripted:
    """In place of `Run`: ends at a set time, as finished or not, and says something."""

    ends: dict[str, tuple[float, bool]]  # by name of the folder
    time: float
    started: list[tuple[str, float, int]]  # folder, time, at_once
    killed: list[str]
    unlocked: list[str]

    def __init__(
        self,
        run_dir: Path,
        hardware: Any,
        at_once: int,
        out: IO[bytes],
        err: IO[bytes],
    ) -> None:
        self.run_dir, self.err = run_dir, err
        self.began = Scripted.time
        Scripted.started.append((run_dir.name, Scripted.time, at_once))
        out.write(b"said\n")
        (run_dir / METRICS).touch()

    def finished(self) -> bool | None:
        assert self.run_dir.name not in Scripted.unlocked
        lasts, well = Scripted.ends[self.run_dir.name]
        if Scripted.time < self.began + lasts:
            return None
        if not well:
            self.err.write(b"error: it broke\n")
        return well

    def kill(self) -> None:
        Scripted.killed.append(self.run_dir.name)


@pytest.fixture
def config() -> Config:
    return parsed("scale=small", "experiment=cory/imdb_ppo")


@pytest.fixture
def progress() -> Progress:
    return Progress()


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch, progress: Progress) -> SideBySide:
    """Runs side by side in a time that passes only while they are waited for."""

    def sleep(seconds: float) -> None:
        Scripted.time += 1

    Scripted.time, Scripted.started, Scripted.killed = 0.0, [], []
    Scripted.unlocked = []
    Scripted.ends = {}
    monkeypatch.setattr(side_by_side, "Run", Scripted)
    monkeypatch.setattr(side_by_side, "stopping", lambda: False)
    clocks = SimpleNamespace(monotonic=lambda: Scripted.time, sleep=sleep)
    monkeypatch.setattr(side_by_side, "time", clocks)
    monkeypatch.setattr(progress_module, "time", clocks)
    progress.start_anew()
    return SideBySide(progress)


@pytest.fixture
def start(
    beside: SideBySide, config: Config, tmp_path: Path, progress: Progress
) -> Callable[..., None]:
    def start(name: str, lasts: float, well: bool = True, at_once: int = 2, seed: int = 0) -> None:
        job = progress.job(len(progress.known) + 1, {"seed": str(seed)}, f"seed={seed}")
        beside.wait_for_room(config, at_once)
        run_dir = tmp_path / name
        run_dir.mkdir(exist_ok=True)
        Scripted.ends[name] = (lasts, well)
        lock = ExitStack()
        lock.callback(Scripted.unlocked.append, name)
        beside.start(job, run_dir, config.replace(seed=seed), lock, at_once)

    return start


def test_a_run_starts_once_one_of_those_at_work_has_ended(
    beside: SideBySide, start: Callable[..., None]
) -> None:
    for name, lasts in {"a": 10, "b": 3, "c": 4, "d": 1}.items():
        start(name, lasts)
    assert Scripted.started == [("a", 0, 2), ("b", 0, 2), ("c", 4, 2), ("d", 9, 2)]


def test_a_run_that_needs_the_machine_has_it(
    beside: SideBySide, start: Callable[..., None]
) -> None:
    start("a", 5, at_once=3)
    start("b", 9, at_once=3)
    start("large", 4, at_once=1)
    start("c", 1, at_once=3)
    start("d", 1, at_once=3)
    assert [(name, time) for name, time, _ in Scripted.started] == [
        ("a", 0), ("b", 0), ("large", 10), ("c", 15), ("d", 15),
    ]  # fmt: skip


def test_a_run_waits_for_the_run_that_it_starts_from(
    beside: SideBySide, start: Callable[..., None], config: Config, tmp_path: Path
) -> None:
    start("a", 5, at_once=9)
    start("ab", 9, at_once=9)
    beside.wait_for_room(config.replace(run_dir=str(tmp_path / "ab")), 9)
    assert Scripted.time == 0
    beside.wait_for_room(config.replace(init_from=f"{tmp_path}/a/iterations/3"), 9)
    assert Scripted.time == 6
    judged = config.reward.replace(path=f"{tmp_path}/ab")
    beside.wait_for_room(config.replace(reward=judged), 9)
    assert Scripted.time == 10


def test_a_failed_run_stops_no_other_and_fails_the_sweep(
    beside: SideBySide,
    start: Callable[..., None],
    tmp_path: Path,
    progress: Progress,
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress.jobs = 3
    with pytest.raises(JobFailed), beside.waited_for():
        start("a", 3, well=False)
        start("b", 9, seed=1)
        start("c", 2, seed=2)
    assert sorted(Scripted.unlocked) == ["a", "b", "c"]
    out, err = capsys.readouterr()
    assert err == (
        "job 1 of 3: seed=0 failed after 0:03; 1 over, 1 at work, 0:03 elapsed\nerror: it broke\n"
    )
    first, *rest = out.splitlines()
    assert first == (
        "2 at a time with 1 thread each (parallel_runs=1: one after another); "
        "what a run says is in output.txt of its folder"
    )
    assert rest == [
        "job 1 of 3: seed=0 begins; 0 over, 1 at work, 0:00 elapsed",
        "job 2 of 3: seed=1 begins; 0 over, 2 at work, 0:00 elapsed",
        "job 3 of 3: seed=2 begins; 1 over, 2 at work, 0:04 elapsed",
        "job 3 of 3: seed=2 finished in 0:02; 2 over, 1 at work, 0:06 elapsed, about 0:00 left",
        "job 2 of 3: seed=1 finished in 0:09; 3 over, 0 at work, 0:09 elapsed",
    ]
    assert (tmp_path / "a" / OUTPUT).read_text() == "said\nerror: it broke\n"
    assert (tmp_path / "b" / OUTPUT).read_text() == "said\n"
    ways = [(job.ended, job.reason) for job in progress.known]
    assert ways == [(FAILED, "error: it broke"), (FINISHED, ""), (FINISHED, "")]


def test_a_run_that_fails_before_it_has_begun_leaves_no_folder(
    beside: SideBySide, start: Callable[..., None], tmp_path: Path
) -> None:
    with pytest.raises(JobFailed), beside.waited_for():
        start("a", 3, well=False)
        (tmp_path / "a" / METRICS).unlink()
    assert not (tmp_path / "a").exists()


def test_what_is_left_is_reckoned_from_the_runs_that_are_over(
    beside: SideBySide,
    start: Callable[..., None],
    progress: Progress,
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress.jobs = 9
    for name in "abc":
        start(name, 100)
    *_, first, second, third = capsys.readouterr().out.splitlines()
    # 7 runs of 100 s to come, two at a time, one of which has worked as long as those
    assert first.endswith("; 1 over, 1 at work, 1:40 elapsed, about 5:50 left")
    assert second.endswith("; 2 over, 0 at work, 1:40 elapsed, about 5:50 left")
    assert third.endswith(" begins; 2 over, 1 at work, 1:41 elapsed, about 5:50 left")
    for number in range(4, 9):  # these were complete
        progress.say_end(progress.job(number, {}, ""), progress_module.BEFORE)
    beside.wait_for_all()
    *_, last, end = capsys.readouterr().out.splitlines()
    assert last == "job 8 of 9 finished before; 7 over, 1 at work, 1:41 elapsed, about 1:40 left"
    assert end.endswith(" finished in 1:40; 8 over, 0 at work, 3:21 elapsed, about 1:40 left")


def test_a_run_that_waits_for_room_is_not_at_work(
    start: Callable[..., None], progress: Progress, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        start(name, 5)
    progress.job(3, {}, "waits")
    assert [job.number for job in progress.at_work] == [1, 2] and progress.over == 0


def test_an_error_waits_for_the_runs_at_work_and_an_interrupt_ends_them(
    beside: SideBySide, start: Callable[..., None]
) -> None:
    with pytest.raises(ValueError, match="of the next job"), beside.waited_for():
        start("a", 7)
        raise ValueError("of the next job")
    assert Scripted.time == 8 and not Scripted.killed
    with pytest.raises(KeyboardInterrupt), beside.waited_for():
        start("b", 7)
        start("c", 7)
        raise KeyboardInterrupt
    assert Scripted.time == 8 and Scripted.killed == ["b", "c"]


def test_no_run_begins_when_the_sweep_is_to_stop(
    beside: SideBySide, start: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    start("a", 2)
    start("b", 5)
    monkeypatch.setattr(side_by_side, "stopping", lambda: True)
    with pytest.raises(JobFailed):
        start("c", 1)
    assert [name for name, *_ in Scripted.started] == ["a", "b"]


def test_clock() -> None:
    assert [clock(s) for s in (0, 59.6, 61, 3599, 3600, 7322)] == [
        "0:00", "1:00", "1:01", "59:59", "1:00:00", "2:02:02",
    ]  # fmt: skip
