"""Checkpoints: the full state of a run, from which it resumes as if it had never stopped.

`checkpoints/000010/` is the state after ten iterations. It is written under another name and then
renamed, so it is there whole or not at all; a manifest of sizes and hashes reveals damage.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from cory import distributed
from cory.config import HardwareConfig, require
from cory.models.policy import Policy
from cory.runs.run_dir import CHECKPOINTS, WriteError

MANIFEST = "manifest.json"


class Checkpoints:
    """The checkpoints of one run. Every process calls each method.

    digest: hash of the run's settings; checkpoints of other settings are not used
    """

    def __init__(
        self, run_dir: Path, digest: str, hardware: HardwareConfig, keep_last: int
    ) -> None:
        self.folder = run_dir / CHECKPOINTS
        self.digest = digest
        self.layout = {"processes": hardware.world, "zero_stage": hardware.zero_stage}
        self.keep_last = keep_last

    def save(self, done: int, agents: Mapping[str, Policy], state: dict[str, Any]) -> None:
        """Write the state after `done` iterations, then remove checkpoints beyond `keep_last`.

        state: of this process; tensors and plain values
        """
        place = self.folder / f"{done:06d}"
        part = self.folder / f"{place.name}.part"
        try:
            if distributed.rank() == 0:
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir(parents=True)
            distributed.wait_for_all()
            for agent in agents.values():
                agent.engine.save(part)
            torch.save(state, part / state_file())
            distributed.wait_for_all()
            if distributed.rank() == 0:
                self._seal(part, done)
                shutil.rmtree(place, ignore_errors=True)
                part.rename(place)
                sync(self.folder)
                for old in self._places()[self.keep_last :]:
                    shutil.rmtree(old)
        # torch reports a full disk as a RuntimeError
        except (OSError, RuntimeError) as error:
            shutil.rmtree(part, ignore_errors=True)
            reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
            raise WriteError(
                f"the checkpoint {place} could not be written, is the disk full? ({reason}); "
                f"{self.newest()}"
            ) from error
        distributed.wait_for_all()

    def restore(self, agents: Mapping[str, Policy]) -> tuple[int, dict[str, Any]] | None:
        """Load the newest sound checkpoint; its number of iterations and this process's state.

        returns: None when there is none; faults of newer ones are reported on stderr
        """
        found: list[tuple[int, dict[str, Any]] | None] = [None]
        if distributed.rank() == 0:
            for place in self._places():
                fault, manifest = inspect(place, self.digest)
                if fault is None:
                    found = [(int(place.name), manifest["layout"])]
                    break
                print(f"note: {place} {fault}; it is passed over", file=sys.stderr)
            if found == [None] and self._places():
                print("note: no checkpoint can be used: the run starts again", file=sys.stderr)
        found = distributed.from_first(found)
        if found[0] is None:
            return None
        done, layout = found[0]
        require(
            layout == self.layout,
            f"{self.folder} was written by {layout['processes']} processes at hardware.zero_stage="
            f"{layout['zero_stage']}, not {self.layout['processes']} at "
            f"{self.layout['zero_stage']}; go on with the same, or delete it to start again",
        )
        place = self.folder / f"{done:06d}"
        for agent in agents.values():
            agent.engine.load(place)
        return done, torch.load(place / state_file(), weights_only=True)

    def newest(self) -> str:
        """The newest checkpoint, in words."""
        places = self._places()
        return f"the last good one is {places[0]}" if places else "there is none before it"

    def clear(self) -> None:
        """Remove all checkpoints: a finished run is not resumed."""
        if distributed.rank() == 0:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _places(self) -> list[Path]:
        """Folders of complete checkpoints, newest first."""
        return sorted((p for p in self.folder.glob("*") if p.name.isdigit()), reverse=True)

    def _seal(self, part: Path, done: int) -> None:
        """Sync every file to the disk, then write the manifest."""
        files = sorted(path for path in part.rglob("*") if path.is_file())
        for path in files:
            sync(path)
        manifest = {
            "iterations": done,
            "settings": self.digest,
            "layout": self.layout,
            "files": {str(path.relative_to(part)): size_and_hash(path) for path in files},
        }
        (part / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        sync(part / MANIFEST)
        sync(part)


def state_file() -> str:
    return f"state_{distributed.rank()}.pt"


def inspect(place: Path, digest: str) -> tuple[str | None, dict[str, Any]]:
    """A checkpoint's fault, None if it is sound; and its manifest."""
    try:
        manifest = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
        files, settings, _ = manifest["files"], manifest["settings"], manifest["layout"]
        if settings != digest:
            return "belongs to a run with other settings", {}
        for name, (size, sha256) in files.items():
            path = place / name
            if not path.is_file():
                return f"lacks {name}", {}
            if path.stat().st_size != size:
                return f"is torn: {name} has {path.stat().st_size} of {size} bytes", {}
            if size_and_hash(path)[1] != sha256:
                return f"is damaged: {name} is not what was written", {}
    except (OSError, ValueError, KeyError, TypeError):
        return f"is torn: its {MANIFEST} cannot be read", {}
    return None, manifest


def size_and_hash(path: Path) -> list[Any]:
    """Size in bytes and SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    return [path.stat().st_size, digest.hexdigest()]


def sync(path: Path) -> None:
    """Return once a file or folder is on the disk itself (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
