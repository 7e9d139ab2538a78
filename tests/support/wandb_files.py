"""What an offline W&B run holds, read back from its transaction log.

W&B has no supported reader. The log is a LevelDB log behind a header of seven bytes; its records
are messages of `wandb.proto`, which W&B keeps private, so this may have to follow a new version.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

BLOCK = 32768
HEAD = struct.Struct("<IHB")  # checksum, length, kind: whole, first, middle or last part


def records(log: Path) -> Iterator[Any]:
    """The messages of a `.wandb` file, as far as they are complete."""
    data = log.read_bytes()
    assert data[:7] == struct.pack("<4sHB", b":W&B", 0xBEE1, 0), "not a log that W&B wrote"
    at, parts = 7, b""
    while at + HEAD.size <= len(data):
        if BLOCK - at % BLOCK < HEAD.size:  # too short for a header: padding
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = HEAD.unpack_from(data, at)
        start = at + HEAD.size
        if kind == 0 or start + length > len(data):  # the writer was stopped here
            return
        parts += data[start : start + length]
        at = start + length
        if kind in (1, 4):
            yield Record.FromString(parts)
            parts = b""


def fields(history: Any) -> dict[str, Any]:
    """One call of `log`; what W&B keeps about a table is a dict of its own."""
    line: dict[str, Any] = {}
    for item in history.item:
        name, *inner = item.nested_key or [item.key]
        value = json.loads(item.value_json)
        if inner:
            line.setdefault(name, {})[inner[0]] = value
        else:
            line[name] = value
    return line


class OfflineRun:
    """One folder `offline-run-*`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (log,) = folder.glob("*.wandb")
        found = list(records(log))
        (self.run,) = [record.run for record in found if record.HasField("run")]
        self.config = {item.key: json.loads(item.value_json) for item in self.run.config.update}
        self.history = [fields(record.history) for record in found if record.HasField("history")]
        self.axes = {
            record.metric.name or record.metric.glob_name: record.metric.step_metric
            for record in found
            if record.HasField("metric")
        }

    def numbers(self) -> list[dict[str, Any]]:
        """The lines of metrics, without what W&B adds to each and without tables."""
        lines = [line for line in self.history if "samples" not in line]
        return [{k: v for k, v in line.items() if not k.startswith("_")} for line in lines]

    def increments(self) -> list[dict[str, Any]]:
        """What was added to the table of samples each time, as it was stored beside the log."""
        found = []
        for line in self.history:
            if "samples" in line:
                path = self.folder / "files" / line["samples"]["path"]
                found.append(line["samples"] | json.loads(path.read_text(encoding="utf-8")))
        return found


def offline_runs(run_dir: Path) -> list[OfflineRun]:
    """The offline runs of a run directory, oldest first."""
    return [OfflineRun(folder) for folder in sorted((run_dir / "wandb").glob("offline-run-*"))]
