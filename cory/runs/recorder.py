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
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from cory import distributed
from cory.config import Config, require
from cory.episode import Episode, Metrics, reward_columns
from cory.runs.files import Line, append_lines, keep_lines, unwritten, whole_lines, write_whole
from cory.runs.mirrors import Mirror, mirrors_of
from cory.runs.run_dir import METRICS, RECORD, SAMPLES, SCORES, TIMES

TRAINING = "training"  # kind of line in samples.jsonl; evaluation/ and the loop write the others
PACKAGES = (  # that results depend on
    "cory", "torch", "transformers", "deepspeed", "peft", "bitsandbytes", "hydra-core", "omegaconf",
    "datasets", "wandb", "numpy",
)  # fmt: skip
TURN = ("agent", "role", "round", "context", "response", "score", "credit")  # in samples.jsonl
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
        self.mirrors: list[Mirror] = []
        self.last: Metrics = {}

    def start(self, done: int, state: dict[str, Any] | None) -> None:
        """Begin the records, or cut them back to what they were when a checkpoint was written.

        done: iterations before the checkpoint; state: of `state_dict`; None at the beginning
        ConfigError where less is there than the checkpoint relies on.
        """
        if not self.writes:
            return
        sizes = dict.fromkeys(FILES, 0)
        print(f"run in {self.run_dir}", flush=True)  # cory/notebook.py reads it
        if state is not None:
            self.began, self.earlier_s, self.last = state["began"], state["wall_s"], state["last"]
            self.clean = self.clean and state["clean"] and state["commit"] == self.commit
            sizes = state["sizes"]
            print(f"resumed after iteration {done}", flush=True)
        kept = {}
        for name, size in sizes.items():
            path = self.run_dir / name
            content = kept[path] = whole_lines(path)[:size]
            require(
                len(content) == size,
                f"{path} is not what the run has written: of the {size} bytes before the newest "
                f"checkpoint only {len(content)} are there; put them back, or delete the folder "
                f"to start again",
            )
        for path, content in kept.items():
            keep_lines(path, content)
        (self.run_dir / RECORD).unlink(missing_ok=True)  # of a finished run that goes on
        logged = kept[self.run_dir / METRICS].count(b"\n")
        self.mirrors = mirrors_of(self.config, self.run_dir, self.commit, logged)

    def log(self, iteration: int, metrics: Metrics) -> None:
        """A line of metrics.jsonl and one of times.jsonl, and both to the mirrors.

        Times are apart so that metrics.jsonl is the same, byte for byte, when a run is repeated.
        """
        times = {key: value for key, value in metrics.items() if key.startswith("time/")}
        numbers = {key: value for key, value in metrics.items() if key not in times}
        self.last |= numbers
        self._mirror(lambda mirror: mirror.log(iteration, metrics))
        if times:
            self._append(TIMES, [{"iteration": iteration, **times}])
        # it marks the iteration as done
        self._append(METRICS, [{"iteration": iteration, **numbers}])

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        """Episodes as text, one line each, with scores and credits."""
        self._append(SAMPLES, [sample_line(iteration, episode) for episode in episodes])
        self._mirror(lambda mirror: mirror.log_samples(iteration, episodes))

    def log_lines(self, lines: list[Line]) -> None:
        """Other lines of samples.jsonl, such as an evaluation's responses."""
        self._append(SAMPLES, lines)

    def log_scores(self, line: Line) -> None:
        """A line of prompt_scores.jsonl: what each prompt contributes to an evaluation."""
        self._append(SCORES, [line])

    def _mirror(self, action: Callable[[Mirror], None]) -> None:
        """Let each mirror do this; one that fails gets no more, and the run goes on."""
        for mirror in list(self.mirrors):
            try:
                action(mirror)
            except Exception as error:  # their errors share no class
                distributed.note(f"{type(mirror).__name__} broke and gets no more: {error!r}")
                self.mirrors.remove(mirror)

    def _append(self, name: str, lines: list[Line]) -> None:
        if self.writes:
            append_lines(self.run_dir / name, lines)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: lengths of files, last values, start, seconds, commit."""
        return {
            "sizes": {n: (self.run_dir / n).stat().st_size for n in FILES} if self.writes else {},
            "began": self.began,
            "wall_s": self._wall_s(),
            "last": dict(self.last),
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
        """Close the mirrors, whether or not the run finished."""
        self._mirror(lambda mirror: mirror.close())

    def _wall_s(self) -> float:
        """Seconds of work over all starts, without the time in between."""
        return self.earlier_s + time.time() - self.opened


def sample_line(iteration: int, episode: Episode) -> Line:
    """A training episode as a line of samples.jsonl."""
    turns = [
        {name: getattr(turn, name) for name in TURN}
        | {"response": None if turn.absent else turn.response}
        | reward_columns(turn)
        for turn in episode.turns
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
