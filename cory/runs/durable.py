"""Files and folders that are on the disk itself, and hashes of their content."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

PIECE = 2**22  # bytes that are read at once


def sync(path: Path) -> None:
    """Return once a file or folder is on the disk itself (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folders(top: Path) -> None:
    """Return once a folder and all folders below it are on the disk itself."""
    for path in [*(path for path in top.rglob("*") if path.is_dir()), top]:
        sync(path)


def begins_with(path: Path, size: int, sha256: str) -> bool:
    """Whether the first `size` bytes of a file have this hash; False where it is shorter."""
    digest, left = hashlib.sha256(), size
    try:
        with path.open("rb") as file:
            while left and (piece := file.read(min(left, PIECE))):
                digest.update(piece)
                left -= len(piece)
    except OSError:
        return size == 0 and not path.exists()
    return left == 0 and digest.hexdigest() == sha256


def fault_of(folder: Path, files: Iterable[tuple[str, int, str]]) -> str | None:
    """What is wrong with the first of these files that is not as it was written; None: nothing.

    files: name, length in bytes and SHA-256 of each
    """
    listed = sorted(files)
    for name, size, _ in listed:  # before anything is read
        path = folder / name
        if not path.is_file():
            return f"{name} is not there"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} of {size} bytes"
    for name, size, sha256 in listed:
        if not begins_with(folder / name, size, sha256):
            return f"{name} is not what was written"
    return None
