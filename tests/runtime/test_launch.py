"""The command: its processes start, stop on request, and end together."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cory.config import ConfigError
from cory.runs.run_dir import LOCK, WORKER_LOCK, lock
from cory.runtime import launch
from tests.support.commands import SOON, Command, end, last_wins, metrics, until, workers
from tests.support.composing import parsed
from tests.support.warm import WarmCommand

Started = Command | WarmCommand
Train = Callable[..., Started]
INTERRUPTED = "interrupted; the run in {} is unfinished; the same command goes on with it\n"
ENDLESS = "algorithm.iterations=100000"


def in_use(run_dir: Path) -> bool:
    """Whether a command or a worker holds a lock of the run."""
    try:
        with lock(run_dir, LOCK), lock(run_dir, WORKER_LOCK):
            return False
    except ConfigError:
        return True


@pytest.fixture
def train(short: list[str], tmp_path: Path) -> Iterator[Train]:
    """Starts the command with short settings; nothing that it started outlives the test.

    as_users: as a program that starts programs, each of which imports what it needs
    """
    started: list[Started] = []

    def start(*words: str, as_users: bool = False, **environment: str) -> Started:
        if as_users:
            command: Started = Command(
                tmp_path, ["-m", "cory.train", *short, *words], **environment
            )
        else:
            command = WarmCommand(tmp_path, last_wins([*short, *words]), **environment)
        started.append(command)
        return command

    yield start
    end(started)


@pytest.mark.slow
def test_a_killed_worker_takes_the_others_along_and_a_live_run_is_left_alone(
    train: Train, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    words = (ENDLESS, "hardware=cpu2", f"run_dir={run_dir}")
    command = train(*words)
    until(lambda: metrics(run_dir))
    running = workers(run_dir)
    assert sorted(running) == [0, 1]

    settings = (run_dir / "config.yaml").read_bytes()
    second = train(ENDLESS, "hardware=cpu", f"run_dir={run_dir}")
    assert second.wait() == 1
    assert second.err == f"error: run_dir={run_dir} is in use by another process\n"
    assert (run_dir / "config.yaml").read_bytes() == settings

    os.kill(running[1], signal.SIGKILL)
    until(lambda: command.poll() is not None, SOON)
    assert command.wait() == 1
    assert command.err == (
        "error: worker 1 was ended by SIGKILL: killed by hand, or memory ran out\n"
    )
    assert not workers(run_dir) and not in_use(run_dir)


@pytest.mark.slow
def test_no_process_outlives_a_killed_command(train: Train, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    command = train(ENDLESS, "hardware=cpu2", f"run_dir={run_dir}")
    until(lambda: metrics(run_dir))
    assert workers(run_dir) and in_use(run_dir)
    command.kill()
    until(lambda: not workers(run_dir), SOON)
    until(lambda: not in_use(run_dir), SOON)  # an exiting process lets go of its files last


@pytest.mark.slow
@pytest.mark.parametrize("as_users", [True, False])
def test_a_signal_saves_and_the_same_command_goes_on_with_the_run(
    as_users: bool, train: Train, tmp_path: Path
) -> None:
    """As users: a program that starts programs, each of which imports for seconds."""
    runs = tmp_path / "outputs" / "imdb_ppo"
    words = ["algorithm.iterations=12", *(["hardware=cpu2"] if as_users else [])]
    command = train(*words, as_users=as_users)
    until(lambda: runs.exists() and any(metrics(path) for path in runs.iterdir()))
    command.send_signal(signal.SIGTERM if as_users else signal.SIGINT)
    assert command.wait() == (143 if as_users else 130), command.err
    (run_dir,) = runs.iterdir()
    first, last = command.err.splitlines()
    assert first == "stopping: the run saves and leaves (a second Ctrl-C ends it at once)"
    assert f"{last}\n" == INTERRUPTED.format(run_dir)
    assert not workers(run_dir)
    before = metrics(run_dir)
    assert 0 < len(before) < 12

    again = train(*words)
    assert again.wait() == 0, again.err
    said = f"goes on with the run in {run_dir} after iteration {len(before)} (delete it to start"
    assert said in again.out
    after = metrics(run_dir)
    assert after[: len(before)] == before and len(after) == 12
    assert (run_dir / "record.json").exists() and list(runs.iterdir()) == [run_dir]


@pytest.mark.slow
def test_a_second_signal_ends_the_run_at_once(train: Train, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    # an iteration that would last for minutes
    command = train(
        "algorithm.epochs=100000", "checkpoint_every=0", "hardware=cpu2",
        f"run_dir={run_dir}",
    )  # fmt: skip
    until(lambda: (run_dir / "prompt_scores.jsonl").exists())
    time.sleep(0.5)
    command.send_signal(signal.SIGTERM)
    until(lambda: "stopping" in command.err, SOON)
    assert command.poll() is None
    command.send_signal(signal.SIGINT)
    assert command.wait(SOON) == 143
    until(lambda: not workers(run_dir), SOON)


def multinode(run_dir: Path, port: int) -> list[str]:
    return [
        *("hardware=multinode", "hardware.device=cpu", "hardware.processes=1"),
        *("hardware.zero_stage=0", "hardware.gradient_checkpointing=false"),
        *(f"hardware.rendezvous=127.0.0.1:{port}", f"run_dir={run_dir}"),
    ]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
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
        until(lambda node=node: node.poll() is not None, SOON)
    assert [node.wait() for node in nodes] == [1, 1]
    assert sum("worker 1 was ended by SIGKILL" in node.err for node in nodes) == 1
    assert not any("Traceback" in node.err for node in nodes), [node.err for node in nodes]


def test_processes_share_the_cores_unless_the_user_says_otherwise(monkeypatch) -> None:
    monkeypatch.setattr(launch, "cores", lambda: 6)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def threads(processes: int, name: str = "OMP_NUM_THREADS") -> str | None:
        return launch.variables(parsed().hardware.replace(processes=processes)).get(name)

    assert [threads(n) for n in (1, 2, 4, 9)] == [None, "3", "1", "1"]
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert threads(2) == "5"
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert threads(1, name="OMP_WAIT_POLICY") == "PASSIVE"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert threads(1, name="OMP_WAIT_POLICY") == "ACTIVE"
