"""What launching rests on: locks, who is alive, when a worker leaves, and whose failure it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cory.config import ConfigError, HardwareConfig
from cory.runs.lock import LOCK, WORKER_LOCK, in_use, lock
from cory.runs.stop import StopRequest
from cory.runtime.launch import Run, environment
from cory.runtime.torchrun import exit_code
from cory.runtime.watchdog import (
    FAILED,
    LEFT,
    REFUSED,
    STOPPED,
    WorkerWatch,
    alive,
    stop_on_signal,
)
from tests.support.commands import SOON, until
from tests.support.composing import parsed
from tests.support.warm import Fork


@pytest.mark.slow
def test_a_lock_holds_for_the_life_of_its_process(tmp_path: Path) -> None:
    assert not in_use(tmp_path)
    code = (
        "import time; from pathlib import Path; from cory.runs.lock import lock\n"
        f"with lock(Path({str(tmp_path)!r})): print('locked', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
    assert in_use(tmp_path)
    said = f"^run_dir={tmp_path} is in use by another process$"
    with pytest.raises(ConfigError, match=said), lock(tmp_path):
        pass
    holder.kill()
    with lock(tmp_path, wait_s=SOON):  # killed, and not even waited for
        assert in_use(tmp_path)
    holder.wait()
    assert (tmp_path / LOCK).exists() and not in_use(tmp_path)


def test_the_next_worker_waits_until_the_one_before_is_gone(tmp_path: Path) -> None:
    """Whose command was killed; the command's own lock is another one."""
    with lock(tmp_path, WORKER_LOCK):
        with lock(tmp_path):
            assert in_use(tmp_path)
        assert in_use(tmp_path)
        with pytest.raises(ConfigError, match="is in use"), lock(tmp_path, WORKER_LOCK, 0.1):
            pass
    with lock(tmp_path, WORKER_LOCK, 0.1):
        pass


def test_a_process_that_nobody_waited_for_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert alive(process.pid) and alive(os.getpid())
    process.kill()
    until(lambda: not alive(process.pid), SOON)
    process.wait()
    assert not alive(process.pid)


def blocked(then: str, folder: Path) -> None:
    """A worker that waits for a minute, before the loop or in it, or has signed off."""
    stop = StopRequest(folder)
    stop_on_signal(stop)
    watch = WorkerWatch(stop)
    stop.begun = then == "begun"
    if then == "closed":
        watch.close()
    print("ready", flush=True)
    threading.Event().wait(60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("then", "happens", "code"),
    [
        ("", "peer dies", LEFT),  # though it would wait for a minute
        ("closed", "peer dies", None),
        ("", "stop", STOPPED),  # before the loop there is nothing to save
        ("begun", "stop", None),
        ("", "sigterm", STOPPED),
        ("begun", "sigterm", None),
    ],
)
def test_a_blocked_worker_leaves_when_it_should(
    then: str, happens: str, code: int | None, tmp_path: Path
) -> None:
    folder = tmp_path / "workers"
    folder.mkdir()
    worker = Fork(tmp_path, partial(blocked, then, tmp_path), CORY_WORKERS=str(folder))
    until(lambda: worker.out == "ready\n")
    signed_on = [path.name for path in folder.iterdir()]
    assert signed_on == ([] if then == "closed" else [str(worker.pid)])
    if happens == "peer dies":
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        (folder / str(dead.pid)).touch()
    elif happens == "stop":
        (tmp_path / "stop").touch()
    else:
        worker.send_signal(signal.SIGTERM)
    if code is not None:
        assert worker.wait(5) == code
    else:
        with pytest.raises(TimeoutError):
            worker.wait(1.5)


def fails(folder: Path) -> None:
    """A worker that fails and says whether it is the one to print the reason."""
    watch = WorkerWatch(StopRequest(folder))
    print("fails", flush=True)
    print(watch.first_to_fail(), flush=True)
    os._exit(REFUSED)


