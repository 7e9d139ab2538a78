"""Measurements in turn: processes that work one at a time, so that a machine's moods meet them all.

A worker is a process that does a piece of work for each line it reads, and answers with a line of
JSON that begins with MARK. While it waits it takes no time from the others.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

MARK = "@answer "  # before an answer: libraries print lines of their own
TAIL = 2000  # characters of its errors that are shown where a worker has failed

Answer = dict[str, Any]


class WorkerFailed(RuntimeError):
    """A worker ended without an answer."""


class Worker:
    """A process that answers one question at a time."""

    def __init__(self, name: str, command: Sequence[str], threads: int) -> None:
        """threads: of its matrix products"""
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with the worker
        self._process = subprocess.Popen(
            command,
            env=os.environ | {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def answer(self) -> Answer:
        """Its next answer; WorkerFailed where it ends before."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(MARK):
                answer: Answer = json.loads(line.removeprefix(MARK))
                return answer
        self._process.wait()
        self._errors.seek(0)
        errors = self._errors.read()[-TAIL:]
        raise WorkerFailed(f"{self.name} ended with {self._process.returncode}:\n{errors}")

    def ask(self, question: str) -> Answer:
        """Let it do a piece of work."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # what it says before it ends is read below
            print(question, file=self._process.stdin, flush=True)
        return self.answer()

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=30)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()


def serve(answers: Mapping[str, Callable[[], Answer]], lines: Iterable[str] = sys.stdin) -> None:
    """The worker's side: answer once when ready, then each question by its function."""
    say({})
    for line in lines:
        say(answers[line.strip()]())


def say(answer: Answer) -> None:
    """Print an answer."""
    print(f"{MARK}{json.dumps(answer)}", flush=True)


def in_turn(runners: Mapping[str, Callable[[], Answer]], rounds: int) -> dict[str, list[Answer]]:
    """Each runner's answers: one per round, and in every round one runner after the other."""
    answers: dict[str, list[Answer]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, run in runners.items():
            answers[name].append(run())
    return answers


def ratio(ours: Sequence[float], others: Sequence[float]) -> tuple[float, float, float]:
    """Median, smallest and largest over rounds of ours / theirs; both measured in the same round.

    ValueError where they were not measured equally often.
    """
    each = [own / other for own, other in zip(ours, others, strict=True)]
    return statistics.median(each), min(each), max(each)
