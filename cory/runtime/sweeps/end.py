"""What a sweep says when it is over: its runs compared, what is missing, and how to go on."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cory.runs.run_dir import METRICS, RECORD, TIME, write_whole
from cory.runtime.sweeps.jobs import typed
from cory.runtime.sweeps.progress import (
    BEFORE,
    FAILED,
    FINISHED,
    REFUSED,
    STOPPED,
    Job,
    Progress,
    clock,
)

TABLE, NUMBERS = "comparison.txt", "comparison.csv"
FOLDER = "hydra.sweep.dir"
ADHOC = "adhoc"  # the sweep of multi-runs that are typed


@contextmanager
def told_at_the_end(progress: Progress) -> Iterator[None]:
    """Within this context a sweep runs; when it is over, also by a failure, its end is told.

    Not where a second Ctrl-C ends all at once, and not of a command that is no sweep.
    """
    progress.start_anew()
    try:
        yield
    except Exception:  # whatever it is, it is raised again
        say_end(progress)
        raise
    say_end(progress)


def say_end(progress: Progress) -> None:
    """Print the end of a sweep, and write it to its folder."""
    if not progress.over:
        return
    jobs = [job for job in progress.known if job.ended is not None]
    done = [job for job in jobs if job.ended in (FINISHED, BEFORE) and _whole(job)]
    lines = [_head(progress), *_missing(progress)]
    table, numbers = _compared(done)
    text = "\n\n".join(filter(None, [lines[0], table, "\n".join(lines[1:])]))
    print(f"\n{text}", flush=True)
    if table:
        # the folder of a sweep with a name also holds the runs of others
        mark = "" if progress.sweep == ADHOC else f"_{progress.sweep.replace('/', '-')}"
        names = [f"{Path(file).stem}{mark}{Path(file).suffix}" for file in (TABLE, NUMBERS)]
        for name, content in zip(names, (text, numbers), strict=True):
            write_whole(progress.folder / name, f"{content.rstrip()}\n")
        print(f"\nwritten to {progress.folder / names[0]}; every metric in {names[1]} beside it")
        if not mark:
            folder = shlex.quote(str(progress.folder))
            print(f"to draw them: {_command('compare')} {folder} --curves curves.png")
        sys.stdout.flush()


def _whole(job: Job) -> bool:
    return job.run_dir is not None and all((job.run_dir / f).exists() for f in (METRICS, RECORD))


def _head(progress: Progress) -> str:
    over = progress.ended(FINISHED, BEFORE)
    of = f"{len(over)} of {progress.jobs or len(progress.known)} jobs finished"
    ways = {how: len(progress.ended(how)) for how in (BEFORE, FAILED, REFUSED, STOPPED)}
    said = [
        f"{count} {'of them before' if how == BEFORE else how}"
        for how, count in ways.items()
        if count
    ]
    never = 0 if progress.jobs is None else progress.jobs - progress.over
    said += [f"{never} never begun"] if never else []
    seconds = clock(progress.elapsed())
    return f"sweep over: {', '.join([of, *said])}; {seconds} elapsed"


def _compared(jobs: Sequence[Job]) -> tuple[str, str]:
    """The comparison as text, and every metric of it as CSV; empty with fewer than two runs."""
    run_dirs = [job.run_dir for job in jobs if job.run_dir is not None]
    if len(run_dirs) < 2:
        return "", ""
    # pandas and scipy: only at the end
    from cory.report.compare import compared, comparison_text  # noqa: PLC0415

    table, metrics = compared(run_dirs)
    return comparison_text(table, metrics), table.to_csv()


def _missing(progress: Progress) -> list[str]:
    """What failed, and the command that goes on."""
    bad = progress.ended(FAILED, REFUSED, STOPPED)
    if not bad and (progress.jobs is None or progress.over == progress.jobs):
        return []
    lines = ["not finished:"] if bad else []
    for job in bad:
        # one that failed before it had begun has left no folder
        where = f" in {job.run_dir}" if job.run_dir is not None and job.run_dir.exists() else ""
        reason = f": {job.reason.removeprefix('error: ')}" if job.reason else ""
        lines.append(f"  job {job.number}: {job.name} {job.ended}{where}{reason}")
    if progress.jobs is None:
        return lines
    return [*lines, "to go on (finished runs are not repeated):", f"  {going_on(progress)}"]


def going_on(progress: Progress) -> str:
    """The command that does what is missing of a sweep, in the same folder."""
    words = typed()
    given = any(word.startswith(f"{FOLDER}=") for word in words)
    if not given and any(TIME.match(part) for part in progress.folder.parts):
        words = [*words, f"{FOLDER}={progress.folder}"]
    return f"{_command('train')} {shlex.join(words)}"


def _command(name: str) -> str:
    """How this installation calls a command."""
    if Path(sys.argv[0]).name.startswith("cory-"):
        return f"cory-{name}"
    return "python -m cory.train" if name == "train" else f"python -m cory.report.{name}"
