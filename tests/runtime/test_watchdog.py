"""What launching rests on: locks, who is alive, when a worker leaves, and whose failure it was."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cory.config import ConfigError, HardwareConfig
from cory.runs.run_dir import LOCK, in_use, lock
from cory.runtime.launch import environment
from cory.runtime.torchrun import exit_code
from cory.runtime.watchdog import LEFT, REFUSED, STOPPED, alive
from tests.support.commands import until


def test_a_lock_holds_for_the_life_of_its_process(tmp_path: Path) -> None:
    assert in_use(tmp_path) is None
    code = (
        "import sys, time; from pathlib import Path; from cory.runs.run_dir import lock;"
        f"lock(Path({str(tmp_path)!r})); print('locked', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
    name = f"process {holder.pid} on {socket.gethostname()}"
    assert in_use(tmp_path) == name
    with pytest.raises(ConfigError, match=f"^run_dir={tmp_path} is in use by {name}$"):
        lock(tmp_path)
    holder.kill()
    until(lambda: in_use(tmp_path) is None, 5)  # killed, and not even waited for
    holder.wait()
    assert (tmp_path / LOCK).exists()


def test_a_process_that_nobody_waited_for_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert alive(process.pid) and alive(os.getpid())
    process.kill()
    until(lambda: not alive(process.pid), 5)
    process.wait()
    assert not alive(process.pid)


BLOCKED = """
import os, signal, sys, threading, time
from pathlib import Path
from cory.runs.stop import StopRequest
from cory.runtime.watchdog import WorkerWatch, stop_on_signal
stop = StopRequest(Path(sys.argv[1]))
stop_on_signal(stop)
watch = WorkerWatch(stop)
{then}
print("ready", flush=True)
threading.Event().wait(60)
"""


@pytest.mark.parametrize(
    ("then", "happens", "code"),
    [
        ("", "peer dies", LEFT),  # though it would wait for a minute
        ("watch.close()", "peer dies", None),
        ("", "stop", STOPPED),  # before the loop there is nothing to save
        ("stop.begun = True", "stop", None),
        ("", "sigterm", STOPPED),
        ("stop.begun = True", "sigterm", None),
    ],
)
def test_a_blocked_worker_leaves_when_it_should(
    then: str, happens: str, code: int | None, tmp_path: Path
) -> None:
    folder = tmp_path / "workers"
    folder.mkdir()
    worker = subprocess.Popen(
        [sys.executable, "-c", BLOCKED.format(then=then), str(tmp_path)],
        env={**os.environ, "CORY_WORKERS": str(folder), "CORY_PARENT": str(os.getpid())},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    signed_on = [path.name for path in folder.iterdir()]
    assert signed_on == ([] if then == "watch.close()" else [str(worker.pid)])
    if happens == "peer dies":
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        (folder / str(dead.pid)).touch()
    elif happens == "stop":
        (tmp_path / "stop").touch()
    else:
        worker.terminate()
    if code is not None:
        assert worker.wait(5) == code
    else:
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(1.5)
        worker.kill()
        worker.wait()
    worker.stdout.close()


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
    }  # fmt: skip
    monkeypatch.setattr("cory.runtime.launch.cores", lambda: 6)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def threads(processes: int) -> str | None:
        hardware = HardwareConfig(**settings, processes=processes)  # type: ignore[arg-type]
        return environment(hardware).get("OMP_NUM_THREADS")

    assert [threads(n) for n in (1, 2, 4, 9)] == [None, "3", "1", "1"]
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert threads(2) == "5"
