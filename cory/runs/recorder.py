"""The records of a run: metrics, times, samples, prompt_scores (.jsonl), record.json.

`mirrors` sends them to W&B, TensorBoard and trackio, too.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from cory.config import Config, require
from cory.episode import Episode, Metrics, reward_columns
from cory.runs.files import JsonlStore, Line, line_of, unwritten, write_whole
from cory.runs.mirrors import Mirror, mirrors_of
from cory.runs.run_dir import METRICS, RECORD, SAMPLES, SCORES, TIMES

TRAINING = "training"  # kind of line in samples.jsonl; evaluation/ and the loop write the others
PACKAGES = (  # that results depend on
    "cory", "torch", "transformers", "deepspeed", "peft", "bitsandbytes", "hydra-core", "omegaconf",
    "datasets", "wandb", "numpy",
)  # fmt: skip
WHAT_RUNS = (":/cory", ":/conf", ":/pyproject.toml")  # docs and results do not count


class Record:
    """What the loop logs to; it keeps nothing: all processes but the first have one like this."""

    def start(self, done: int, state: dict[str, Any] | None) -> int:
        """Begin, or go on after `done` iterations.

        state: of `state_dict`, as it was then; None at the beginning
        returns: how many of these iterations are logged: all, or all but the last; of the first
            process, whose number counts for all
        """
        return 0

    def log(self, iteration: int, metrics: Metrics) -> None:
        """The metrics of one iteration."""

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        """Keep training episodes as text."""

    def log_lines(self, lines: list[Line]) -> None:
        """Keep other lines of samples.jsonl, such as an evaluation's responses."""

    def log_scores(self, line: Line) -> None:
        """Keep what each prompt contributes to an evaluation's metrics."""

    def state_dict(self) -> dict[str, Any]:
        """The state that a checkpoint keeps."""
        return {}

    def finish(self) -> None:
        """Mark the run as complete."""

    def close(self) -> None:
        """Close files and connections, whether or not the run finished."""


