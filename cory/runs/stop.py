"""Where a run looks whether it is asked to stop, and how it leaves."""

from collections.abc import Callable

from cory import distributed
from cory.runs.signals import stopping

# called within an iteration where state_dict() holds all that is left of it: saves and may stop
StopPoint = Callable[[], None]


def never_stop() -> None:
    """A `StopPoint` that does nothing."""


class Stopped(Exception):
    """The run was asked to stop, has saved, and can go on later; says where it stands."""


class StopRequest:
    """Whether a run is asked to stop; its parts look at it where they can leave."""

    def asked(self) -> bool:
        """Whether this process, or the command that it belongs to, is asked to stop."""
        return stopping()

    def asked_anywhere(self) -> bool:
        """Whether any process of the run is, also on other nodes; every process calls this."""

        return distributed.any_of(self.asked())

    def check(self, saved: str) -> None:
        """Raise Stopped in every process where any of them is asked to stop.

        saved: what is on disk, for the message
        """
        if self.asked_anywhere():
            raise Stopped(f"saved {saved}")
