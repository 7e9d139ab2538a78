"""`python -m cory.train` in processes of its own, and what runs on their behalf."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 150  # seconds; on a busy machine imports alone may take half a minute


def short_settings(model: str, judge: str, reviews: Path) -> list[str]:
    """Settings with which an iteration takes a fraction of a second."""
    return [
        f"model.path={model}",
        f"reward.path={judge}",
        "task.source=path",
        f"task.path={reviews}",
        "task.train_split='train[:80%]'",
        "task.test_split='train[80%:]'",
        "task.min_characters=1",
        "task.max_prompt_tokens=4",
        "task.observer_template='{answers}: {query}'",
        "algorithm=ppo",
        "algorithm.iterations=2",
        "algorithm.prompts_per_iteration=8",
        "algorithm.minibatch_size=8",
        "algorithm.sampling.min_response_tokens=4",
        "algorithm.sampling.max_response_tokens=6",
        "evaluation.prompts=8",
    ]


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


class Command(Said):
    """One started command, as users start it."""

    def __init__(self, cwd: Path, words: list[str], **environment: str) -> None:
        super().__init__(cwd)
        self.began = time.monotonic()
        with self.out_file.open("w") as out, self.err_file.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                cwd=cwd,
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    "PYTHONPATH": str(ROOT),
                    **environment,
                },
                stdout=out,
                stderr=err,
            )

    def wait(self, timeout: float = PATIENCE) -> int:
        """Its exit code."""
        return self.process.wait(timeout)


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


def workers(run_dir: Path) -> dict[int, int]:
    """Process ids by rank of what runs for a run directory; rank -1: what starts several."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # ended just now
            continue
        if str(run_dir).encode() not in words or b"cory.train" in words:
            continue
        ranks = [int(v[5:]) for v in variables if v.startswith(b"RANK=")]
        alone = -1 if b"cory.runtime.torchrun" in words else 0
        found[ranks[0] if ranks else alone] = int(folder.name)
    return found
