"""Files that survive a kill at any moment: written whole or line by line; and their hashes."""

import contextlib
import hashlib
import json
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cory.config import ConfigError

Line = dict[str, Any]
PIECE = 2**22  # bytes that are read at once


class WriteError(ConfigError):
    """A file of the run could not be written, as on a full disk; one line."""


def unwritten(path: Path, error: OSError) -> WriteError:
    """A failure to write a file, in one line."""
    reason = error.strerror or error
    return WriteError(f"{path} cannot be written ({reason}); the same command goes on with the run")


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


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file to the disk itself, in one step: a reader sees it whole or as it was before."""
    data = content.encode() if isinstance(content, str) else content
    # several nodes may write the same file at once
    part = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")
    try:
        part.write_bytes(data)
        sync(part)
        part.replace(path)
        sync(path.parent)
    except OSError as error:
        raise unwritten(path, error) from error


def whole_lines(path: Path) -> bytes:
    """The whole lines of a .jsonl file, if any, of which a kill may have torn the last."""
    try:
        content = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise unwritten(path, error) from error
    return content[: content.rfind(b"\n") + 1]


def keep_lines(path: Path, kept: bytes) -> None:
    """Let a file hold what is kept of `whole_lines`, in one step, so that lines can follow."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.stat().st_size != len(kept):
            write_whole(path, kept)
    except OSError as error:
        raise unwritten(path, error) from error


def append_lines(path: Path, lines: Iterable[Line]) -> None:
    """Write lines at the end of a file; they are on the disk itself when this returns."""
    size = path.stat().st_size if path.exists() else 0
    try:
        with path.open("ab") as file:
            file.write("".join(map(encoded, lines)).encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with contextlib.suppress(OSError):
            os.truncate(path, size)  # others may write later, and not after a torn line
        raise unwritten(path, error) from error


def encoded(line: Line) -> str:
    """A line of a .jsonl file."""
    return json.dumps(line, ensure_ascii=False) + "\n"


def line_of(row: bytes | str) -> Line:
    """The value of a line of JSON; ValueError where it is no object with keys."""
    value = json.loads(row)
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def sound_lines(rows: Iterable[bytes]) -> list[Line]:
    """The values of lines, up to the first line that is damaged."""
    values = []
    for row in rows:
        try:
            values.append(line_of(row))
        except ValueError:
            break
    return values


def read_lines(path: Path) -> list[Line]:
    """The lines of a .jsonl file; ValueError with the number of one that is no JSON object."""
    lines = []
    for number, row in enumerate(path.read_bytes().splitlines(), 1):
        try:
            lines.append(line_of(row))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    return lines
