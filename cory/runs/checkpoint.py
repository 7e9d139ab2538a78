"""Checkpoints: the full state of a run, from which it resumes as if it had never stopped.

`checkpoints/000010/` is the state after ten iterations. A checkpoint is written under another name
and then renamed, so it is there whole or not at all; a manifest of hashes reveals damage.
"""

import json
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from cory import distributed
from cory.config import ConfigError, HardwareConfig, require
from cory.models.loading import load_plain
from cory.models.policy import Policy
from cory.runs.files import sha256_of, sync, sync_tree, write_whole
from cory.runs.run_dir import CHECKPOINTS, MANIFEST, PART

FORMAT = 5  # of a checkpoint's files and states; one of another format is refused


class Checkpoints:
    """The checkpoints of one run. Every process calls each method.

    digest: hash of the run's settings; checkpoints of other settings are not used
    """

    def __init__(
        self, run_dir: Path, digest: str, hardware: HardwareConfig, keep_last: int
    ) -> None:
        self.folder = run_dir / CHECKPOINTS
        self.facts = {  # that must be the same when the run goes on
            "format": FORMAT,
            "settings": digest,
            "processes": hardware.world,
            "hardware.zero_stage": hardware.zero_stage,
        }
        self.keep_last = keep_last
        self.state_file = f"state_{distributed.rank()}.pt"
        if distributed.rank() == 0:
            for left in self.folder.glob(f"*{PART}"):  # of a start that was killed
                shutil.rmtree(left)

    def save(self, done: int, agents: Mapping[str, Policy], state: dict[str, Any]) -> None:
        """Write the state after `done` iterations, then remove checkpoints beyond `keep_last`.

        state: of this process; tensors and plain values
        """
        first = distributed.rank() == 0
        place = self.folder / f"{done:06d}"
        part = place.with_suffix(PART)
        try:
            if first:
                # not its parents: a run directory that was moved or deleted is not made again
                self.folder.mkdir(exist_ok=True)
                part.mkdir()
            distributed.wait_for_all()
            for agent in agents.values():
                agent.engine.save(part)
            torch.save(state, part / self.state_file)
            distributed.wait_for_all()
            distributed.first_works(partial(self._publish, part, place, done))
        except (torch.OutOfMemoryError, torch.distributed.DistError):
            raise
        # torch reports a full disk as a RuntimeError
        except (OSError, RuntimeError) as error:
            shutil.rmtree(part, ignore_errors=True)
            reason = (str(error).strip() or repr(error)).splitlines()[0]
            raise ConfigError(
                f"the checkpoint {place} could not be written, is the disk full? ({reason}); "
                f"{self.newest()}"
            ) from error

    def restore(self, agents: Mapping[str, Policy]) -> tuple[int, dict[str, Any]] | None:
        """Load the newest checkpoint; its number of iterations and this process's state.

        returns: None when there is none; ConfigError for a damaged one, and for one of another run,
            format or layout
        """
        places = distributed.from_first(self._places())
        if not places:
            return None
        place = places[0]
        done = distributed.first_works(partial(self._inspect, place))
        for agent in agents.values():
            agent.engine.load(place)
        return done, load_plain(place / self.state_file)

    def _inspect(self, place: Path) -> int:
        """The iterations before a checkpoint; ConfigError where the run cannot go on from it."""
        older = "the one before it" if len(self._places()) > 1 else "the start"
        instead = f"delete it to go on from {older}"
        try:
            manifest = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
            theirs = {key: manifest[key] for key in self.facts}
            files, done = dict(manifest["files"]), int(manifest["iterations"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ConfigError(
                f"{place} is damaged: its {MANIFEST} cannot be read; {instead}"
            ) from error
        for key, ours in self.facts.items():
            require(
                theirs[key] == ours,
                f"{place} has {key}={theirs[key]}, not {ours}: go on with the same, or delete "
                f"{self.folder.parent} to start again",
            )
        for name, sha256 in files.items():
            require(
                (place / name).is_file() and sha256_of(place / name) == sha256,
                f"{place} is damaged: {name} is not what was written; {instead}",
            )
        return done

    def newest(self) -> str:
        """The newest checkpoint, in words."""
        places = self._places()
        return f"the last good one is {places[0]}" if places else "there is none before it"

    def end(self) -> None:
        """Of a finished run: remove all checkpoints."""
        if distributed.rank() == 0:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _places(self) -> list[Path]:
        """Folders of complete checkpoints, newest first."""
        found = (path.parent for path in self.folder.glob(f"*/{MANIFEST}"))
        return sorted((place for place in found if place.suffix != PART), reverse=True)

    def _publish(self, part: Path, place: Path, done: int) -> None:
        """Give a checkpoint its manifest and its name; those beyond `keep_last` go."""
        files = sorted(path for path in part.rglob("*") if path.is_file())
        hashes = {str(path.relative_to(part)): sha256_of(path) for path in files}
        sync_tree(part)
        manifest = self.facts | {"iterations": done, "files": hashes}
        write_whole(part / MANIFEST, json.dumps(manifest, indent=1) + "\n")
        part.rename(place)
        sync(self.folder)
        sync(self.folder.parent)
        for old in self._places()[self.keep_last :]:
            shutil.rmtree(old, ignore_errors=True)
