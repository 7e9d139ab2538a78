"""The records of a run: metrics, times, samples, prompt_scores (.jsonl), record.json.

`mirrors` sends them to W&B, TensorBoard and trackio, too.
"""

import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from cory.config import Config, require
from cory.episode import Episode, Metrics, reward_columns
from cory.runs.jsonl import JsonlStore, Line, unwritten
from cory.runs.mirrors.mirror import Mirror, mirrors_of
from cory.runs.provenance import changed_files, device_name, git, memory_used, versions
from cory.runs.run_dir import (
    METRICS,
    RECORD,
    SAMPLES,
    SCORES,
    TIMES,
    line_of,
    write_whole,
)
from cory.runs.stored_settings import SETTINGS

ADVICE = "; the same command goes on from the last checkpoint"
# kind of line in samples.jsonl; evaluation/ and runtime/untrained.py write the others
TRAINING = "training"


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

    def sync(self) -> None:
        """Return once everything logged is on the disk itself."""

    def finish(self) -> None:
        """Mark the run as complete."""

    def close(self) -> None:
        """Close files and connections, whether or not the run finished."""


class Recorder(Record):
    """Writes a run's records; lines are on disk as soon as they are logged."""

    def __init__(
        self,
        run_dir: Path,
        config: Config,
        used_before: int,
        sources: Mapping[str, str] | None = None,
    ) -> None:
        """used_before: `memory_used` before anything was loaded.

        sources: hashes of files of the user's own that the run executes, by the function in them
        """
        self.used_before = used_before
        self.run_dir = run_dir
        self.config = config
        self.opened = time.time()
        self.began, self.earlier_s = self.opened, 0.0
        # of the start: the checkout may change while the run lasts
        self.commit = git("rev-parse", "HEAD")
        # docs and results may change while a sweep goes on; the code that runs may not
        self.clean = changed_files() == ""
        # what was executed -> its version at every start of this run, each once
        self.code = {name: [version] for name, version in (sources or {}).items()}
        self.code["cory"] = [self.commit or "unknown"]
        self.packages = versions()
        self.stores: dict[str, JsonlStore] = {}
        self.sizes: dict[str, int] = {}  # bytes of each file that a checkpoint relies on
        self.mirrors: list[Mirror] = []
        self.last: Metrics = {}

    def start(self, done: int, state: dict[str, Any] | None) -> int:
        """Open the records, cut back to their first `done` iterations.

        Later lines will be written again. The last of these iterations may be in the checkpoint
        but not in the log: then its evaluation is dropped, too.

        returns: how many iterations are logged
        """
        if state is not None:
            self.began, self.earlier_s = state["began"], state["wall_s"]
            self.clean = self.clean and state["clean"]
            print(f"{self.run_dir}: resumed after iteration {done}", flush=True)
            self._add_versions(state["code"])
            self.sizes = state["sizes"]
        begun = state is not None  # else the evaluation before the training is logged again, too
        lines = self._open(METRICS, lambda line: line["iteration"] < done)
        logged = len(lines)
        require(
            done - 1 <= logged <= done,
            f"{self.run_dir / METRICS} has {logged} of the {done} iterations before the newest "
            f"checkpoint; its numbers are lost, so delete {self.run_dir} to start again",
        )
        self._open(TIMES, lambda line: line["iteration"] < logged)
        self._open(
            SAMPLES,
            lambda line: (
                begun and line["iteration"] < (done if line["kind"] == TRAINING else logged)
            ),
        )
        self._open(SCORES, lambda line: begun and line["iteration"] < logged)
        (self.run_dir / RECORD).unlink(missing_ok=True)  # of a finished run that goes on
        for line in lines:
            self.last |= {key: value for key, value in line.items() if key != "iteration"}
        self.mirrors = mirrors_of(self.config, self.run_dir, self.commit, logged)
        return logged

    def _open(self, name: str, counts: Callable[[Line], bool]) -> list[Line]:
        """Cut a file back to the sound lines that count, and open it for more; those lines.

        ConfigError where the part that the checkpoint relies on is damaged, or not there.
        """
        store = self.stores[name] = JsonlStore(self.run_dir / name, ADVICE, sync_each=False)
        rows, _ = store.read()
        kept, sound = [], 0
        for row in rows:
            try:
                line = line_of(row)
                counted = counts(line)
            except (ValueError, LookupError, TypeError):  # damaged, and so all that follows
                break
            sound += len(row) + 1
            if counted:
                kept.append((row, line))
        require(
            sound >= self.sizes.get(name, 0),
            f"{store.path} is not what the run has written: of the {self.sizes.get(name, 0)} bytes "
            f"before the newest checkpoint only {sound} can be read; put them back, or delete "
            f"{self.run_dir} to start again",
        )
        store.open([row for row, _ in kept])
        return [line for _, line in kept]

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

    def sync(self) -> None:
        """Return once the records are on the disk itself; a checkpoint relies on them."""
        for store in self.stores.values():
            store.sync()

    def state_dict(self) -> dict[str, Any]:
        """Start time, seconds of work and versions of the code so far; the length of each file."""
        return {
            "sizes": {name: store.size for name, store in self.stores.items()},
            "began": self.began,
            "wall_s": self._wall_s(),
            "code": self.code,
            "clean": self.clean,
        }

    def _add_versions(self, before: Mapping[str, list[str]]) -> None:
        """Put the versions of earlier starts before those of this one, each once."""
        for name, (own,) in self.code.items():
            earlier = before.get(name, [])
            if earlier and own not in earlier:
                print(f"note: {self.run_dir} was begun with another {name}", file=sys.stderr)
            self.code[name] = [*(one for one in earlier if one != own), own]

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        """Episodes as text, one line each, with scores and credits."""
        for episode in episodes:
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
            line = {
                "iteration": iteration,
                "kind": TRAINING,
                "prompt_id": episode.prompt.id,
                "prompt": episode.prompt.text,
                "turns": turns,
            }
            self.stores[SAMPLES].append([line])
        for mirror in self.mirrors:
            mirror.log_samples(iteration, episodes)

    def log_lines(self, lines: list[Line]) -> None:
        """Lines of samples.jsonl as they are."""
        self.stores[SAMPLES].append(lines)

    def log_scores(self, line: Line) -> None:
        """A line of prompt_scores.jsonl."""
        self.stores[SCORES].append([line])

    def finish(self) -> None:
        """Write record.json, which marks the run as complete, once all else is on the disk."""
        self.sync()
        settings = (self.run_dir / SETTINGS).read_bytes()
        record = {
            "experiment": self.config.experiment,
            "sweep": self.config.sweep,
            "scale": self.config.scale,
            "seed": self.config.seed,
            "iterations": self.config.algorithm.iterations,
            "final": self.last,
            "commit": self.commit,
            "code": self.code,
            "clean": self.clean and len(self.code["cory"]) == 1,
            "settings_sha256": hashlib.sha256(settings).hexdigest(),
            "packages": self.packages,
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
        try:
            write_whole(self.run_dir / RECORD, json.dumps(record, indent=1) + "\n")
        except OSError as error:
            raise unwritten(self.run_dir / RECORD, error, ADVICE) from error

    def close(self) -> None:
        """Close the files and the mirrors, whether or not the run finished."""
        for store in self.stores.values():
            store.close()
        for mirror in self.mirrors:
            mirror.finish()

    def _wall_s(self) -> float:
        """Seconds of work over all starts, without the time in between."""
        return self.earlier_s + time.time() - self.opened
