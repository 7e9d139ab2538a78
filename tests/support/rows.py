"""Files of made-up rows."""

import json
from collections.abc import Iterable
from pathlib import Path


def write_rows(path: Path, rows: Iterable[object]) -> Path:
    """JSON lines."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
