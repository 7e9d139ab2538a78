"""Runs untrusted programs, each in a restricted interpreter of its own (guard.py).

And TinyGSM's questions, whose answers are what their programs return.

docs/SECURITY.md lists what this prevents, and what it does not.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path

from cory import distributed
from cory.config import ConfigError, PromptsConfig, require
from cory.tasks.tables import Row, is_blank, rows_of

GUARD = Path(__file__).with_name("guard.py")
WALL = 5  # seconds of wall time per second of processor time; other work may slow a program down
LATE = 5.0  # further seconds after which an interpreter that did not end itself is killed
OUT_OF_TIME, CRASHED, FORGED = "out_of_time", "crashed", "forged"
LONGEST = 200  # bytes of a result; guard.py writes at most 60
# a number as Python writes it: an integer, or a float in one of its two forms
NUMBER = re.compile(r"-?(?:[0-9]{1,18}|[0-9]+\.[0-9]+|[0-9](?:\.[0-9]+)?e[+-][0-9]{2,3})")
LARGEST = 10**18  # as in guard.py
WORDS = ("no_number", "too_large", "no_function", "raised", "out_of_memory", "refused")
TIMERS = (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL)


@dataclass(frozen=True)
class Limits:
    """Resource limits of one program."""

    seconds: int  # of processor time
    memory: int  # MiB of address space, about 20 of the interpreter included


@dataclass(frozen=True)
class ProgramResult:
    """The number that a program's function returned, or the reason why there is none."""

    word: str  # value | another word of guard.py | out_of_time | crashed | forged
    detail: str  # value: the number, as Python writes it; else a detail of the reason, or nothing


def checked(word: str, detail: str) -> ProgramResult:
    """The result, if it is one that guard.py can write; else that the program has forged it.

    A program runs in the process that writes its result, and can write there itself.
    """
    if word == "value":
        genuine = bool(NUMBER.fullmatch(detail)) and abs(Decimal(detail)) < LARGEST
    else:
        genuine = (
            word in (*WORDS, OUT_OF_TIME, CRASHED) and len(detail) <= 40 and detail.isprintable()
        )
    return ProgramResult(word, detail) if genuine else ProgramResult(FORGED, "")


def program_results(
    programs: Sequence[str], function: str, limits: Limits
) -> Iterator[ProgramResult]:
    """The results of the programs in their order; one runs per processor core at a time.

    No action of a program raises an exception here.
    """
    require(
        sys.platform.startswith("linux"),
        f"task.programs: programs are run on Linux only, whose kernel limits them; "
        f"this is {sys.platform}",
    )
    with tempfile.TemporaryDirectory(prefix="cory-") as folder:
        pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
        try:
            yield from pool.map(
                lambda program: run_program(program, function, limits, folder), programs
            )
        finally:
            pool.shutdown(cancel_futures=True)


def run_program(program: str, function: str, limits: Limits, folder: str) -> ProgramResult:
    """The result of one program, run in `folder`, which should be empty."""
    wall = WALL * limits.seconds
    numbers = [str(limits.seconds), str(wall), str(limits.memory * 2**20)]
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", str(GUARD), function, *numbers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={},
        start_new_session=True,  # so that its own children can be killed, too
    )
    assert child.stdin is not None and child.stdout is not None
    kill = partial(os.killpg, child.pid, signal.SIGKILL)
    late = threading.Timer(wall + LATE, kill)  # for an interpreter that does not end itself
    late.daemon = True
    late.start()
    with child.stdout:
        with contextlib.suppress(BrokenPipeError), child.stdin:
            child.stdin.write(program.encode(errors="replace"))  # all is read before it starts
        output = child.stdout.read(LONGEST + 1)
        if len(output) > LONGEST:
            kill()
        child.wait()
    late.cancel()
    if len(output) > LONGEST:
        return ProgramResult(FORGED, "")
    if child.returncode == 0 and output:
        word, _, detail = output.decode("ascii", "replace").partition(" ")
        return checked(word, detail)
    return ProgramResult(OUT_OF_TIME if -child.returncode in TIMERS else CRASHED, "")


DECIMALS = 9  # more are rounding errors of floats: 0.1 + 0.2 is 0.30000000000000004


def answered_questions(config: PromptsConfig, split: str) -> list[Row]:
    """The questions of a split whose program returns a whole number, with it."""
    assert config.programs is not None  # the caller has looked
    programs, key = config.programs, "task.programs.path"
    columns = {
        "task.programs.question_column": programs.question_column,
        "task.programs.code_column": programs.code_column,
    }
    where = {"split_key": "task.train_split", "key": key}
    rows = rows_of(config.source, programs.path, split, columns=columns, **where)
    for row in rows:
        for name in columns.values():
            text = row.values[name]
            if not isinstance(text, str) or is_blank(text):
                raise ConfigError(f"{row.where} has no text in '{name}'")
    texts = [row.values[programs.code_column] for row in rows]
    distributed.note(f"runs {len(texts)} programs of {key}={programs.path}")
    limits = Limits(programs.seconds, programs.memory)
    # several processes must have the same answers: a program may end in time in one of them alone
    results = distributed.first_works(
        lambda: list(program_results(texts, programs.function, limits))
    )
    report_left_out(results)
    answers = [answer_of(result) for result in results]
    kept = [(row, answer) for row, answer in zip(rows, answers, strict=True) if answer is not None]
    require(bool(kept), f"{key}={programs.path}: no program returned an answer")
    asked, column = config.prompt_column, str(config.answer_column)
    return [
        Row(row.id, row.where, {asked: row.values[programs.question_column], column: answer})
        for row, answer in kept
    ]


def report_left_out(results: Sequence[ProgramResult]) -> None:
    """Prints how many questions are left out, and why."""
    reasons = Counter(
        "no integer" if result.word == "value" else result.word.replace("_", " ")
        for result in results
        if answer_of(result) is None
    )
    if reasons:
        listed = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
        distributed.note(
            f"task.programs: {reasons.total()} of {len(results)} training questions are left out: "
            f"{listed}"
        )


def answer_of(result: ProgramResult) -> str | None:
    """The whole number that a program returned, as a data set would print it; None: no such one."""
    if result.word != "value":
        return None
    value = round(Decimal(result.detail), DECIMALS)
    return str(int(value)) if value == value.to_integral_value() else None