@pytest.mark.parametrize(
    ("happens", "speaks"),
    [("", True), ("another has spoken", False), ("a peer dies", False)],
)
def test_one_worker_says_why_a_run_fails(happens: str, speaks: bool, tmp_path: Path) -> None:
    """... and none of those that fail because another worker is gone."""
    folder = tmp_path / "workers"
    folder.mkdir()
    if happens == "another has spoken":
        (folder / FAILED).touch()
    peer = subprocess.Popen(["sleep", "60"])
    (folder / str(peer.pid)).touch()
    environment = {"CORY_WORKERS": str(folder), "GROUP_WORLD_SIZE": "1"}
    worker = Fork(tmp_path, partial(fails, tmp_path), **environment)
    until(lambda: worker.out)
    if happens == "a peer dies":
        peer.kill()  # after the worker has failed: its connections break before that
    code = worker.wait(5)
    peer.kill()
    peer.wait()
    if code == REFUSED:
        assert worker.out == f"fails\n{speaks}\n"
    else:  # it left before it had to decide
        assert (code, happens, worker.out) == (LEFT, "a peer dies", "fails\n")


class Failure:
    """What torch says of a worker that failed."""

    def __init__(self, exitcode: int) -> None:
        self.exitcode = exitcode


@pytest.mark.parametrize(
    ("codes", "expected", "said"),
    [
        ([LEFT, -9, -15], REFUSED, "error: worker 1 was ended by SIGKILL: killed by hand, or"),
        ([LEFT, 134], REFUSED, "error: worker 1 ended with exit code 134\n"),
        ([-15, REFUSED], REFUSED, ""),
        ([STOPPED, -11], REFUSED, "error: worker 1 was ended by SIGSEGV\n"),
        ([STOPPED, LEFT], STOPPED, ""),
        ([-15, -15], STOPPED, ""),
        ([LEFT], REFUSED, "error: the workers left"),
    ],
)
def test_the_verdict_names_the_worker_that_failed_first(
    codes: list[int], expected: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    failures = {rank: Failure(code) for rank, code in enumerate(codes)}
    assert exit_code(failures) == expected  # type: ignore[arg-type]  # only the exit code is read
    err = capsys.readouterr().err
    assert err.startswith(said) and bool(err) == bool(said) and err.count("\n") <= 1


def test_processes_share_the_cores_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {
        "name": "x", "device": "cpu", "nodes": 1, "rendezvous": None, "zero_stage": 0,
        "keep_whole_below": 0,
        "offload_optimizer": False, "offload_parameters": False, "gradient_checkpointing": False,
        "routed_reference": False, "microbatch_size": 1, "rollout_batch_size": 1,
        "generation_batch_size": None, "cuda_graphs": False,
    }  # fmt: skip
    monkeypatch.setattr("cory.config.hardware.cores", lambda: 6)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def threads(processes: int, runs: int = 1, name: str = "OMP_NUM_THREADS") -> str | None:
        hardware = HardwareConfig(**settings, processes=processes)  # type: ignore[arg-type]
        return environment(hardware, runs).get(name)

    assert [threads(n) for n in (1, 2, 4, 9)] == [None, "3", "1", "1"]
    assert [threads(1, runs) for runs in (2, 3, 6, 7)] == ["3", "2", "1", "1"]
    assert threads(2, runs=3) == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert threads(2) == "5"
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert threads(1, name="OMP_WAIT_POLICY") == "PASSIVE"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert threads(1, name="OMP_WAIT_POLICY") == "ACTIVE"


def test_a_run_gets_its_share_of_the_cores_and_the_files_it_writes_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: dict[str, Any] = {}

    def popen(args: list[str], **how: Any) -> None:
        begun.update(how)

    monkeypatch.setattr("cory.config.hardware.cores", lambda: 6)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("cory.runtime.launch.subprocess.Popen", popen)
    (tmp_path / "stop").touch()  # of an earlier request
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        Run(tmp_path, parsed().hardware, 3, out, err)
        assert begun["env"]["OMP_NUM_THREADS"] == "2"
        assert (begun["stdout"], begun["stderr"]) == (out, err)
    assert not (tmp_path / "stop").exists()
