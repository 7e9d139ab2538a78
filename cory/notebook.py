"""`from cory import run`: train from a notebook or a program, as the command does.

The command runs in a process of its own: whatever happens to it, the notebook lives on. What it
prints appears where this process prints.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cory.config import ConfigError, require
from cory.runs.files import read_lines
from cory.runs.run_dir import METRICS, SAMPLES, TIMES, read_record

PLAIN = re.compile(r"[A-Za-z_/][\w./:@+-]*", re.ASCII)  # a text that Hydra takes without quotes
# how the command names the run's directory, once it has begun or where it is finished
RUN = re.compile(r"run in (.+)|(.+) is complete; delete it to run it again")
LAST_LINES = 30  # of what a failed run said


class RunFailed(RuntimeError):
    """A run that had begun and did not finish; what it said last."""


@dataclass(frozen=True)
class FinishedRun:
    """What a finished run has left in its directory."""

    run_dir: Path

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """metrics.jsonl: a row per iteration, a column per metric of docs/metrics.md."""
        return pd.DataFrame(read_lines(self.run_dir / METRICS))

    @cached_property
    def times(self) -> pd.DataFrame:
        """times.jsonl: a row per iteration, seconds by phase."""
        return pd.DataFrame(read_lines(self.run_dir / TIMES))

    @cached_property
    def before_after(self) -> pd.DataFrame:
        """What training changed: a row per metric, with the interval of the change over prompts."""
        return import_module("cory.report.summary").before_after(self.run_dir)

    @cached_property
    def samples(self) -> list[dict[str, Any]]:
        """samples.jsonl: some training episodes and all responses of evaluations."""
        return read_lines(self.run_dir / SAMPLES)

    @cached_property
    def record(self) -> dict[str, Any]:
        """record.json: final metrics, versions, device, time."""
        return read_record(self.run_dir) or {}

    def team(self, **how: Any) -> Any:
        """The trained agents, as `load_team` gives them; how: its other arguments."""
        return import_module("cory").load_team(self.run_dir, **how)


def run(*overrides: str | Mapping[str, Any], config_dir: str | Path | None = None) -> FinishedRun:
    """Train as `python -m cory.train` does with these words, and return what the run has left.

    overrides: words of the command line, or dicts of settings and values
    config_dir: a folder with options of your own, as --config-dir
    A run that was interrupted goes on with the same call. ConfigError: the run was refused, a line
    for each reason. RunFailed: it had begun. KeyboardInterrupt: it was asked to stop (the first
    time that the notebook is interrupted) and has saved.
    """
    words = words_of(overrides)
    if config_dir is not None:
        words.insert(0, f"--config-dir={Path(config_dir).expanduser().absolute()}")
    process = subprocess.Popen(
        [sys.executable, "-m", "cory.train", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # a Ctrl-C on a terminal reaches this process alone
    )
    assert process.stdout is not None
    # a bar that is drawn anew ends with a carriage return, which stays
    printed = TextIOWrapper(process.stdout, "utf-8", "replace", newline="")
    lines: list[str] = []
    stopped = False
    try:
        try:
            show(printed, lines)
        except KeyboardInterrupt:
            stopped = True
            process.send_signal(signal.SIGINT)
            show(printed, lines)
        code = process.wait()
    finally:
        if process.poll() is None:
            process.kill()
    said = [match[1] or match[2] for match in map(RUN.fullmatch, lines) if match]
    if code == 0:
        return FinishedRun(Path(said[0]))
    if stopped:
        raise KeyboardInterrupt(f"{' '.join(said)} has saved; the same call goes on with it")
    last = lines[-LAST_LINES:]
    errors = [line.removeprefix("error: ") for line in last if line.startswith("error: ")]
    kind = ConfigError if errors and not said else RunFailed
    raise kind("\n".join(errors or last))


def show(printed: Iterable[str], lines: list[str]) -> None:
    """Print what comes from a process, and keep its lines."""
    for line in printed:
        print(line, end="", flush=True)
        lines.append(line.rstrip())


def words_of(overrides: Sequence[str | Mapping[str, Any]]) -> list[str]:
    """The words on the command line that stand for these overrides."""
    words: list[str] = []
    for given in overrides:
        if isinstance(given, str):
            words.append(given)
        else:
            words += [f"{key}={written(value)}" for key, value in given.items()]
    for word in words:
        require(
            ("=" in word or word.startswith("~")) and not word.startswith(("-", "sweep=")),
            f"run() makes one run of settings as key=value, got '{word}'",
        )
    return words


def written(value: Any) -> str:
    """A value as Hydra reads it on the command line."""
    if isinstance(value, np.generic):  # whose repr names its type; exact also from float32
        value = value.item()
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(written, value))}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{written(own)}" for key, own in value.items()) + "}"
    text = str(value)
    if PLAIN.fullmatch(text) and text.lower() not in ("null", "true", "false", "nan", "inf"):
        return text
    # to Hydra a backslash is one of a pair only before a quote
    escaped = re.sub(r"\\+(?='|\Z)", r"\g<0>\g<0>", text).replace("'", r"\'")
    return f"'{escaped}'"
