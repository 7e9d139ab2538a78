"""How far a sweep is: a line before and after each of its jobs, and what became of each."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# what becomes of a job
FINISHED, BEFORE, FAILED, REFUSED, STOPPED = (
    "finished",
    "finished before",
    "failed",
    "refused",
    "stopped",
)


@dataclass
class Job:
    """One run of a sweep."""

    number: int  # from 1
    varied: Mapping[str, str]  # the settings that vary -> their values in this job
    name: str  # these in short
    run_dir: Path | None = None
    began: float | None = None  # by the clock of this process; None: it waits, or never began
    seconds: float = 0.0
    ended: str | None = None  # FINISHED, ...; None: it is at work
    reason: str = ""  # why it failed, in one line, where that is known


@dataclass
class Progress:
    """The jobs of a sweep that have begun, and the time they take.

    jobs: of the sweep, in all; None: not known
    at_once: how many work side by side, as the newest run has it
    sweep, folder: its name, and the folder below which its runs lie
    said: lines that hold for several jobs, said once
    all_here: its jobs run in this process or beside it; else by a launcher, each by itself
    """

    jobs: int | None = None
    at_once: int = 1
    sweep: str = "adhoc"
    folder: Path = Path()
    all_here: bool = True
    known: list[Job] = field(default_factory=list)
    said: set[str] = field(default_factory=set)
    began: float = field(default_factory=lambda: time.monotonic())

    def start_anew(self) -> None:
        """Forget all jobs: a command begins."""
        self.known.clear()
        self.said.clear()
        self.began = time.monotonic()

    def job(self, number: int, varied: Mapping[str, str], name: str) -> Job:
        """A job that the launcher has come to; it has not begun."""
        job = Job(number, varied, name)
        self.known.append(job)
        return job

    def forget(self, job: Job) -> None:
        """A job that does not begin, as the sweep is to stop."""
        self.known.remove(job)

    @property
    def at_work(self) -> list[Job]:
        """Jobs that have begun and not ended."""
        return [job for job in self.known if job.began is not None and job.ended is None]

    @property
    def over(self) -> int:
        """How many jobs have ended, in whatever way."""
        return sum(job.ended is not None for job in self.known)

    def ended(self, *how: str) -> list[Job]:
        """Jobs that ended in one of these ways."""
        return [job for job in self.known if job.ended in how]

    def elapsed(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - self.began

    def say_once(self, line: str) -> None:
        """A line that holds for several jobs."""
        if line not in self.said:
            print(line, flush=True)
        self.said.add(line)

    def say_begin(self, job: Job) -> None:
        """The line before a job."""
        job.began = time.monotonic()
        above = "\n" if self.at_once == 1 and len(self.known) > 1 else ""  # the last run's summary
        print(f"{above}{self._called(job)} begins; {self._times()}", flush=True)

    def say_end(self, job: Job, how: str, reason: str = "") -> None:
        """Note how a job ended; and the line after it, on stderr where it went wrong."""
        job.ended, job.reason = how, reason
        job.seconds = 0.0 if job.began is None else time.monotonic() - job.began
        took = {
            FINISHED: f"finished in {clock(job.seconds)}",
            FAILED: f"failed after {clock(job.seconds)}",
            STOPPED: f"stopped after {clock(job.seconds)}",
        }.get(how, how)
        stream = sys.stdout if how in (FINISHED, BEFORE) else sys.stderr
        print(f"{self._called(job)} {took}; {self._times()}", file=stream, flush=True)

    def left(self) -> float | None:
        """About how many seconds the rest takes, by the runs that are finished; None: unknown."""
        finished = [job.seconds for job in self.ended(FINISHED)]
        if self.jobs is None or not finished or self.ended(STOPPED) or not self.all_here:
            return None
        each = sum(finished) / len(finished)
        now, to_come = time.monotonic(), self.jobs - self.over - len(self.at_work)
        begun = [job.began for job in self.at_work if job.began is not None]
        of_these = [max(0.0, each - (now - began)) for began in begun]
        longest = each if to_come > 0 else max(of_these, default=0.0)
        return max(longest, (sum(of_these) + each * to_come) / self.at_once)

    def _called(self, job: Job) -> str:
        of = "" if self.jobs is None else f" of {self.jobs}"
        return f"job {job.number}{of}: {job.name}".rstrip(": ")

    def _times(self) -> str:
        text = f"{clock(self.elapsed())} elapsed"
        if self.at_once > 1:
            text = f"{self.over} over, {len(self.at_work)} at work, {text}"
        left = self.left()
        if left is None or self.over == self.jobs:
            return text
        return f"{text}, about {clock(left)} left"


def clock(seconds: float) -> str:
    """Seconds as minutes:seconds, or hours:minutes:seconds."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
