"""Files that survive a kill at any moment: written whole or line by line; and their hashes."""

import contextlib
import hashlib
import json
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]
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
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file to the disk itself, in one step: a reader sees it whole or as it was before."""
    data = content.encode() if isinstance(content, str) else content
    # several nodes may write the same file at once
    part = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")
    try:
        part.write_bytes(data)
        sync(part)
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    sync(path.parent)


def whole_lines(path: Path) -> bytes:
    """The whole lines of a .jsonl file, if any, of which a kill may have torn the last."""
    content = path.read_bytes() if path.exists() else b""
    return content[: content.rfind(b"\n") + 1]


def keep_lines(path: Path, kept: bytes) -> None:
    """Let a file hold what is kept of `whole_lines`, in one step, so that lines can follow."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.stat().st_size != len(kept):
        write_whole(path, kept)


def append_lines(path: Path, lines: Iterable[Line]) -> None:
    """Write lines at the end of a file; they are on the disk itself when this returns."""
    size = path.stat().st_size if path.exists() else 0
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    try:
        with path.open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with contextlib.suppress(OSError):
            os.truncate(path, size)  # others may write later, and not after a torn line
        raise OSError(error.errno, error.strerror, str(path)) from error


def read_lines(path: Path) -> list[Line]:
    """The lines of a .jsonl file; ValueError with the number of one that is no JSON object."""
    lines: list[Line] = []
    for number, row in enumerate(path.read_bytes().splitlines(), 1):
        try:
            lines.append({**json.loads(row)})
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    return lines
