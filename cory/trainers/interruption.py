"""What ends an iteration that was asked to stop in its middle."""

from __future__ import annotations


class Interrupted(RuntimeError):
    """All that was done is on disk, and the same command goes on with it; says where it stands."""
