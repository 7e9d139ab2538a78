"""Questions whose answers are computed by programs, as those of TinyGSM (Liu et al., 2023)."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from cory import distributed
from cory.config import ConfigError, ProgramsConfig, require
from cory.tasks.data.tables import column_rows, row_texts
from cory.tasks.sandbox.process import GUARD, Limits, ProgramResult, checked, program_results

DECIMALS = 9  # more are rounding errors of floats: 0.1 + 0.2 is 0.30000000000000004


def answered_questions(
    config: ProgramsConfig, source: str, split: str
) -> list[tuple[int, str, str]]:
    """(row, question, answer) of the rows whose program returns an answer of the kind asked for."""
    questions, programs = load_programs(config, source, split)
    results = distributed.first_works(lambda: run_programs(config, programs))
    report_left_out(config, results)
    answers = [answer_of(result, config.answers) for result in results]
    kept = [
        (row, question, answer)
        for row, (question, answer) in enumerate(zip(questions, answers, strict=True))
        if answer is not None
    ]
    require(bool(kept), f"task.programs.path={config.path}: no program returned an answer")
    return kept


def report_left_out(config: ProgramsConfig, results: Sequence[ProgramResult]) -> None:
    """Prints how many questions are left out, and why."""
    reasons = Counter(
        "no integer" if result.word == "value" else result.word.replace("_", " ")
        for result in results
        if answer_of(result, config.answers) is None
    )
    if reasons:
        listed = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
        distributed.note(
            f"task.programs.answers={config.answers} leaves out {reasons.total()} of "
            f"{len(results)} training questions: {listed}"
        )


def load_programs(config: ProgramsConfig, source: str, split: str) -> tuple[list[str], list[str]]:
    """The questions of a split, and their programs."""
    names = (config.question_column, config.code_column)
    keys = ("task.programs.question_column", "task.programs.code_column")
    columns = dict(zip(keys, names, strict=True))
    setting = {"split_key": "task.train_split", "key": "task.programs.path"}
    rows = column_rows(source, config.path, split, columns, **setting)
    texts = [
        row_texts(f"task.programs.path={config.path}: row {row}", *zip(names, values, strict=True))
        for row, values in enumerate(rows)
    ]
    return [question for question, _ in texts], [program for _, program in texts]


def run_programs(config: ProgramsConfig, programs: Sequence[str]) -> list[ProgramResult]:
    """The result of each program; results in the cache are not computed again.

    Each result is cached at once, so that a run that was killed goes on where it was.
    """
    file = cache_file(config)
    cached = read_cache(file)
    hashes = [hashlib.sha256(program.encode(errors="replace")).hexdigest() for program in programs]
    missing = {key: text for key, text in zip(hashes, programs, strict=True) if key not in cached}
    if missing:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            cache = file.open("a", encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"task.programs.cache={config.cache} cannot be written: {error.strerror}"
            ) from error
        distributed.note(
            f"runs {len(missing)} programs of task.programs.path={config.path}; what they return "
            f"is kept in {file}"
        )
        with cache:
            cache.write("\n")  # ends a line that a kill may have torn
            limits = Limits(config.seconds, config.memory)
            results = program_results(list(missing.values()), config.function, limits)
            for key, result in zip(missing, results, strict=True):
                cached[key] = result
                cache.write(json.dumps([key, result.word, result.detail]) + "\n")
                cache.flush()
    return [cached[key] for key in hashes]


def cache_file(config: ProgramsConfig) -> Path:
    """The file of results under these limits and this sandbox; others may change a result."""
    rules = f"{config.function} {config.seconds} {config.memory}".encode() + GUARD.read_bytes()
    name = f"programs-{hashlib.sha256(rules).hexdigest()[:12]}.jsonl"
    return Path(config.cache).expanduser() / name


def read_cache(file: Path) -> dict[str, ProgramResult]:
    """The results in a file, by the hash of their program; torn lines do not count.

    A result that no program can have had is a forged one, as in `run_program`.
    """
    if not file.exists():
        return {}
    results = {}
    for line in file.read_bytes().splitlines():
        try:
            key, word, detail = json.loads(line)
        except (ValueError, TypeError):
            continue
        results[str(key)] = checked(str(word), str(detail))
    return results


def answer_of(result: ProgramResult, kept: str) -> str | None:
    """The number as a data set would print it; None for a result that is not kept.

    kept: integers | numbers
    """
    if result.word != "value":
        return None
    value = round(Decimal(result.detail), DECIMALS)
    if value == value.to_integral_value():
        return str(int(value))
    return f"{value.normalize():f}" if kept == "numbers" else None
