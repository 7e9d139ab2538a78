"""Requests to stop a run: where they are seen, and how the run leaves."""

from collections.abc import Callable

from cory import distributed

# called within an iteration where state_dict() holds all that is left of it: saves and may stop
StopPoint = Callable[[], None]


def never_stop() -> None:
    """A `StopPoint` that does nothing."""


class Stopped(Exception):
    """The run was asked to stop, has saved, and can go on later; says where it stands."""


class StopRequest:
    """Whether a run is asked to stop, by a signal to one of its processes."""

    def __init__(self) -> None:
        self.signalled = False
        self.begun = False  # the loop runs: from now on it looks at the request and saves first

    def ask(self) -> None:
        """Ask this process to stop; KeyboardInterrupt where there is nothing to save yet."""
        self.signalled = True
        if not self.begun:
            raise KeyboardInterrupt

    def asked(self) -> bool:
        """Whether this process is asked to stop."""
        return self.signalled

    def asked_anywhere(self) -> bool:
        """Whether any process of the run is; every process calls this."""
        return distributed.any_of(self.asked())

    def check(self, saved: str) -> None:
        """Raise Stopped in every process where any of them is asked to stop.

        saved: what is on disk, for the message
        """
        if self.asked_anywhere():
            raise Stopped(f"saved {saved}")
