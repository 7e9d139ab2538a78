"""`python -m cory.train` in processes of its own, and what runs on their behalf."""

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # its stubs are not installed

ROOT = Path(__file__).resolve().parents[2]
FORKS = "CORY_TEST_FORKS"  # environment: a folder in which forks sign on
PATIENCE = 150  # seconds; on a busy machine imports alone may take half a minute
SOON = 25  # seconds; torch's agent kills after 30 what has not ended by itself

# they raise in the evaluation after the second iteration, where there is a file `fails`
FAILS_ONCE = """
from pathlib import Path

def look(done):
    if done == 2 and Path("fails").exists():
        Path("fails").unlink()
        raise ValueError("it fails once")

def score(completions, trainer_state, **columns):
    look(trainer_state.global_step)
    return [text.count("e") / 10 for text in completions]

async def play(prompt, team):
    look(team.iteration)
    first, second = await team.one.say(prompt.text), await team.two.say(prompt.text)
    return float("e" in first.text + second.text)
"""

if FORKS not in os.environ:  # not in a process that a test has started
    os.environ[FORKS] = tempfile.mkdtemp(prefix="cory_forks_")
    atexit.register(shutil.rmtree, os.environ[FORKS])


def last_wins(words: Iterable[str]) -> list[str]:
    """The words without those that a later one overrides: Hydra takes each setting once."""
    return list({word.split("=")[0]: word for word in words}.values())


class Said:
    """What a started command says; in files, so that nobody has to read it meanwhile."""

    def __init__(self, cwd: Path) -> None:
        self.out_file, self.err_file = (
            cwd / f"{stream}.{time.monotonic_ns()}" for stream in ("out", "err")
        )

    @property
    def out(self) -> str:
        return self.out_file.read_text()

    @property
    def err(self) -> str:
        """stderr, less the progress bars of data sets that are read for the first time."""
        lines = self.err_file.read_text().splitlines(keepends=True)
        return "".join(line for line in lines if line.strip() and "Generating" not in line)


class Command(Said, subprocess.Popen[bytes]):
    """One started command, as users start it."""

    def __init__(self, cwd: Path, words: list[str], **environment: str) -> None:
        Said.__init__(self, cwd)
        self.began = time.monotonic()
        own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        with self.out_file.open("w") as out, self.err_file.open("w") as err:
            subprocess.Popen.__init__(
                self,
                [sys.executable, *words],
                cwd=cwd,
                env={**os.environ, **own, **environment},
                stdout=out,
                stderr=err,
            )

    def wait(self, timeout: float | None = PATIENCE) -> int:
        """Its exit code."""
        return super().wait(timeout)


def end(started: Iterable[Any]) -> None:
    """Kill those of the commands that still run."""
    for command in started:
        if command.poll() is None:
            command.kill()
            command.wait()


def until(condition: Callable[[], Any], timeout: float = PATIENCE) -> float:
    """Wait for the condition; the seconds that it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < timeout, "waited in vain"
        time.sleep(0.1)
    return time.monotonic() - began


def metrics(run_dir: Path) -> list[dict[str, Any]]:
    """What a run has recorded so far."""
    path = run_dir / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its name there."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def sign_on(run_dir: str, rank: str | None) -> None:
    """Called in a fork that works for a run: its command line is that of what was forked."""
    entry = {"run_dir": run_dir, "rank": int(rank or 0)}
    (Path(os.environ[FORKS]) / str(os.getpid())).write_text(json.dumps(entry))


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not waited for does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def workers(run_dir: Path) -> dict[int, int]:
    """Process ids by rank of what a command has started for a run directory."""
    return started_workers(run_dir) | forked_workers(run_dir)


def forked_workers(run_dir: Path) -> dict[int, int]:
    """Of those, the forks."""
    found = {}
    for entry in Path(os.environ[FORKS]).iterdir():
        said = json.loads(entry.read_text() or "{}")  # empty: it is being written
        if said.get("run_dir") != str(run_dir):
            continue
        if alive(int(entry.name)):
            found[said["rank"]] = int(entry.name)
        else:
            entry.unlink(missing_ok=True)  # the number may go to another process
    return found


def started_workers(run_dir: Path) -> dict[int, int]:
    """Of those, the processes that were started as programs."""
    found = {}
    for process in psutil.process_iter():
        try:
            words, variables = process.cmdline(), process.environ()
        except psutil.Error:  # ended just now
            continue
        if str(run_dir) in words and any(word.startswith("cory.runtime.") for word in words):
            found[int(variables.get("RANK", 0))] = process.pid
    return found
