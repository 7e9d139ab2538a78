"""Workers start, stop on request, and end together; a run directory has one run at a time."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cory.config import ConfigError, HardwareConfig
from cory.elastic import verdict
from cory.launch import environment
from cory.run_dir import LOCK, RECORD, in_use, lock, unfinished, write_settings
from cory.watch import LEFT, REFUSED, STOPPED, alive
from tests.commands import Command, metrics, short_settings, until, workers
from tests.composing import compose_config

Train = Callable[..., Command]
ENDLESS = "algorithm.iterations=100000"
# raises in worker 1 when the test says so
FAILING = """
import os, signal

def fail(*_):
    raise RuntimeError("the disk melted")

if os.environ.get("RANK") == "1":
    signal.signal(signal.SIGUSR1, fail)
"""


@pytest.fixture
def train(tiny_model: str, tiny_judge: str, reviews_file: Path, tmp_path: Path) -> Iterator[Train]:
    """Starts the command with short settings; nothing that it started outlives the test."""
    started: list[Command] = []

    def start(*words: str, **environment: str) -> Command:
        base = short_settings(tiny_model, tiny_judge, reviews_file)
        started.append(Command(tmp_path, ["-m", "cory.train", *base, *words], **environment))
        return started[-1]

    yield start
    for command in started:
        if command.process.poll() is None:
            command.process.kill()
            command.wait()


def test_a_killed_worker_takes_the_others_along_and_a_live_run_is_left_alone(
    train: Train, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    words = (ENDLESS, "hardware=cpu2", f"run_dir={run_dir}")
    command = train(*words)
    until(lambda: metrics(run_dir))
    running = workers(run_dir)
    assert sorted(running) == [-1, 0, 1]

    settings = (run_dir / "config.yaml").read_bytes()
    second = train(ENDLESS, "hardware=cpu", f"run_dir={run_dir}")
    assert second.wait() == 1
    holder = f"process {command.process.pid} on {socket.gethostname()}"
    assert second.err == f"error: run_dir={run_dir} is in use by {holder}\n"
    assert (run_dir / "config.yaml").read_bytes() == settings

    os.kill(running[1], signal.SIGKILL)
    assert until(lambda: command.process.poll() is not None, 10) < 10
    assert command.wait() == 1
    assert command.err == (
        "error: worker 1 was ended by SIGKILL: killed by hand, or memory ran out\n"
    )
    assert not workers(run_dir) and in_use(run_dir) is None


def test_one_worker_s_error_is_shown_once_and_ends_the_run(train: Train, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(FAILING)
    run_dir = tmp_path / "run"
    path = f"{tmp_path / 'site'}:{Path(__file__).resolve().parent.parent}"
    command = train(ENDLESS, "hardware=cpu2", f"run_dir={run_dir}", PYTHONPATH=path)
    until(lambda: metrics(run_dir))
    os.kill(workers(run_dir)[1], signal.SIGUSR1)
    until(lambda: command.process.poll() is not None, 10)
    assert command.wait() == 1
    assert command.err.count("Traceback") == 1
    assert command.err.endswith("RuntimeError: the disk melted\n"), command.err
    assert not workers(run_dir)


@pytest.mark.parametrize("hardware", ["cpu", "cpu2"])
def test_no_worker_outlives_a_killed_command(train: Train, tmp_path: Path, hardware: str) -> None:
    run_dir = tmp_path / "run"
    command = train(ENDLESS, f"hardware={hardware}", f"run_dir={run_dir}")
    until(lambda: metrics(run_dir))
    command.process.kill()
    assert until(lambda: not workers(run_dir), 5) < 5


def test_sigterm_saves_and_the_same_command_goes_on_with_the_run(
    train: Train, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    words = ("algorithm.iterations=12", "hardware=cpu2", f"run_dir={run_dir}")
    command = train(*words)
    until(lambda: metrics(run_dir))
    command.process.send_signal(signal.SIGTERM)
    assert command.wait() == 143, command.err
    first, last = command.err.splitlines()
    assert first.startswith(f"stopping: the run in {run_dir} saves and leaves")
    assert last.startswith(f"interrupted; the run in {run_dir} is unfinished")
    assert not workers(run_dir) and not (run_dir / "stop").exists()
    before = metrics(run_dir)
    assert 0 < len(before) < 12

    again = train(*words)
    assert again.wait() == 0, again.err
    assert f"goes on with the unfinished run in {run_dir}" in again.out
    after = metrics(run_dir)
    assert after[: len(before)] == before and len(after) == 12
    assert (run_dir / "record.json").exists()


def test_ctrl_c_and_the_same_command_goes_on_in_the_default_directory(
    train: Train, tmp_path: Path
) -> None:
    runs = tmp_path / "outputs" / "quickstart"
    command = train("algorithm.iterations=12")
    until(lambda: runs.exists() and any(metrics(path) for path in runs.iterdir()))
    command.process.send_signal(signal.SIGINT)
    assert command.wait() == 130, command.err
    (run_dir,) = runs.iterdir()
    again = train("algorithm.iterations=12")
    assert again.wait() == 0, again.err
    assert f"goes on with the unfinished run in {run_dir} (delete it to start" in again.out
    assert len(metrics(run_dir)) == 12 and (run_dir / "record.json").exists()
    assert list(runs.iterdir()) == [run_dir]


def test_the_newest_unfinished_run_with_equal_settings_is_gone_on_with(tmp_path: Path) -> None:
    cfg = compose_config()
    for day, override in enumerate(["", "", "", "algorithm.gamma=0.9", "seed=1"], 1):
        folder = tmp_path / f"2026-01-0{day}_12-00-00_seed{override[5:] or 0}"
        write_settings(folder, compose_config(*([override] if override else [])), [])
    first, second, third = (tmp_path / f"2026-01-0{day}_12-00-00_seed0" for day in (1, 2, 3))
    new = tmp_path / "2026-02-01_12-00-00_seed0"
    assert unfinished(new, cfg) == third
    assert unfinished(new, compose_config("hardware=cpu2", "wandb.mode=offline")) == third
    (third / RECORD).write_text("{}")  # finished
    assert unfinished(new, cfg) == second
    code = f"from pathlib import Path; from cory.run_dir import lock; lock(Path({str(second)!r}))"
    holder = subprocess.Popen(
        [sys.executable, "-c", f"{code}; print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None and holder.stdout.readline()
    assert unfinished(new, cfg) == first  # the second is being worked on
    holder.communicate(b"\n")
    assert unfinished(new, cfg) == second
    assert unfinished(tmp_path / "chosen", cfg) is None
    assert unfinished(new, compose_config("algorithm.gamma=0.8")) is None


def test_a_second_signal_ends_the_run_at_once(train: Train, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    # an iteration that would last for minutes
    command = train(
        "algorithm.epochs=100000", "checkpoint_every=0", "hardware=cpu2", f"run_dir={run_dir}"
    )
    until(lambda: sorted(workers(run_dir)) == [-1, 0, 1] and in_use(run_dir))
    time.sleep(5)
    command.process.send_signal(signal.SIGTERM)
    until(lambda: "stopping" in command.err, 5)
    assert command.process.poll() is None
    command.process.send_signal(signal.SIGINT)
    assert command.wait(5) == 143
    assert until(lambda: not workers(run_dir), 5) < 5


def test_sigterm_to_the_worker_itself_means_the_same(train: Train, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    command = train(ENDLESS, f"run_dir={run_dir}")
    until(lambda: metrics(run_dir))
    os.kill(workers(run_dir)[0], signal.SIGTERM)
    assert command.wait() == 143
    assert command.err.startswith(f"interrupted; the run in {run_dir} is unfinished")
    assert list((run_dir / "checkpoints").iterdir())


def multinode(run_dir: Path, port: int) -> list[str]:
    return [
        "hardware=multinode",
        "hardware.device=cpu",
        "hardware.processes=1",
        "hardware.zero_stage=0",
        "hardware.gradient_checkpointing=false",
        f"hardware.rendezvous=127.0.0.1:{port}",
        f"run_dir={run_dir}",
    ]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_two_nodes_make_one_run_and_end_together(train: Train, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    words = multinode(run_dir, free_port())
    nodes = [train(*words) for _ in range(2)]
    assert [node.wait() for node in nodes] == [0, 0], [node.err for node in nodes]
    assert (run_dir / "record.json").exists()
    assert len(metrics(run_dir)) == 2
    assert sorted(node.out.count("records in") for node in nodes) == [0, 1]

    run_dir = tmp_path / "killed"
    words = [ENDLESS, *multinode(run_dir, free_port())]
    nodes = [train(*words) for _ in range(2)]
    until(lambda: metrics(run_dir))
    os.kill(workers(run_dir)[1], signal.SIGKILL)
    for node in nodes:
        until(lambda node=node: node.process.poll() is not None, 15)
    assert [node.wait() for node in nodes] == [1, 1]
    assert sum("worker 1 was ended by SIGKILL" in node.err for node in nodes) == 1
    assert not any("Traceback" in node.err for node in nodes), [node.err for node in nodes]


def test_nodes_that_never_come_are_not_waited_for_after_a_signal(
    train: Train, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    command = train(*multinode(run_dir, free_port()))
    until(lambda: -1 in workers(run_dir))
    time.sleep(1)
    command.process.send_signal(signal.SIGTERM)
    assert command.wait(15) == 143


def test_several_nodes_need_a_directory_that_all_of_them_see(train: Train) -> None:
    words = [word for word in multinode(Path("x"), 1) if not word.startswith("run_dir")]
    command = train(*words)
    assert command.wait() == 1
    assert command.err.startswith("error: hardware.nodes=2 needs run_dir=<a folder that all nodes")
    assert command.err.count("\n") == 1


@pytest.mark.parametrize("how", ["torchrun", "deepspeed"])
def test_a_launcher_around_the_command_is_refused(how: str, tmp_path: Path) -> None:
    launcher = {
        "torchrun": ["torch.distributed.run", "--nproc-per-node=2", "-m", "cory.train"],
        "deepspeed": ["cory.train", "--local_rank=0"],  # what it adds
    }[how]
    variables = {"RANK": "0", "WORLD_SIZE": "2"} if how == "deepspeed" else {}
    answer = Command(tmp_path, ["-m", *launcher, "algorithm=ppo"], **variables)
    assert answer.wait() == 1
    lines = [line for line in answer.err.splitlines() if line.startswith("error:")]
    assert lines == [
        "error: cory.train starts its own workers, without torchrun, deepspeed or another "
        "launcher; type: python -m cory.train algorithm=ppo hardware.processes=2"
    ]
    assert not (tmp_path / "outputs").exists()


def test_a_lock_holds_for_the_life_of_its_process(tmp_path: Path) -> None:
    assert in_use(tmp_path) is None
    code = (
        "import sys, time; from pathlib import Path; from cory.run_dir import lock;"
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
from cory.watch import StopRequest, WorkerWatch
stop = StopRequest(Path(sys.argv[1]))
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
        ("stop.begin()", "stop", None),
        ("", "sigterm", STOPPED),
        ("stop.begin()", "sigterm", None),
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
    assert verdict(failures) == expected  # type: ignore[arg-type]  # only the exit code is read
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
    monkeypatch.setattr("cory.launch.cores", lambda: 6)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def threads(processes: int) -> str | None:
        hardware = HardwareConfig(**settings, processes=processes)  # type: ignore[arg-type]
        return environment(hardware).get("OMP_NUM_THREADS")

    assert [threads(n) for n in (1, 2, 4, 9)] == [None, "3", "1", "1"]
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert threads(2) == "5"
