"""How an iteration is left in its middle."""

from __future__ import annotations

from collections.abc import Callable

# called where state_dict() holds what is left of an iteration, so that it can be left and saved
Pause = Callable[[], None]


def go_on() -> None:
    """A `Pause` without a stop."""


class Interrupted(RuntimeError):
    """All that was done is on disk, and the same command goes on with it; says where it stands."""
