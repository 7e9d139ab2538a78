"""Evaluations of untrained agents that runs which start alike share: a folder of sealed files.

A file's name is a hash of everything that decides what is in it. Runs only ever put whole files
there, under another name first, so that they need no lock; which of two runs was first does not
matter, as both have the same lines. The folder may be deleted at any time.
"""

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch

from cory.runs.provenance import versions

PACKAGE = Path(__file__).resolve().parent.parent


class SharedEvaluations:
    """The files of one folder; None: there is none. What fails here only costs time."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def fetch(self, key: str, place: Path) -> bool:
        """Copy the file of a key to `place`, unless one is there; whether it was copied.

        The reader believes its lines as far as the hashes in it agree with them.
        """
        if self.folder is None or place.exists():
            return False
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            self._copy(self.folder / named(key), place)
            return True
        return False

    def offer(self, key: str, place: Path) -> None:
        """Put a finished file there for others, in place of one that has other content."""
        if self.folder is None:
            return
        target = self.folder / named(key)
        with suppress(OSError):
            if target.is_file() and target.read_bytes() == place.read_bytes():
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            self._copy(place, target)

    def _copy(self, source: Path, target: Path) -> None:
        partial = target.with_name(f".{target.name}.{socket.gethostname()}.{os.getpid()}")
        try:
            shutil.copyfile(source, partial)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)


def named(key: str) -> str:
    """The name of a key's file."""
    return f"{key}.jsonl"


def key_of(content: Mapping[str, Any]) -> str:
    """A hash of what decides an evaluation, of the code and of the machine's kind.

    content: plain values; files and folders that texts in it name count with the size and time of
        what is in them
    """
    everything = {
        "content": content,
        "files": {text: _stat_of(Path(text)) for text in sorted({*_paths(content)})},
        "code": _code(),
        "packages": versions(),
        "processor": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
    text = json.dumps(everything, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _code() -> str:
    """A hash of this package's code."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(f"{path.relative_to(PACKAGE)} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _paths(node: Any) -> Iterator[str]:
    """All texts in plain values that name a file or a folder."""
    if isinstance(node, Mapping):
        for value in node.values():
            yield from _paths(value)
    elif isinstance(node, list | tuple):
        for value in node:
            yield from _paths(value)
    elif isinstance(node, str) and node and len(node) < 1024 and "\n" not in node:
        # RuntimeError: `~5` is nobody's home
        with suppress(OSError, ValueError, RuntimeError):
            if Path(node).expanduser().exists():
                yield node


def _stat_of(path: Path) -> list[tuple[str, int, int]]:
    """Name, bytes and time of change of a file, or of every file in a folder."""
    path = path.expanduser()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    found = []
    for file in files:
        with suppress(FileNotFoundError):  # gone meanwhile, or a link to nowhere
            stat = file.stat()
            if not file.is_dir():
                found.append((str(file.relative_to(path)), stat.st_size, stat.st_mtime_ns))
    return found
