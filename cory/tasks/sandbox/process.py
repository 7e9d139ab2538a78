"""Runs untrusted programs, each in a restricted interpreter of its own (guard.py).

And TinyGSM's questions, whose answers are what their programs return.

docs/SECURITY.md lists what this prevents, and what it does not.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from pathlib import Path

from cory import distributed
from cory.config import ProgramsConfig, PromptsConfig, require
from cory.tasks.tables import Row, require_columns, rows_of

GUARD = Path(__file__).with_name("guard.py")
WALL = 5  # seconds of wall time per second of processor time; other work may slow a program down
# a number as Python writes it: an integer, or a float in one of its two forms
NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?|[0-9](?:\.[0-9]+)?e[+-][0-9]{2,3})")
LARGEST = 10**18  # no answer to a word problem has more digits
DECIMALS = 9  # more are rounding errors of floats: 0.1 + 0.2 is 0.30000000000000004
OUT_OF_TIME, CRASHED = "out_of_time", "crashed"
REASONS = ("no_number", "no_function", "raised", "refused")  # of guard.py


def program_results(programs: Sequence[str], config: ProgramsConfig) -> list[str]:
    """What `run_program` returns of each; one runs per processor core at a time."""
    require(
        sys.platform.startswith("linux"),
        f"task.programs: programs are run on Linux only, whose kernel limits them; this is "
        f"{sys.platform}",
    )
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(partial(run_program, config=config), programs))


def run_program(program: str, config: ProgramsConfig) -> str:
    """The number that a program's function returned, as Python writes it, or why there is none.

    A program may forge its result, as one that it could have returned. No other text, and no action
    of a program, gets here.
    """
    limits = (config.seconds, config.memory * 2**20)
    with tempfile.TemporaryFile() as output:
        try:
            code = subprocess.run(
                [sys.executable, "-I", "-S", str(GUARD), config.function, *map(str, limits)],
                input=program.encode(errors="replace"),
                stdout=output,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                timeout=WALL * config.seconds,
                start_new_session=True,
            ).returncode
        except subprocess.TimeoutExpired:
            return OUT_OF_TIME
        output.seek(0)
        result = output.read().decode("ascii", "replace")
    if code == 0 and (NUMBER.fullmatch(result) or result in REASONS):
        return result
    return OUT_OF_TIME if -code in (signal.SIGXCPU, signal.SIGKILL) else CRASHED


def answered_questions(config: PromptsConfig, split: str) -> list[Row]:
    """The questions of a split whose program returns a whole number, with it."""
    assert config.programs is not None  # the caller has looked
    programs, key = config.programs, "task.programs.path"
    rows = rows_of(config.source, programs.path, split, key)
    columns = {
        "task.programs.question_column": programs.question_column,
        "task.programs.code_column": programs.code_column,
    }
    require_columns(rows, columns.items())
    texts = [str(row.values[programs.code_column]) for row in rows]
    distributed.note(f"runs {len(texts)} programs of {key}={programs.path}")
    # several processes must have the same answers: a program may end in time in one of them alone
    results = distributed.first_works(lambda: program_results(texts, programs))
    kept = []
    for row, result in zip(rows, results, strict=True):
        if (answer := answer_of(result)) is None:
            continue
        asked = row.values[programs.question_column]
        kept.append(Row(row.id, {config.prompt_column: asked, str(config.answer_column): answer}))
    if left_out := len(rows) - len(kept):
        distributed.note(f"task.programs: {left_out} of {len(rows)} questions have no whole answer")
    require(bool(kept), f"{key}={programs.path}: no program returned an answer")
    return kept


def answer_of(result: str) -> str | None:
    """The whole number that a program returned, as a data set would print it; None: no such one."""
    if not NUMBER.fullmatch(result) or abs(Decimal(result)) >= LARGEST:
        return None
    value = round(Decimal(result), DECIMALS)
    return str(int(value)) if value == value.to_integral_value() else None
