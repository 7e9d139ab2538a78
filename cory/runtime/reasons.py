"""Why a run failed, in a line: its worker writes it down, and the command that started it reads it.

The line lies in the folder that the command makes for its own time.
"""

import hashlib
import os
from pathlib import Path

# environment variable: path of a file in that folder; the file is made when the command is asked to
# stop, and holds the signal's number
COMMAND_STOP = "CORY_STOP"


def keep_reason(run_dir: Path, text: str) -> None:
    """Write down why a run failed; the first reason of several stays.

    Not where no command of ours has started this process.
    """
    place = _place(run_dir)
    if place is not None and not place.exists():
        place.write_text(text.partition("\n")[0], encoding="utf-8")


def take_reason(run_dir: Path) -> str:
    """Why a run failed, once; empty where that is not known."""
    place = _place(run_dir)
    if place is None or not place.exists():
        return ""
    text = place.read_text(encoding="utf-8")
    place.unlink()
    return text


def _place(run_dir: Path) -> Path | None:
    if COMMAND_STOP not in os.environ:
        return None
    name = hashlib.sha256(os.fsencode(run_dir.absolute())).hexdigest()[:16]
    folder = Path(os.environ[COMMAND_STOP]).parent
    return folder / f"reason_{name}" if folder.is_dir() else None
