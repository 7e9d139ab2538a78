"""The records of a run: metrics, times, samples, prompt_scores (.jsonl), record.json.

`mirrors` sends them to W&B, TensorBoard and trackio, too.
"""

import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from cory import distributed
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
FILES = (METRICS, TIMES, SAMPLES, SCORES)
WHAT_RUNS = (":/cory", ":/conf", ":/pyproject.toml")  # docs and results do not count


class Recorder:
    """Writes a run's records; lines are on the disk itself as soon as they are logged.

    Only the first process writes; the others have one that does nothing.
    """

    def __init__(self, run_dir: Path, config: Config, used_before: int = 0) -> None:
        """used_before: `memory_used` before anything was loaded."""
        self.writes = distributed.rank() == 0
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
        """Open the records, cut back to their first `done` iterations; later lines come again.

        The last of these may be in the checkpoint but not in the log, where its line comes last:
        then its evaluation is dropped, too.

        done: iterations before the checkpoint
        state: of `state_dict`, as it was then; None at the beginning
        returns: how many of these iterations are logged: all, or all but the last; of the first
            process, whose number counts for all
        """
        if not self.writes:
            return 0
        sizes = {}
        if state is not None:
            self.began, self.earlier_s, self.last = state["began"], state["wall_s"], state["last"]
            self.clean = self.clean and state["clean"] and state["commit"] == self.commit
            sizes = state["sizes"]
            print(f"{self.run_dir}: resumed after iteration {done}", flush=True)
        kept, later = {}, {}
        for name in FILES:
            kept[name], rows = self._parts(name, sizes.get(name, 0))
            later[name] = [row for row in rows if state and _iteration(row) < done]
        for name, content in kept.items():
            self.stores[name].open(b"".join([content, *(later[name] if later[METRICS] else ())]))
        for row in later[METRICS]:
            self.last |= {key: value for key, value in line_of(row).items() if key != "iteration"}
        logged = kept[METRICS].count(b"\n") + len(later[METRICS])
        require(
            done - 1 <= logged <= done,
            f"{self.run_dir / METRICS} has {logged} of the {done} iterations before the newest "
            f"checkpoint; its numbers are lost, so delete {self.run_dir} to start again",
        )
        (self.run_dir / RECORD).unlink(missing_ok=True)  # of a finished run that goes on
        self.mirrors = mirrors_of(self.config, self.run_dir, self.commit, logged)
        return logged

    def _parts(self, name: str, size: int) -> tuple[bytes, list[bytes]]:
        """The first `size` bytes of a file, on which a checkpoint relies, and later lines."""
        store = self.stores[name] = JsonlStore(self.run_dir / name)
        content = store.read()
        require(
            len(content) >= size,
            f"{store.path} is not what the run has written: of the {size} bytes before the newest "
            f"checkpoint only {len(content)} are there; put them back, or delete {self.run_dir} to "
            f"start again",
        )
        return content[:size], content[size:].splitlines(keepends=True)

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
            self._append(TIMES, [{"iteration": iteration, **times}])
        # it marks the iteration as done
        self._append(METRICS, [{"iteration": iteration, **numbers}])

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        """Episodes as text, one line each, with scores and credits."""
        self._append(SAMPLES, [sample_line(iteration, episode) for episode in episodes])
        for mirror in self.mirrors:
            mirror.log_samples(iteration, episodes)

    def log_lines(self, lines: list[Line]) -> None:
        """Other lines of samples.jsonl, such as an evaluation's responses."""
        self._append(SAMPLES, lines)

    def log_scores(self, line: Line) -> None:
        """A line of prompt_scores.jsonl: what each prompt contributes to an evaluation."""
        self._append(SCORES, [line])

    def _append(self, name: str, lines: list[Line]) -> None:
        if self.writes:
            self.stores[name].append(lines)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: lengths of files, last values, start, seconds, commit."""
        return {
            "sizes": {name: store.size for name, store in self.stores.items()},
            "began": self.began,
            "wall_s": self._wall_s(),
            "last": self.last,
            "commit": self.commit,
            "clean": self.clean,
        }

    def finish(self) -> None:
        """Write record.json, which marks the run as complete."""
        if not self.writes:
            return
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


def _iteration(row: bytes) -> float:
    """The iteration that a line is of; a damaged one is of none that is kept."""
    try:
        return float(line_of(row)["iteration"])
    except (ValueError, LookupError, TypeError):
        return math.inf


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
