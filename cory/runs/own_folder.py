"""Which folders a command may write into: new ones, empty ones, and those that it made before."""

from collections.abc import Sequence
from pathlib import Path

from cory.config import require


def require_own_folder(folder: Path, marks: Sequence[str], said: str) -> None:
    """Refuse a folder that holds something, and nothing that the command itself leaves there.

    marks: names of files or folders, of which the command leaves at least one
    said: how the refusal names the folder
    """
    if not folder.exists():
        return
    require(folder.is_dir(), f"{said} is a file; name a folder")
    names = sorted(path.name for path in folder.iterdir())
    require(
        not names or any(mark in names for mark in marks),
        f"{said} holds {', '.join(names[:3])}{', ...' if names[3:] else ''} and nothing of this "
        f"command; name a new or an empty folder",
    )
