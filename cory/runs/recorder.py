"""What a run leaves behind: metrics.jsonl, samples.jsonl, record.json; see mirror.py for W&B."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any, Protocol

import torch

from cory.config import Config, require
from cory.episode import Episode, Metrics
from cory.runs.partial_results import Line, encoded
from cory.runs.provenance import WHAT_RUNS, device_name, git, memory_used, versions
from cory.runs.run_dir import METRICS, RECORD, SAMPLES, SETTINGS, TIMES, WriteError, read_lines
from cory.runs.wandb_mirror import Mirror

TRAINING = "training"  # kind of line in samples.jsonl; evaluation.py writes the others


class Record(Protocol):
    """Where the loop leaves what it finds."""

    def start(self, done: int, state: dict[str, Any] | None) -> int:
        """Begin, or go on after `done` iterations with what `state_dict` gave then.

        returns: how many of them are logged: all, or all but the last
        """
        ...

    def log(self, iteration: int, metrics: Metrics) -> None:
        """The numbers of one iteration."""
        ...

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        """Episodes of the training as text."""
        ...

    def log_lines(self, lines: list[Line]) -> None:
        """What else there is to keep as text, such as an evaluation's responses."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What must survive a restart."""
        ...

    def sync(self) -> None:
        """Return once all that was logged is on the disk itself."""
        ...

    def finish(self) -> None:
        """From now on the run counts as done."""
        ...

    def close(self) -> None:
        """Release what is open, whether or not the run finished."""
        ...


class NoRecord:
    """For all processes but the first, which hold the same numbers."""

    def start(self, done: int, state: dict[str, Any] | None) -> int:
        return 0  # the first process knows

    def log(self, iteration: int, metrics: Metrics) -> None: ...
    def log_samples(self, iteration: int, episodes: list[Episode]) -> None: ...
    def log_lines(self, lines: list[Line]) -> None: ...
    def sync(self) -> None: ...
    def state_dict(self) -> dict[str, Any]:
        return {}

    def finish(self) -> None: ...
    def close(self) -> None: ...


