"""Whole runs with hardware.sampler=vllm: it starts its server, and neither's end loses anything."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are not installed
import pytest

from cory.models.generation import Response
from cory.models.server import Server
from tests.support.commands import SOON, end, last_wins, metrics, until
from tests.support.composing import ConfigOf
from tests.support.vllm_server import VLLMServer
from tests.support.warm import WarmCommand

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
Start = Callable[..., WarmCommand]
VLLM = ROOT / ".vllm" / "bin" / "python"


def servers(run_dir: Path) -> list[int]:
    """Ids of the servers that a run has started."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(run_dir / "server") in " ".join(process.cmdline()):
                found.append(process.pid)
        except psutil.Error:  # ended just now
            continue
    return found


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """In place of one that has vLLM."""
    python = tmp_path / "python"
    mark = '--mark "$CORY_TEST_RUN/server"'
    python.write_text(
        f'#!/bin/sh\nshift; shift\nexec {sys.executable} -m tests.support.vllm_server {mark} "$@"\n'
    )
    python.chmod(0o755)
    return python


@pytest.fixture
def start(short: list[str], tmp_path: Path, python: Path) -> Iterator[Start]:
    """Starts CORY with adapters and a server, which the run starts itself unless it is told."""
    started: list[WarmCommand] = []

    def run(name: str, *words: str) -> WarmCommand:
        own = [
            *("algorithm=cory", "adapter=lora", "algorithm.iterations=4", "checkpoint_every=1"),
            "algorithm.credit=counterfactual",
            *("hardware.sampler=vllm", "hardware.server.timeout=60"),
            *(f"hardware.server.python={python}", f"run_dir={tmp_path / name}"),
        ]
        command = WarmCommand(
            tmp_path,
            last_wins([*short, *own, *words]),
            PYTHONPATH=str(ROOT),
            CORY_TEST_RUN=str(tmp_path / name),
        )
        started.append(command)
        return command

    yield run
    end(started)


def records(run_dir: Path) -> bytes:
    return (run_dir / "metrics.jsonl").read_bytes()


def test_neither_a_killed_server_nor_a_killed_run_loses_anything(start, tmp_path) -> None:
    whole = start("whole")
    assert whole.wait() == 0, whole.err
    assert len(metrics(tmp_path / "whole")) == 4 and not servers(tmp_path / "whole")

    run = start("server")
    until(lambda: len(metrics(tmp_path / "server")) >= 2)
    (server,) = servers(tmp_path / "server")
    os.kill(server, signal.SIGKILL)
    assert run.wait() == 0, run.err
    assert records(tmp_path / "server") == records(tmp_path / "whole")

    run = start("run")
    until(lambda: len(metrics(tmp_path / "run")) >= 2)
    assert len(servers(tmp_path / "run")) == 1
    run.kill()
    run.wait()
    assert until(lambda: not servers(tmp_path / "run")) < SOON
    again = start("run")
    assert again.wait() == 0, again.err
    assert records(tmp_path / "run") == records(tmp_path / "whole")


def test_requests_wait_for_the_server_that_takes_the_place_of_one(
    config_of: ConfigOf, tmp_path: Path, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    config = config_of("algorithm=ppo", f"hardware.server.python={python}")
    server = Server(config.hardware.server, config.model, 40, 1, tmp_path / "log", "cpu")

    async def ask() -> list[Response]:
        async with server.connected():
            asked = [server.sample("base", [5, 6], 3, None, seed, [0]) for seed in range(4)]
            return await asyncio.gather(*asked)

    server.start()
    try:
        before = asyncio.run(ask())
        assert server.process is not None
        server.process.kill()
        server.process.wait()
        assert asyncio.run(ask()) == before
    finally:
        server.stop()


def test_a_server_elsewhere_that_goes_is_waited_for_by_the_user(
    start: Start, tmp_path: Path, tiny_model: str
) -> None:
    server = VLLMServer(tiny_model)
    words = [f"hardware.server.address={server.url}", "hardware.server.retries=0"]
    assert start("whole", *words).wait() == 0
    run = start("run", *words, "checkpoint_every=0")
    until(lambda: len(metrics(tmp_path / "run")) >= 1)
    server.faults.fails = 10**6
    assert run.wait() == 1
    assert f"hardware.server.address={server.url}: the server answers 500" in run.err
    assert "when it is well again, the same command goes on" in run.err
    assert "Traceback" not in run.err
    done = len(metrics(tmp_path / "run"))
    assert [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()] == [f"{done:06d}"]
    server.faults.fails = 0
    again = start("run", *words, "checkpoint_every=0")
    assert again.wait() == 0, again.err
    assert records(tmp_path / "run") == records(tmp_path / "whole")


def test_two_processes_share_a_server(start: Start, tmp_path: Path) -> None:
    for name, hardware in (("one", "cpu"), ("two", "cpu2")):
        run = start(name, f"hardware={hardware}", "algorithm.iterations=2")
        assert run.wait() == 0, run.err
    one, two = (metrics(tmp_path / name) for name in ("one", "two"))
    for row, other in zip(one, two, strict=True):
        assert row.keys() == other.keys()
        for name, value in row.items():
            assert value == pytest.approx(other[name], rel=1e-3, abs=1e-4), name


def test_a_server_that_cannot_start_is_said_with_its_log(start: Start, tmp_path: Path) -> None:
    run = start("run", "hardware.server.options=['--max-model-len=x']")
    assert run.wait() == 1
    assert "error: the vLLM server ended with 2 (" in run.err and "server-model.log" in run.err
    assert "invalid int value: 'x'" in run.err and "Traceback" not in run.err


@pytest.mark.skipif(not VLLM.exists(), reason="vLLM is not installed: make vllm")
@pytest.mark.parametrize("algorithm", ["cory", "maporl"])
def test_a_real_server(start: Start, tmp_path: Path, algorithm: str) -> None:
    """Tokens drawn from the policies, in a run whose weights move; the same again."""
    words = [
        *("model=tiny_steps", "task=arithmetic", f"algorithm={algorithm}", "adapter=lora"),
        *("algorithm.learning_rate=1e-3", "algorithm.iterations=2", "evaluation.prompts=4"),
        *("algorithm.prompts_per_iteration=8", "algorithm.minibatch_size=8"),
        *(f"hardware.server.python={VLLM}", "hardware.server.requests=16"),
    ]
    for name in ("once", "again"):
        run = WarmCommand(tmp_path, ["hardware.sampler=vllm", f"run_dir={tmp_path / name}", *words])
        assert run.wait(300) == 0, run.err
    assert records(tmp_path / "once") == records(tmp_path / "again")
    gaps = [value for name, value in metrics(tmp_path / "once")[-1].items() if "gap_max" in name]
    assert gaps and max(gaps) < 1e-3
