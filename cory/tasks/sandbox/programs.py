"""Questions whose answers are what their programs return, as TinyGSM's (Liu et al., 2023)."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from cory import distributed
from cory.config import ConfigError, ProgramsConfig, require
from cory.tasks.data.tables import column, hub_table, local_table
from cory.tasks.sandbox.process import GUARD, Limits, ProgramResult, program_results

DECIMALS = 9  # more are noise of the computer's fractions: 0.1 + 0.2 is 0.30000000000000004


def answered_questions(
    config: ProgramsConfig, source: str, split: str
) -> list[tuple[int, str, str]]:
    """Row, question and answer, of the rows whose program returns an answer that is asked for."""
    questions, programs = load_programs(config, source, split)
    # one process runs them, whatever the number of processes
    found = distributed.from_first(
        run_programs(config, programs) if distributed.rank() == 0 else []
    )
    if distributed.rank() == 0:
        tell(config, found)
    answers = [answer_of(outcome, config.answers) for outcome in found]
    kept = [
        (row, question, answer)
        for row, (question, answer) in enumerate(zip(questions, answers, strict=True))
        if answer is not None
    ]
    require(bool(kept), f"task.programs.path={config.path}: no program returned an answer")
    return kept


def tell(config: ProgramsConfig, found: Sequence[ProgramResult]) -> None:
    """How many questions are left out, and why."""
    left = Counter(
        "no integer" if outcome.word == "value" else outcome.word.replace("_", " ")
        for outcome in found
        if answer_of(outcome, config.answers) is None
    )
    if left:
        reasons = ", ".join(f"{reason} {count}" for reason, count in left.most_common())
        print(
            f"note: task.programs.answers={config.answers} leaves out {left.total()} of "
            f"{len(found)} training questions: {reasons}",
            file=sys.stderr,
        )


def load_programs(config: ProgramsConfig, source: str, split: str) -> tuple[list[str], list[str]]:
    """Questions and programs."""
    names = (config.question_column, config.code_column)
    if source == "hub":
        offline = "task.source=path with a local file or folder"
        table = hub_table(config.path, None, split, offline, "task.programs.path")
    else:
        table = local_table(config.path, split, names, "task.programs.path")
    keys = ("task.programs.question_column", "task.programs.code_column")
    columns = [column(table, key, name) for key, name in zip(keys, names, strict=True)]
    for name, texts in zip(names, columns, strict=True):
        for row, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise ConfigError(
                    f"task.programs.path={config.path}: row {row} has no text in '{name}'"
                )
    questions, programs = columns
    return questions, programs


def run_programs(config: ProgramsConfig, programs: Sequence[str]) -> list[ProgramResult]:
    """What became of each program; those that were run before are not run again.

    Each outcome is written as soon as it is known, so that a run that was killed goes on.
    """
    file = cache_of(config)
    known = read_cache(file)
    names = [hashlib.sha256(program.encode(errors="replace")).hexdigest() for program in programs]
    missing = {name: text for name, text in zip(names, programs, strict=True) if name not in known}
    if missing:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            cache = file.open("a", encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"task.programs.cache={config.cache} cannot be written: {error.strerror}"
            ) from error
        print(
            f"note: runs {len(missing)} programs of task.programs.path={config.path}; what they "
            f"return is kept in {file}",
            file=sys.stderr,
        )
        with cache:
            cache.write("\n")  # ends a line that a kill may have torn
            limits = Limits(config.seconds, config.memory)
            found = program_results(list(missing.values()), config.function, limits)
            for name, outcome in zip(missing, found, strict=True):
                known[name] = outcome
                cache.write(json.dumps([name, outcome.word, outcome.detail]) + "\n")
                cache.flush()
    return [known[name] for name in names]


def cache_of(config: ProgramsConfig) -> Path:
    """The file for these limits and this sandbox: under others a program may end otherwise."""
    rules = f"{config.function} {config.seconds} {config.memory}".encode() + GUARD.read_bytes()
    name = f"programs-{hashlib.sha256(rules).hexdigest()[:12]}.jsonl"
    return Path(config.cache).expanduser() / name


def read_cache(file: Path) -> dict[str, ProgramResult]:
    """The outcomes in a file, by the hash of their program; torn lines do not count."""
    if not file.exists():
        return {}
    known = {}
    for line in file.read_bytes().splitlines():
        try:
            name, word, detail = json.loads(line)
        except ValueError:
            continue
        known[name] = ProgramResult(word, detail)
    return known


def answer_of(outcome: ProgramResult, kept: str) -> str | None:
    """The number as a data set would print it; None where it is none that is kept.

    kept: integers | numbers
    """
    if outcome.word != "value":
        return None
    value = round(Decimal(outcome.detail), DECIMALS)
    if value == value.to_integral_value():
        return str(int(value))
    return f"{value.normalize():f}" if kept == "numbers" else None
