"""`from cory import run`: train from a notebook or a program, as the command does.

The run works in a process of its own, which the command would start, too: whatever happens to it,
the notebook lives on. What it prints appears where this process prints.
"""

import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TextIO

import numpy as np
import pandas as pd
from omegaconf import DictConfig

from cory.config import ConfigError, require
from cory.runs.extension import undo_refused
from cory.runs.lock import lock
from cory.runs.run_dir import (
    METRICS,
    SAMPLES,
    TIMES,
    read_lines,
    read_record,
    unfinished_run,
)
from cory.runtime.before import parsed, refuse_early
from cory.runtime.hydra_options import refuse_same_names
from cory.runtime.launch import launch, stop_code, stoppable
from cory.train import (
    CONF,
    compose_or_refuse,
    expand_home,
    prepare_run_dir,
    with_folder,
)

PLAIN = re.compile(r"[A-Za-z_/][\w./:@+-]*")  # a text that Hydra takes without quotes
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
    def samples(self) -> list[dict[str, Any]]:
        """samples.jsonl: some training episodes and all responses of evaluations."""
        return read_lines(self.run_dir / SAMPLES)

    @cached_property
    def record(self) -> dict[str, Any]:
        """record.json: final metrics, versions, device, time."""
        return read_record(self.run_dir) or {}

    def agents(self, **how: Any) -> Any:
        """The trained agents, as `load_agents` gives them; how: its other arguments."""
        return import_module("cory").load_agents(self.run_dir, **how)


def run(
    *overrides: str | Sequence[str] | Mapping[str, Any], config_dir: str | Path | None = None
) -> FinishedRun:
    """Train as `python -m cory.train` does with these words, and return what the run has left.

    overrides: words of the command line, lists of them, or dicts of settings and values
    config_dir: a folder with options of your own, as --config-dir
    A run that was interrupted goes on with the same call. ConfigError: the run was refused, a line
    for each reason. RunFailed: it had begun. KeyboardInterrupt: it was asked to stop (the first
    time that the notebook is interrupted) and has saved.
    """
    words = words_of(overrides)
    cfg = composed(words, config_dir)
    words = [*with_folder(None if config_dir is None else Path(config_dir)), *words]
    expand_home(cfg)
    config = parsed(cfg)
    require(
        config.hardware.nodes == 1,
        "run() trains on this machine: hardware.nodes above 1 is for the command",
    )
    run_dir = Path(config.run_dir)
    listens = threading.current_thread() is threading.main_thread()
    refuse_early(run_dir, config)
    with lock(run_dir) as held, stoppable(listens):
        if not prepare_run_dir(run_dir, cfg, config, None, words):
            return FinishedRun(run_dir)
        with shown(sys.stdout) as (out, _), shown(sys.stderr) as (err, said):
            finished = launch(run_dir, config.hardware, held, out, err)
        if finished:
            return FinishedRun(run_dir)
        stopped = stop_code() is not None
        begun = (run_dir / METRICS).exists() or stopped
        if not stopped:
            undo_refused(run_dir)
    if stopped:
        raise KeyboardInterrupt(f"the run in {run_dir} has saved; the same call goes on with it")
    raise failure(run_dir, said, begun)


def failure(run_dir: Path, said: Sequence[str], begun: bool) -> Exception:
    """What a run that was not finished is said to have ended with."""
    errors = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
    if errors and not begun:
        return ConfigError("\n".join(errors))
    return RunFailed("\n".join(errors or [f"{run_dir}:", *said[-LAST_LINES:]]))


def words_of(overrides: Sequence[str | Sequence[str] | Mapping[str, Any]]) -> list[str]:
    """The words on the command line that stand for these overrides."""
    words: list[str] = []
    for given in overrides:
        if isinstance(given, str):
            words.append(given)
        elif isinstance(given, Mapping):
            words += [f"{key}={written(value)}" for key, value in given.items()]
        else:
            words += words_of(given)
    for word in words:
        require(
            "=" in word and not word.startswith("-"),
            f"run() takes settings as key=value, got '{word}'",
        )
    return words


def written(value: Any) -> str:
    """A value as Hydra reads it on the command line."""
    if isinstance(value, np.generic):  # whose repr names its type; exact also from float32
        value = value.item()
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(written, value))}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{written(own)}" for key, own in value.items()) + "}"
    text = str(value)
    if PLAIN.fullmatch(text) and text.lower() not in ("null", "true", "false", "nan", "inf"):
        return text
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def composed(words: list[str], config_dir: str | Path | None) -> DictConfig:
    """The settings; `run_dir` as the command chooses it unless a word names one."""
    named = [word.partition("=")[0].lstrip("+") for word in words]
    require(
        "sweep" not in named,
        "run() makes one run; for a sweep call it in a loop, or use the command",
    )
    own = []
    if config_dir is not None:
        folder = Path(config_dir).expanduser().resolve()
        require(folder.is_dir(), f"config_dir={config_dir}: there is no such folder")
        refuse_same_names(folder, CONF)
        own = [f"hydra.searchpath=[file://{folder}]"]
    cfg = compose_or_refuse(*words, *own)
    if "run_dir" not in named:
        now = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        run_dir = Path.cwd() / "outputs" / cfg.experiment / f"{now}_seed{cfg.seed}"
        cfg.run_dir = str(unfinished_run(run_dir, cfg) or run_dir)
    return cfg


@contextmanager
def shown(stream: TextIO) -> Iterator[tuple[IO[bytes], list[str]]]:
    """A file for a process to write to, and the last lines that it wrote; they go to `stream`.

    A notebook's streams are no files, which a process could be given.
    """
    lines: list[str] = []
    reader, writer = os.pipe()

    def pass_on() -> None:
        with open(reader, encoding="utf-8", errors="replace", newline="") as file:
            for line in file:
                stream.write(line)
                stream.flush()
                lines.append(line.rstrip())
                del lines[:-LAST_LINES]

    thread = threading.Thread(target=pass_on, daemon=True)
    thread.start()
    with open(writer, "wb") as file:
        yield file, lines
    thread.join(timeout=5)  # a process that outlives the run may hold the pipe
