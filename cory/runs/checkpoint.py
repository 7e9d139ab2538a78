"""Checkpoints: the full state of a run, from which it resumes as if it had never stopped.

`checkpoints/000010/` is the state after ten iterations. It is written under another name and then
renamed, so it is there whole or not at all; a manifest of hashes reveals damage. The
files of a policy that has not changed since the last checkpoint are linked, not written again.
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from cory import distributed
from cory.config import HardwareConfig, require
from cory.models.policy import Policy
from cory.models.shared_engine import AS_BUILT
from cory.models.weight_files import load_plain
from cory.runs.durable import sha256_of, sync, sync_tree
from cory.runs.run_dir import CHECKPOINTS, MANIFEST, RECORD, WriteError, write_whole

FORMAT = 1  # of a checkpoint's files and states; one of another format is refused
PART, OLD = ".part", ".old"  # endings of a checkpoint that is being written, or replaced


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
        self.passed_over: set[Path] = set()  # faulty ones; none of those that are kept
        if distributed.rank() == 0:
            self._finish_replacing()

    def save(self, done: int, agents: Mapping[str, Policy], state: dict[str, Any]) -> None:
        """Write the state after `done` iterations, then remove checkpoints beyond `keep_last`.

        state: of this process; tensors and plain values
        """
        place = self.folder / f"{done:06d}"
        part = place.with_suffix(PART)
        try:
            if distributed.rank() == 0:
                shutil.rmtree(part, ignore_errors=True)
                # not its parents: a run directory that was moved or deleted is not made again
                self.folder.mkdir(exist_ok=True)
                part.mkdir()
            linked = distributed.from_first(
                link_unchanged(part, agents) if distributed.rank() == 0 else {}
            )
            for agent in agents.values():
                if agent.name not in linked:
                    agent.kept.save(part)
            torch.save(state, part / state_file())
            distributed.wait_for_all()
            known = {name: sha256 for files in linked.values() for name, sha256 in files.items()}
            fault = distributed.first_works(partial(self._seal, part, done, known))
            if fault is not None:
                raise OSError(fault)
            if distributed.rank() == 0:
                self._replace(place, part)
                self.passed_over.discard(place)
                sync(self.folder.parent)
                for old in self._places()[self.keep_last :]:
                    shutil.rmtree(old)
        # torch reports a full disk as a RuntimeError
        except (OSError, RuntimeError) as error:
            shutil.rmtree(part, ignore_errors=True)
            if distributed.rank() == 0:
                self._finish_replacing()
            reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
            raise WriteError(
                f"the checkpoint {place} could not be written, is the disk full? ({reason}); "
                f"{self.newest()}"
            ) from error
        distributed.wait_for_all()
        for agent in agents.values():
            agent.kept.saved_in = place

    def restore(self, agents: Mapping[str, Policy]) -> tuple[int, dict[str, Any]] | None:
        """Load the newest sound checkpoint; its number of iterations and this process's state.

        returns: None when there is none; faults of newer ones are reported on stderr
        """
        found = self._newest_sound()
        finished = distributed.from_first((self.folder.parent / RECORD).exists())
        require(
            found is not None or not finished,
            f"{self.folder} holds no sound training state from which the finished run could go "
            f"on; init_from={self.folder.parent} begins a new run from its agents",
        )
        if found is None:
            return None
        done, layout, files = found
        require(
            layout == self.layout,
            f"{self.folder} was written by {layout['processes']} processes at hardware.zero_stage="
            f"{layout['zero_stage']}, not {self.layout['processes']} at "
            f"{self.layout['zero_stage']}; go on with the same, or delete it to start again",
        )
        place = self.folder / f"{done:06d}"
        for agent in agents.values():
            # one that is still as it is built has no files
            if any(file.startswith(f"{agent.name}/") for file in files):
                agent.kept.load(place)
            agent.kept.saved_in = place
        return done, load_plain(place / state_file())

    def _newest_sound(self) -> tuple[int, dict[str, Any], list[str]] | None:
        """Iterations, layout and files of the newest checkpoint without a fault.

        Faults are reported.
        """
        self.passed_over.clear()
        places = distributed.from_first(self._places())
        for place in places:
            fault, manifest = distributed.first_works(partial(inspect, place, self.digest))
            require(
                manifest.get("format", FORMAT) == FORMAT,
                f"{place} is of format {manifest.get('format')}, and this version of cory reads "
                f"format {FORMAT}: go on with the version that wrote it, or delete "
                f"{self.folder.parent} to start again",
            )
            if fault is None:
                return int(place.name), manifest["layout"], list(manifest["files"])
            self.passed_over.add(place)
            if distributed.rank() == 0:
                print(f"note: {place} {fault}; it is passed over", file=sys.stderr)
        if places and distributed.rank() == 0:
            print("note: no checkpoint can be used: the run starts again", file=sys.stderr)
        return None

    def newest(self) -> str:
        """The newest checkpoint, in words."""
        places = self._places()
        return f"the last good one is {places[0]}" if places else "there is none before it"

    def keep_newest(self, at_most: int | None) -> int:
        """Remove all checkpoints but the newest, by which a finished run can be extended.

        at_most: bytes; one that takes more is removed, too; None: it is kept in any case
        returns: its bytes; 0 where none is left, and in other processes than the first
        """
        if distributed.rank() != 0:
            return 0
        places = self._places()
        files = [path for path in places[0].rglob("*") if path.is_file()] if places else []
        size = sum(path.stat().st_size for path in files)
        if not places or (at_most is not None and size > at_most):
            shutil.rmtree(self.folder, ignore_errors=True)
            return 0
        for other in self.folder.iterdir():
            if other != places[0]:
                shutil.rmtree(other, ignore_errors=True)
        return size

    def _places(self) -> list[Path]:
        """Folders of complete checkpoints that are not passed over, newest first."""
        found = (p for p in self.folder.glob("*") if p.name.isdigit())
        return sorted((p for p in found if p not in self.passed_over), reverse=True)

    def _replace(self, place: Path, part: Path) -> None:
        """Put a sealed folder in a checkpoint's place; at no moment is there none of both."""
        old = place.with_suffix(OLD)
        shutil.rmtree(old, ignore_errors=True)
        if place.exists():  # saved within an iteration, and now further on in the same one
            place.rename(old)
        part.rename(place)
        sync(self.folder)
        shutil.rmtree(old, ignore_errors=True)

    def _finish_replacing(self) -> None:
        """Give a checkpoint its place where a kill came just before: the new one, else the old.

        What a kill left of others is removed.
        """
        for left in (*self.folder.glob(f"*{PART}"), *self.folder.glob(f"*{OLD}")):
            place = left.with_suffix("")
            if (left / MANIFEST).is_file() and not place.exists():
                left.rename(place)
            else:
                shutil.rmtree(left)

    def _seal(self, part: Path, done: int, known: Mapping[str, str]) -> str | None:
        """Write the manifest: SHA-256 of the files, which are put on the disk before.

        known: of files that an earlier checkpoint has, too
        returns: why this was not possible; None: it was
        """
        names = {str(path.relative_to(part)) for path in part.rglob("*") if path.is_file()}
        try:
            hashes = dict(known) | {name: sha256_of(part / name) for name in names - known.keys()}
            sync_tree(part)
            manifest = {
                "format": FORMAT,
                "iterations": done,
                "settings": self.digest,
                "layout": self.layout,
                "files": dict(sorted(hashes.items())),
            }
            write_whole(part / MANIFEST, json.dumps(manifest, indent=1) + "\n")
        except OSError as error:
            return str(error)
        return None


