"""The main memory of this machine. Needs no torch."""

import os
from pathlib import Path


def main_memory() -> int:
    """Bytes of main memory of this machine, or of the container that it is."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        path = Path("/sys/fs/cgroup") / name
        if path.is_file() and (text := path.read_text(encoding="utf-8").strip()).isdigit():
            limits.append(int(text))
    return min(limits)
