"""The files of a run's records, whose length and SHA-256 tell whether they are what was written.

A checkpoint keeps both for every file. `digests.json` keeps them as of the last line, since lines
that follow the newest checkpoint may be kept, too. When a run is finished, its record has them.
"""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cory.config import require
from cory.runs.durable import begins_with
from cory.runs.jsonl import Digest, JsonlStore, Line, unwritten
from cory.runs.run_dir import DIGESTS, line_of, write_whole


class RecordFiles:
    """The .jsonl files of one run, which are appended to."""

    def __init__(self, run_dir: Path, advice: str) -> None:
        """advice: what a WriteError says after its reason."""
        self.run_dir = run_dir
        self.advice = advice
        self.stores: dict[str, JsonlStore] = {}
        # bytes of each file that are what the run has written; of one that is not named all are
        self.sound: dict[str, int] = {}

    @property
    def digests(self) -> dict[str, Digest]:
        """Length and SHA-256 of each file so far."""
        return {name: store.digest for name, store in self.stores.items()}

    def check(self, done: int, saved: Mapping[str, Digest]) -> None:
        """Compare the files with what is known of them; called before they are opened.

        What the checkpoint knows is required: ConfigError. Lines behind it are dropped, and written
        again, where one of the files was changed there.

        done: iterations before the checkpoint
        saved: `digests` when it was written
        """
        for name, (size, sha256) in saved.items():
            require(
                begins_with(self.run_dir / name, size, sha256),
                f"{self.run_dir / name} is not what the run has written: its first {size} bytes, "
                f"which the checkpoint after {done} iterations knows, are others or not there; put "
                f"them back, or delete {self.run_dir} to start again",
            )
        self.sound = {name: size for name, (size, _) in saved.items()}
        later = digests_in(self.run_dir / DIGESTS)
        if any(name not in later or later[name][0] < size for name, size in self.sound.items()):
            return
        for name in self.sound:
            if not begins_with(self.run_dir / name, *later[name]):
                print(
                    f"note: {self.run_dir / name} was changed behind its first {self.sound[name]} "
                    f"bytes, which the checkpoint after {done} iterations knows: what followed is "
                    f"made again",
                    file=sys.stderr,
                )
                return
        self.sound = {name: later[name][0] for name in self.sound}

    def open(self, name: str, counts: Callable[[Line], bool]) -> list[Line]:
        """Cut a file back to the sound lines that count, and open it for more; those lines."""
        store = self.stores[name] = JsonlStore(self.run_dir / name, self.advice, sync_each=False)
        rows, _ = store.read()
        kept, place = [], 0
        for row in rows:
            place += len(row) + 1
            if place > self.sound.get(name, place):
                break
            try:
                line = line_of(row)
                if counts(line):
                    kept.append((row, line))
            except (ValueError, LookupError, TypeError):  # damaged, and so all that follows
                break
        store.open([row for row, _ in kept])
        return [line for _, line in kept]

    def append(self, name: str, lines: list[Line]) -> None:
        """Write lines at the end of a file that is open."""
        self.stores[name].append(lines)

    def vouch(self) -> None:
        """Say in digests.json that all lines so far are what the run has written."""
        self.write(DIGESTS, self.digests)

    def sync(self) -> None:
        """Return once all lines so far are on the disk itself, with what vouches for them."""
        for store in self.stores.values():
            store.sync()
        self.write(DIGESTS, self.digests, to_disk=True)

    def write(self, name: str, content: Any, to_disk: bool = False) -> None:
        """Write a JSON file of the run directory in one step."""
        try:
            write_whole(self.run_dir / name, json.dumps(content, indent=1) + "\n", to_disk)
        except OSError as error:
            raise unwritten(self.run_dir / name, error, self.advice) from error

    def close(self) -> None:
        """Close the files."""
        for store in self.stores.values():
            store.close()


def digests_in(path: Path) -> dict[str, Digest]:
    """Lengths and hashes by name; none where the file is not there or cannot be read."""
    try:
        named = json.loads(path.read_bytes())
        return {str(name): (int(size), str(sha256)) for name, (size, sha256) in named.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}