def state_file() -> str:
    return f"state_{distributed.rank()}.pt"


def inspect(place: Path, digest: str) -> tuple[str | None, dict[str, Any]]:
    """A checkpoint's fault, None if there is none; and its manifest.

    digest: of the settings whose checkpoints are used
    """
    try:
        manifest = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            return None, manifest
        files, settings, layout = manifest["files"], manifest["settings"], manifest["layout"]
        if settings != digest:
            return "belongs to a run with other settings", {}
        if not all(type(layout[key]) is int for key in ("processes", "zero_stage")):
            raise TypeError
        for name, sha256 in files.items():
            if not (place / name).is_file():
                return f"lacks {name}", {}
            if sha256_of(place / name) != sha256:
                return f"is damaged: {name} is not what was written", {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return f"is torn: its {MANIFEST} cannot be read", {}
    return None, manifest


def link_unchanged(part: Path, agents: Mapping[str, Policy]) -> dict[str, dict[str, str]]:
    """Link the files of policies that an earlier checkpoint holds as they are.

    returns: of these policies, the hash of each file by its name, as in a manifest; none of one
        that is still as it is built; a policy is not among them where the file system has no links
    """
    linked: dict[str, dict[str, str]] = {}
    for agent in agents.values():
        earlier, name = agent.kept.saved_in, agent.name
        if earlier is None:
            continue
        if earlier == AS_BUILT:
            linked[name] = {}
            continue
        try:
            manifest = json.loads((earlier / MANIFEST).read_text(encoding="utf-8"))
            own = {file: v for file, v in manifest["files"].items() if file.startswith(f"{name}/")}
            for file in own:
                (part / file).parent.mkdir(parents=True, exist_ok=True)
                os.link(earlier / file, part / file)
            for folder in {(part / file).parent for file in own}:
                sync(folder)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            shutil.rmtree(part / name, ignore_errors=True)
        else:
            linked[name] = own
    return linked
