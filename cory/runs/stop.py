"""Requests to stop a run: where they are seen, and how the run leaves."""

from collections.abc import Callable
from pathlib import Path

from cory import distributed
from cory.runs.run_dir import STOP

# called within an iteration where state_dict() holds all that is left of it: saves and may stop
StopPoint = Callable[[], None]


def never_stop() -> None:
    """A `StopPoint` that does nothing."""


class Stopped(Exception):
    """The run was asked to stop, has saved, and can go on later; says where it stands."""


class StopRequest:
    """Whether a run is asked to stop: by the file `stop` in its directory, or by a signal."""

    def __init__(self, run_dir: Path) -> None:
        self.file = run_dir / STOP
        self.signalled = False  # set by whoever listens to signals
        self.begun = False  # the loop runs: from now on it looks at the request and saves first

    def asked(self) -> bool:
        """Whether this process is asked to stop."""
        return self.signalled or self.file.exists()

    def asked_anywhere(self) -> bool:
        """Whether any process of the run is; every process calls this."""
        return distributed.any_of(self.asked())

    def check(self, saved: str) -> None:
        """Raise Stopped in every process where any of them is asked to stop.

        saved: what is on disk, for the message
        """
        if self.asked_anywhere():
            raise Stopped(f"saved {saved}")