class Recorder(Record):
    """Writes a run's records; lines are on the disk itself as soon as they are logged."""

    def __init__(self, run_dir: Path, config: Config, used_before: int) -> None:
        """used_before: `memory_used` before anything was loaded."""
        self.used_before = used_before
        self.run_dir = run_dir
        self.config = config
        self.opened = time.time()
        self.began, self.earlier_s = self.opened, 0.0
        # of the start: the checkout may change while the run lasts
        self.commit = git("rev-parse", "HEAD")
        self.clean = git("status", "--porcelain", "--", *WHAT_RUNS) == ""
        self.stores: dict[str, JsonlStore] = {}
        self.mirrors: list[Mirror] = []
        self.last: Metrics = {}

    def start(self, done: int, state: dict[str, Any] | None) -> int:
        """Open the records, cut back to their first `done` iterations.

        Later lines will be written again. The last of these iterations may be in the checkpoint
        but not in the log: then its evaluation is dropped, too.

        returns: how many iterations are logged
        """
        sizes = {}
        if state is not None:
            self.began, self.earlier_s = state["began"], state["wall_s"]
            self.clean = self.clean and state["clean"] and state["commit"] == self.commit
            sizes = state["sizes"]
            print(f"{self.run_dir}: resumed after iteration {done}", flush=True)
        begun = state is not None  # else the evaluation before the training is logged again, too
        lines = self._open(METRICS, sizes, lambda line: line["iteration"] < done)
        logged = len(lines)
        require(
            done - 1 <= logged <= done,
            f"{self.run_dir / METRICS} has {logged} of the {done} iterations before the newest "
            f"checkpoint; its numbers are lost, so delete {self.run_dir} to start again",
        )
        self._open(TIMES, sizes, lambda line: line["iteration"] < logged)
        self._open(
            SAMPLES,
            sizes,
            lambda line: (
                begun and line["iteration"] < (done if line["kind"] == TRAINING else logged)
            ),
        )
        self._open(SCORES, sizes, lambda line: begun and line["iteration"] < logged)
        (self.run_dir / RECORD).unlink(missing_ok=True)  # of a finished run that goes on
        for line in lines:
            self.last |= {key: value for key, value in line.items() if key != "iteration"}
        self.mirrors = mirrors_of(self.config, self.run_dir, self.commit, logged)
        return logged

    def _open(self, name: str, sizes: dict[str, int], counts: Callable[[Line], bool]) -> list[Line]:
        """Cut a file back to the sound lines that count, and open it for more; those lines.

        sizes: bytes of each file that the checkpoint relies on; ConfigError where they are damaged
        """
        store = self.stores[name] = JsonlStore(self.run_dir / name)
        kept, lines, sound = [], [], 0
        with suppress(ValueError, LookupError, TypeError):  # damaged, and so all that follows
            for row in store.read():
                line = line_of(row)
                if counts(line):
                    kept.append(row)
                    lines.append(line)
                sound += len(row) + 1
        size = sizes.get(name, 0)
        require(
            sound >= size,
            f"{store.path} is not what the run has written: of the {size} bytes before the newest "
            f"checkpoint only {sound} can be read; put them back, or delete {self.run_dir} to "
            f"start again",
        )
        store.open(kept)
        return lines

    def log(self, iteration: int, metrics: Metrics) -> None:
        """A line of metrics.jsonl and one of times.jsonl, and both to the mirrors.

        Times are apart so that metrics.jsonl is the same, byte for byte, when a run is repeated.
        """
        times = {key: value for key, value in metrics.items() if key.startswith("time/")}
        numbers = {key: value for key, value in metrics.items() if key not in times}
        self.last |= numbers
        for mirror in self.mirrors:
            mirror.log(iteration, metrics)
        if times:
            self.stores[TIMES].append([{"iteration": iteration, **times}])
        # it marks the iteration as done
        self.stores[METRICS].append([{"iteration": iteration, **numbers}])

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        """Episodes as text, one line each, with scores and credits."""
        self.stores[SAMPLES].append(sample_line(iteration, episode) for episode in episodes)
        for mirror in self.mirrors:
            mirror.log_samples(iteration, episodes)

    def log_lines(self, lines: list[Line]) -> None:
        """Lines of samples.jsonl as they are."""
        self.stores[SAMPLES].append(lines)

    def log_scores(self, line: Line) -> None:
        """A line of prompt_scores.jsonl."""
        self.stores[SCORES].append([line])

    def state_dict(self) -> dict[str, Any]:
        """Length of each file; start time, seconds of work and version of the code so far."""
        return {
            "sizes": {name: store.size for name, store in self.stores.items()},
            "began": self.began,
            "wall_s": self._wall_s(),
            "commit": self.commit,
            "clean": self.clean,
        }

    def finish(self) -> None:
        """Write record.json, which marks the run as complete."""
        config = self.config
        record = {
            "experiment": config.experiment,
            "sweep": config.sweep,
            "scale": config.scale,
            "seed": config.seed,
            "iterations": config.algorithm.iterations,
            "final": self.last,
            "commit": self.commit,
            "clean": self.clean,
            "packages": {package: installed_version(package) for package in PACKAGES},
            "python": platform.python_version(),
            "device": device_name(config.hardware.device),
            "threads": torch.get_num_threads(),
            "began": datetime.fromtimestamp(self.began, timezone.utc).isoformat(timespec="seconds"),
            "wall_s": round(self._wall_s(), 1),
            "memory": {
                "before_gib": round(self.used_before / 2**30, 3),
                "peak_gib": round(memory_used(config.hardware.device) / 2**30, 3),
            },
        }
        try:
            write_whole(self.run_dir / RECORD, json.dumps(record, indent=1) + "\n")
        except OSError as error:
            raise unwritten(self.run_dir / RECORD, error) from error

    def close(self) -> None:
        """Close the files and the mirrors, whether or not the run finished."""
        for store in self.stores.values():
            store.close()
        for mirror in self.mirrors:
            mirror.close()

    def _wall_s(self) -> float:
        """Seconds of work over all starts, without the time in between."""
        return self.earlier_s + time.time() - self.opened


def sample_line(iteration: int, episode: Episode) -> Line:
    """A training episode as a line of samples.jsonl."""
    turns = [
        {
            "agent": t.agent,
            "role": t.role,
            "round": t.round,
            "context": t.context,
            "response": None if t.absent else t.response,
            "score": t.score,
            "credit": t.credit,
        }
        | reward_columns(t)
        for t in episode.turns
    ]
    return {
        "iteration": iteration,
        "kind": TRAINING,
        "prompt_id": episode.prompt.id,
        "prompt": episode.prompt.text,
        "turns": turns,
    }


def git(*words: str) -> str | None:
    """Output of a git command in the checkout that this package runs from; None outside one."""
    here = Path(__file__).resolve()
    git = ("git", "-C", str(here.parent))
    # an installed copy may lie inside a checkout of something else
    ours = ("ls-files", "--error-unmatch", here.name)
    try:
        for command in (ours, words):
            answer = subprocess.run([*git, *command], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


def installed_version(package: str) -> str | None:
    """The version of a package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def device_name(device: str) -> str:
    """The name of the processor or accelerator that a run uses."""
    if device == "cuda":
        return str(torch.cuda.get_device_name())
    return f"CPU {platform.machine()}, {os.cpu_count()} cores"


def memory_used(device: str) -> int:
    """Peak memory of this process so far, bytes: of the GPU, or of main memory."""
    if device == "cuda":
        return int(torch.cuda.max_memory_allocated())
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # bytes there, KiB elsewhere
