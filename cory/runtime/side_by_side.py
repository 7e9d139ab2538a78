"""Runs of a sweep that work side by side, each with workers and a share of the cores of its own."""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from cory.config import Config
from cory.runs.run_dir import OUTPUT, remove_unbegun
from cory.runtime.launch import INTERVAL_S, JobFailed, Run, stopping
from cory.runtime.sweeps.progress import FAILED, FINISHED, STOPPED, Job, Progress


@dataclass
class _Working:
    """A run at work."""

    job: Job
    run: Run
    at_once: int  # runs that may share the cores with it, itself among them
    lock: ExitStack
    out: IO[bytes]
    err: IO[bytes]


class SideBySide:
    """The runs of a sweep at work: starts each when there is room, and tells how each ended.

    A run writes to a file in its folder, as lines of several runs would be mixed up here. Here
    appears a line for each that begins or ends, and what it wrote to stderr.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._working: list[_Working] = []
        self._failed = False
        self._introduced = False

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
        named = [Path(text).absolute() for text in _texts(config.model_dump())]
        places = {place for path in named for place in (path, *path.parents)}
        while self._working and (
            len(self._working) >= min(at_once, *(one.at_once for one in self._working))
            or any(one.run.run_dir.absolute() in places for one in self._working)
        ):
            self._wait()
        if stopping():
            raise JobFailed

    def start(self, job: Job, run_dir: Path, config: Config, lock: ExitStack, at_once: int) -> None:
        """Start a run, after `wait_for_room`.

        job: what the sweep knows it as
        run_dir: locked, with the settings in it
        lock: holds that of the run directory; closed when the run ends
        """
        if not self._introduced:
            self._introduce(config, at_once)
        self._progress.at_once = at_once
        self._progress.say_begin(job)
        out, err = (run_dir / OUTPUT).open("ab"), tempfile.TemporaryFile()  # noqa: SIM115
        run = Run(run_dir, config.hardware, at_once, out, err)
        self._working.append(_Working(job, run, at_once, lock, out, err))

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """All runs have ended when this context has; JobFailed if one of them failed.

        An error within it is raised after they have ended; a second Ctrl-C ends them at once.
        """
        try:
            try:
                yield
            except Exception:  # whatever it is, it is raised again
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
        self._introduced = True
        threads = config.hardware.threads(at_once)
        print(
            f"{at_once} at a time with {threads} thread{'s' if threads > 1 else ''} each "
            f"(parallel_runs=1: one after another); what a run says is in {OUTPUT} of its folder",
            flush=True,
        )

    def _wait(self) -> None:
        """Look once at every run at work, then pause."""
        for one in list(self._working):
            finished = one.run.finished()
            if finished is not None:
                self._working.remove(one)
                self._ended(one, finished)
        time.sleep(INTERVAL_S)

    def _ended(self, one: _Working, finished: bool) -> None:
        self._failed |= not finished
        one.err.seek(0)
        said = one.err.read()
        text = said.decode("utf-8", errors="replace")
        errors = [line for line in text.splitlines() if line.startswith("error: ")]
        how = FINISHED if finished else STOPPED if stopping() else FAILED
        reason = errors[0] if errors else ""
        self._progress.say_end(one.job, how, reason)
        one.out.write(said)
        sys.stderr.write(text)
        sys.stderr.flush()
        for stream in (one.out, one.err):
            stream.close()
        if not finished and not stopping():
            remove_unbegun(one.run.run_dir)
        one.lock.close()


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