class Recorder:
    """Writes a run's records; lines are on disk as soon as they are logged."""

    def __init__(self, run_dir: Path, config: Config, used_before: int) -> None:
        """used_before: `memory_used` before anything was loaded."""
        self.used_before = used_before
        self.run_dir = run_dir
        self.config = config
        self.opened = time.time()
        self.began, self.earlier_s = self.opened, 0.0
        # as the run starts: the checkout may move on while it lasts
        self.commit = git("rev-parse", "HEAD")
        # results and notes may change while a sweep goes on; what runs may not
        self.clean = git("status", "--porcelain", "--", *WHAT_RUNS) == ""
        self.commits = [self.commit]  # of every start of this run, each once
        self.files: dict[str, IO[str]] = {}
        self.mirror: Mirror | None = None
        self.last: Metrics = {}

    def start(self, done: int, state: dict[str, Any] | None) -> int:
        """Open the records, cut back to their first `done` iterations.

        What was written after the checkpoint that is gone on from will be written again. The last
        of these iterations may be saved and not logged: then nothing of its evaluation counts.

        returns: how many iterations are logged
        """
        if state is not None:
            self.began, self.earlier_s = state["began"], state["wall_s"]
            self.commits = [*state["commits"]]
            self.clean = self.clean and state["clean"]
            print(f"{self.run_dir}: resumed after iteration {done}", flush=True)
            if self.commit not in self.commits:
                self.commits.append(self.commit)
                print(f"note: {self.run_dir} was begun with other code", file=sys.stderr)
        (self.run_dir / RECORD).unlink(missing_ok=True)
        keep_lines(self.run_dir / METRICS, lambda line: line["iteration"] < done)
        lines = read_lines(self.run_dir / METRICS)
        logged = len(lines)
        require(
            done - 1 <= logged <= done,
            f"{self.run_dir / METRICS} has {logged} of the {done} iterations before the newest "
            f"checkpoint; its numbers are lost, so delete {self.run_dir} to start again",
        )
        keep_lines(self.run_dir / TIMES, lambda line: line["iteration"] < logged)
        keep_lines(
            self.run_dir / SAMPLES,
            lambda line: line["iteration"] < (done if line["kind"] == TRAINING else logged),
        )
        for name in (METRICS, TIMES, SAMPLES):
            self.files[name] = (self.run_dir / name).open("a", encoding="utf-8")
        for line in lines:
            self.last |= {key: value for key, value in line.items() if key != "iteration"}
        if self.config.wandb.mode != "disabled":
            self.mirror = Mirror(self.config, self.run_dir, self.commit)
        return logged

    def log(self, iteration: int, metrics: Metrics) -> None:
        """A line of metrics.jsonl and one of times.jsonl, and both to W&B.

        Times are apart so that metrics.jsonl is the same, byte for byte, when a run is repeated.
        """
        times = {key: value for key, value in metrics.items() if key.startswith("time/")}
        numbers = {key: value for key, value in metrics.items() if key not in times}
        self.last |= numbers
        if self.mirror is not None:
            self.mirror.log(iteration, metrics)
        if times:
            self._line(TIMES, {"iteration": iteration, **times})
        # last: with this line the iteration is done
        self._line(METRICS, {"iteration": iteration, **numbers})

    def sync(self) -> None:
        """Return once the records are on the disk itself: before a checkpoint counts on them."""
        for file in self.files.values():
            os.fsync(file.fileno())

    def state_dict(self) -> dict[str, Any]:
        """When the run began, how long it has taken, and with which code."""
        return {
            "began": self.began,
            "wall_s": self._wall_s(),
            "commits": self.commits,
            "clean": self.clean,
        }

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        """Episodes as text, one line each, with scores and credits."""
        for episode in episodes:
            turns = [
                {
                    "agent": t.agent,
                    "role": t.role,
                    "round": t.round,
                    "context": t.context,
                    "response": t.response,
                    "score": t.score,
                    "credit": t.credit,
                }
                for t in episode.turns
            ]
            line = {
                "iteration": iteration,
                "kind": TRAINING,
                "prompt_id": episode.prompt.id,
                "prompt": episode.prompt.text,
                "turns": turns,
            }
            self._line(SAMPLES, line)
        if self.mirror is not None:
            self.mirror.log_samples(iteration, episodes)

    def log_lines(self, lines: list[Line]) -> None:
        """Lines of samples.jsonl as they are."""
        for line in lines:
            self._line(SAMPLES, line)

    def finish(self) -> None:
        """Write record.json: from now on the run counts as done."""
        settings = (self.run_dir / SETTINGS).read_bytes()
        record = {
            "experiment": self.config.experiment,
            "sweep": self.config.sweep,
            "scale": self.config.scale,
            "seed": self.config.seed,
            "iterations": self.config.algorithm.iterations,
            "final": self.last,
            "commit": self.commit,
            "commits": self.commits,
            "clean": self.clean and len(self.commits) == 1,
            "settings_sha256": hashlib.sha256(settings).hexdigest(),
            "packages": versions(),
            "python": platform.python_version(),
            "device": device_name(self.config.hardware.device),
            "threads": torch.get_num_threads(),
            "began": datetime.fromtimestamp(self.began, timezone.utc).isoformat(timespec="seconds"),
            "wall_s": round(self._wall_s(), 1),
            "memory": {
                "before_gib": round(self.used_before / 2**30, 3),
                "peak_gib": round(memory_used(self.config.hardware.device) / 2**30, 3),
            },
        }
        partial = self.run_dir / f"{RECORD}.part"
        partial.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        partial.replace(self.run_dir / RECORD)

    def close(self) -> None:
        """Close the files and the W&B run, whether or not the run finished."""
        for file in self.files.values():
            with contextlib.suppress(OSError):  # what had no room was said when it was written
                file.close()
        if self.mirror is not None:
            self.mirror.finish()

    def _wall_s(self) -> float:
        """Seconds of work, starts and pauses in between left out."""
        return self.earlier_s + time.time() - self.opened

    def _line(self, name: str, fields: dict[str, Any]) -> None:
        file = self.files[name]
        try:
            file.write(encoded(fields))
            file.flush()
        except OSError as error:
            raise WriteError(
                f"{self.run_dir / name} cannot be written ({error.strerror}); "
                f"the same command goes on from the last checkpoint"
            ) from error


def keep_lines(path: Path, counts: Callable[[Line], bool]) -> None:
    """Cut a .jsonl file back to the lines that count; a torn line goes too."""
    kept = []
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            try:
                if counts(json.loads(line)):
                    kept.append(line)
            except ValueError:  # the last line, when the run was killed while writing it
                continue
    partial = path.with_name(f"{path.name}.part")
    partial.write_bytes(b"".join(kept))
    partial.replace(path)
