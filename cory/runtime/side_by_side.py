"""Runs of a sweep that work side by side, each with workers and a share of the cores of its own."""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from cory.config import Config
from cory.runs.lock import RunLock
from cory.runs.run_dir import OUTPUT
from cory.runtime.launch import INTERVAL, JobFailed, Run, stopping


@dataclass
class _Working:
    """A run at work."""

    name: str
    run: Run
    at_once: int  # runs that may share the cores with it, itself among them
    lock: RunLock
    out: IO[bytes]
    err: IO[bytes]
    began: float


class SideBySide:
    """The runs of a sweep at work: starts each when there is room, and tells how each ended.

    A run writes to a file in its folder, as lines of several runs would be mixed up here. Here
    appears one line for each that ends, and what it wrote to stderr.
    """

    def __init__(self) -> None:
        self.jobs: int | None = None  # of the sweep; None: not known
        self.passed = 0  # jobs at work or over, among them refused ones and complete runs
        self._working: list[_Working] = []
        self._seconds: list[float] = []  # of the runs that are finished
        self._failed = False
        self._at_once = 0  # of the newest run; 0: none has begun

    @property
    def busy(self) -> bool:
        """Whether a run is at work."""
        return bool(self._working)

    def wait_for_room(self, config: Config, at_once: int) -> None:
        """Wait until a run can start: there is room for it, and the runs that it needs are over.

        config: of that run; another one whose folder it names, as `init_from` may, is needed
        at_once: runs that may share the cores with it, itself among them
        Raises JobFailed where the sweep is to stop.
        """
        named = [Path(text).absolute() for text in _texts(asdict(config))]
        places = {place for path in named for place in (path, *path.parents)}
        while self._working and (
            len(self._working) >= min(at_once, *(one.at_once for one in self._working))
            or any(one.run.run_dir.absolute() in places for one in self._working)
        ):
            self._wait()
        if stopping():
            raise JobFailed

    def start(self, run_dir: Path, config: Config, lock: RunLock, at_once: int) -> None:
        """Start a run, after `wait_for_room`.

        run_dir: locked, with the settings in it
        lock: of the run directory; closed when the run ends
        """
        if self._at_once == 0:
            self._introduce(config, at_once)
        self._at_once = at_once
        out, err = (run_dir / OUTPUT).open("ab"), tempfile.TemporaryFile()  # noqa: SIM115
        run = Run(run_dir, config.hardware, lock, at_once, out, err)
        name = f"{config.experiment} seed {config.seed}"
        self._working.append(_Working(name, run, at_once, lock, out, err, time.monotonic()))

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """All runs have ended when this context has; JobFailed if one of them failed.

        An error within it is raised after they have ended; a second Ctrl-C ends them at once.
        """
        try:
            try:
                yield
            except Exception:  # whatever it is, it is raised again (detail 17)
                self.wait_for_all()
                raise
            self.wait_for_all()
        except KeyboardInterrupt:
            for one in self._working:
                one.run.kill()
            raise
        if self._failed:
            raise JobFailed

    def wait_for_all(self) -> None:
        """Wait until no run is at work."""
        while self._working:
            self._wait()

    def _introduce(self, config: Config, at_once: int) -> None:
        threads = config.hardware.threads(at_once)
        print(
            f"{'' if self.jobs is None else f'{self.jobs} runs, '}{at_once} at a time with "
            f"{threads} thread{'s' if threads > 1 else ''} each (parallel_runs=1: one after "
            f"another); what a run says is in {OUTPUT} of its folder",
            flush=True,
        )

    def _wait(self) -> None:
        """Look once at every run at work, then pause."""
        for one in list(self._working):
            finished = one.run.finished()
            if finished is not None:
                self._working.remove(one)
                self._ended(one, finished)
        time.sleep(INTERVAL)

    def _ended(self, one: _Working, finished: bool) -> None:
        seconds = time.monotonic() - one.began
        if finished:
            self._seconds.append(seconds)
        self._failed |= not finished
        end = "finished in" if finished else "stopped after" if stopping() else "failed after"
        stream = sys.stdout if finished else sys.stderr
        print(f"{one.name}: {end} {clock(seconds)}; {self._left()}", file=stream, flush=True)
        one.err.seek(0)
        said = one.err.read()
        one.out.write(said)
        sys.stderr.write(said.decode("utf-8", errors="replace"))
        sys.stderr.flush()
        for held in (one.lock, one.out, one.err):
            held.close()

    def _left(self) -> str:
        """How much of the sweep is over, and about how long the rest takes."""
        over = self.passed - len(self._working)
        of = "" if self.jobs is None else f" of {self.jobs}"
        text = f"{over}{of} runs over, {len(self._working)} at work"
        if self.jobs is None or not self._seconds or over == self.jobs or stopping():
            return text
        each = sum(self._seconds) / len(self._seconds)  # of a run, as far as is known
        now, to_come = time.monotonic(), self.jobs - self.passed
        of_these = [max(0.0, each - (now - one.began)) for one in self._working]
        longest = each if to_come > 0 else max(of_these, default=0.0)
        rest = max(longest, (sum(of_these) + each * to_come) / self._at_once)
        return f"{text}, about {clock(rest)} left"


def clock(seconds: float) -> str:
    """Seconds as minutes:seconds, or hours:minutes:seconds."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def _texts(settings: Any) -> Iterator[str]:
    """All texts among settings but the run's own directory."""
    if isinstance(settings, str):
        yield settings
    elif isinstance(settings, dict):
        for key, value in settings.items():
            if key != "run_dir":
                yield from _texts(value)
    elif isinstance(settings, list):
        for value in settings:
            yield from _texts(value)
