"""Files and folders that are on the disk itself, and hashes of their content."""

import hashlib
import os
from pathlib import Path

PIECE = 2**22  # bytes that are read at once


def sync(path: Path) -> None:
    """Return once a file or folder is on the disk itself (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(top: Path) -> None:
    """Return once a folder and all that is below it are on the disk itself."""
    for path in [*top.rglob("*"), top]:
        sync(path)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()
