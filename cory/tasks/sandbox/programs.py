"""Questions whose answers are computed by programs, as those of TinyGSM (Liu et al., 2023)."""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

from cory import distributed
from cory.config import ConfigError, PromptsConfig, require
from cory.tasks.data.tables import Row, is_blank, rows_of
from cory.tasks.sandbox.process import Limits, ProgramResult, program_results

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
