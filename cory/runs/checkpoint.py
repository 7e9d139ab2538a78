"""Checkpoints: the full state of a run, from which it resumes as if it had never stopped.

`checkpoints/000010/` is the state after ten iterations. It is written under another name and then
renamed, so it is there whole or not at all; a manifest of sizes and hashes reveals damage. The
files of a policy that has not changed since the last checkpoint are linked, not written again.
"""

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import torch

from cory import distributed
from cory.config import HardwareConfig, require
from cory.models.policy import Policy
from cory.models.shared_engine import AS_BUILT
from cory.models.weight_files import load_plain
from cory.runs.durable import PIECE, sync
from cory.runs.run_dir import CHECKPOINTS, ITERATIONS, MANIFEST, WriteError

# Seconds: while the processes read files they meet at least this often, as a collective that waits
# for some ten minutes would end the run.
BEAT_S = 30.0
FORMAT = 1  # of a checkpoint's files and states; one of another format is refused
PART, OLD = ".part", ".old"  # endings of a checkpoint that is being written, or replaced


class Checkpoints:
    """The checkpoints of one run. Every process calls each method.

    digest: hash of the run's settings; checkpoints of other settings are not used
    earlier: hashes of its settings before it was given more iterations
    floor: iterations of the finished run that this one extends; without a checkpoint of these or
        more, the run is refused instead of started again
    """

    def __init__(
        self,
        run_dir: Path,
        digest: str,
        hardware: HardwareConfig,
        keep_last: int,
        earlier: Sequence[str] = (),
        floor: int = 0,
    ) -> None:
        self.folder = run_dir / CHECKPOINTS
        self.digest = digest
        self.earlier = tuple(earlier)
        self.floor = floor
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
                part.mkdir(parents=True)
            linked = distributed.from_first(
                link_unchanged(part, agents) if distributed.rank() == 0 else {}
            )
            for agent in agents.values():
                if agent.name not in linked:
                    agent.kept.save(part)
            torch.save(state, part / state_file())
            distributed.wait_for_all()
            known = {name: value for files in linked.values() for name, value in files.items()}
            names = distributed.from_first(by_size(part, known) if distributed.rank() == 0 else [])
            hashes = known | hashes_of(part, names, to_disk=True)
            if distributed.rank() == 0:
                self._seal(part, done, hashes)
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
        require(
            self.floor == 0 or (found is not None and found[0] >= self.floor),
            f"{self.folder} holds no sound training state after {self.floor} iterations or more, "
            f"which this run extends; the finished run is in {ITERATIONS}/{self.floor}: "
            f"init_from={self.folder.parent / ITERATIONS / str(self.floor)} begins a new run from "
            f"its agents",
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
            fault, manifest = distributed.from_first(
                inspect(place, self.digest, *self.earlier)
                if distributed.rank() == 0
                else (None, {})
            )
            require(
                manifest.get("format", FORMAT) == FORMAT,
                f"{place} is of format {manifest.get('format')}, and this version of cory reads "
                f"format {FORMAT}: go on with the version that wrote it, or delete "
                f"{self.folder.parent} to start again",
            )
            if fault is None:
                hashes = hashes_of(place, list(manifest["files"]))
                damaged = [name for name, own in manifest["files"].items() if own != hashes[name]]
                if not damaged:
                    return int(place.name), manifest["layout"], list(hashes)
                fault = f"is damaged: {damaged[0]} is not what was written"
            self.passed_over.add(place)
            if distributed.rank() == 0:
                print(f"note: {place} {fault}; it is passed over", file=sys.stderr)
        if places and self.floor == 0 and distributed.rank() == 0:
            print("note: no checkpoint can be used: the run starts again", file=sys.stderr)
        return None

    def done(self) -> int:
        """Iterations before the newest checkpoint; 0 where there is none."""
        places = self._places()
        return int(places[0].name) if places else 0

    def newest(self) -> str:
        """The newest checkpoint, in words."""
        places = self._places()
        return f"the last good one is {places[0]}" if places else "there is none before it"

    def clear(self) -> None:
        """Remove all checkpoints, of a finished run that is not to be extended."""
        if distributed.rank() == 0:
            shutil.rmtree(self.folder, ignore_errors=True)

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
            self.clear()
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

    def _seal(self, part: Path, done: int, hashes: Mapping[str, list[Any]]) -> None:
        """Write the manifest: sizes and hashes of the files, which are on the disk already."""
        manifest = {
            "format": FORMAT,
            "iterations": done,
            "settings": self.digest,
            "layout": self.layout,
            "files": dict(sorted(hashes.items())),
        }
        (part / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        sync(part / MANIFEST)
        sync(part)


def state_file() -> str:
    return f"state_{distributed.rank()}.pt"


def inspect(place: Path, *digests: str) -> tuple[str | None, dict[str, Any]]:
    """A checkpoint's fault, None if there is none but perhaps in a hash; and its manifest.

    digests: of the settings whose checkpoints are used
    """
    try:
        manifest = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            return None, manifest
        files, settings, layout = manifest["files"], manifest["settings"], manifest["layout"]
        if settings not in digests:
            return "belongs to a run with other settings", {}
        if not all(type(layout[key]) is int for key in ("processes", "zero_stage")):
            raise TypeError
        for name, (size, _) in files.items():
            path = place / name
            if not path.is_file():
                return f"lacks {name}", {}
            if path.stat().st_size != size:
                return f"is torn: {name} has {path.stat().st_size} of {size} bytes", {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return f"is torn: its {MANIFEST} cannot be read", {}
    return None, manifest


def link_unchanged(part: Path, agents: Mapping[str, Policy]) -> dict[str, dict[str, list[Any]]]:
    """Link the files of policies that an earlier checkpoint holds as they are.

    returns: of these policies, size and hash of each file by its name, as in a manifest; none of
        one that is still as it is built; a policy is not among them where the file system has no
        links
    """
    linked: dict[str, dict[str, list[Any]]] = {}
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


def by_size(folder: Path, known: Mapping[str, Any]) -> list[str]:
    """Names of the folder's files but `known` ones, the largest first."""
    sizes = {
        str(path.relative_to(folder)): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file()
    }
    return sorted(sizes.keys() - known.keys(), key=lambda name: (-sizes[name], name))


def hashes_of(folder: Path, names: Sequence[str], to_disk: bool = False) -> dict[str, list[Any]]:
    """Size in bytes and SHA-256 of files, in every process; each file is read by one of them.

    to_disk: return once the files are on the disk itself
    """
    found: dict[str, list[Any]] = {}
    own = names[distributed.rank() :: distributed.count()]
    reading = _reading(folder, own, to_disk, found)
    going_on = True
    while going_on:
        until = time.monotonic() + BEAT_S
        left = False
        for _ in reading:
            if left := time.monotonic() > until:
                break
        going_on = distributed.any_of(left)
    return dict(distributed.gathered(list(found.items())))


def _reading(
    folder: Path, names: Sequence[str], to_disk: bool, found: dict[str, list[Any]]
) -> Iterator[None]:
    """Read files piece by piece, and put their sizes and hashes into `found`."""
    for name in names:
        digest, path = hashlib.sha256(), folder / name
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                digest.update(piece)
                yield
        if to_disk:
            with ThreadPoolExecutor(1) as thread:  # minutes, of a large file
                synced = thread.submit(sync, path)
                while wait([synced], timeout=1).not_done:
                    yield
            synced.result()
        found[name] = [path.stat().st_size, digest.hexdigest()]
