"""Files of questions, and files of debates, which grow batch by batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cory.config import ConfigError, require
from cory.runs.jsonl import JsonlStore, Line
from cory.runs.run_dir import line_of
from cory.tasks.data.tables import FORMATS, column, local_table

TEXT = ".txt"  # a question per line
ANSWER = "answer"  # the column of answers, if the file has it and none is named
BEGINNING = b'{"row": '  # of every line of a file of debates


@dataclass(frozen=True)
class Question:
    """A question and its right answer; None: unknown."""

    text: str
    answer: str | None


def read_questions(path: Path, columns: Sequence[str], answer: str | None) -> list[Question]:
    """The questions of a file; all have an answer, or none has.

    columns: whose texts make up a question, one below the other; of a list, a line per entry
    answer: column of the right answer; None: ANSWER, if the file has it
    """
    where = f"--questions={path}"
    require(path.is_file(), f"{where}: there is no such file")
    if path.suffix == TEXT:
        require(answer is None, f"--answer-column={answer}: {path} is a text without columns")
        found = [Question(text, None) for text in _lines(path, where)]
    else:
        kinds = ", ".join((*FORMATS, TEXT))
        require(path.suffix in FORMATS, f"{where} must end in one of {kinds}")
        found = _rows(path, where, columns, answer)
    require(bool(found), f"{where}: there is no question in it")
    return found


def _lines(path: Path, where: str) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except ValueError as error:
        raise ConfigError(f"{where}: cannot be read: {error}") from None
    return [line.strip() for line in text.split("\n") if line.strip()]


def _rows(path: Path, where: str, columns: Sequence[str], answer: str | None) -> list[Question]:
    needed = [*columns, *([] if answer is None else [answer])]
    table = local_table(str(path), "train", needed, "--questions", sliced=False)
    parts = [column(table, "--question-column", name) for name in columns]
    if answer is None and ANSWER in table:
        answer = ANSWER
    answers = None if answer is None else column(table, "--answer-column", answer)
    found = []
    for row, values in enumerate(zip(*parts, strict=True)):
        texts = [
            _text(value, f"{where}: row {row}", name)
            for name, value in zip(columns, values, strict=True)
        ]
        right = None
        if answer is not None and answers is not None:
            right = _text(answers[row], f"{where}: row {row}", answer)
        found.append(Question("\n".join(texts), right))
    return found


def _text(value: object, where: str, name: str) -> str:
    """A value as text; of a list, a line per entry."""
    if isinstance(value, list):
        return "\n".join(_text(entry, where, name) for entry in value)
    text = "" if value is None else str(value).strip()
    require(bool(text), f"{where} has no text in '{name}'")
    return text


class DebateFile:
    """A .jsonl file of debates, a line for each question, in the order of the questions."""

    def __init__(
        self, path: Path, settings: Mapping[str, Any], questions: Sequence[Question]
    ) -> None:
        """Go on with the debates of the file; ConfigError if settings or questions are others.

        settings: of `Debaters.settings`; every line holds them
        """
        self.where = where = f"--out={path}"
        self.settings = dict(settings)
        self.store = JsonlStore(path, name=where)
        rows, torn = self.store.read()
        self.lines = self._checked(rows, questions)
        require(
            torn[: len(BEGINNING)] == BEGINNING[: len(torn)],
            f"{where} holds something else than debates; choose another file",
        )
        self.store.open(rows)

    def add(self, lines: Sequence[Line]) -> None:
        """Append debates; they are on the disk itself when this returns."""
        self.store.append(lines)
        self.lines += lines

    def close(self) -> None:
        """Nothing more is added."""
        self.store.close()

    def _checked(self, rows: Sequence[bytes], questions: Sequence[Question]) -> list[Line]:
        where = self.where
        require(
            len(rows) <= len(questions),
            f"{where} holds {len(rows)} debates, --questions has {len(questions)}; choose another "
            f"file",
        )
        found = []
        for number, (row, question) in enumerate(zip(rows, questions, strict=False)):
            try:
                line: Line = line_of(row)
                settings, asked = line["settings"], (line["row"], line["question"], line["answer"])
                theirs = {key: settings[key] for key in self.settings}
            except (ValueError, TypeError, LookupError):
                raise ConfigError(
                    f"{where}: line {number + 1} is no debate of this command; choose another file"
                ) from None
            for key, ours in self.settings.items():
                require(
                    theirs[key] == ours,
                    f"{where} holds debates with {key}={theirs[key]}, not {ours}; choose another "
                    f"file",
                )
            require(
                asked == (number, question.text, question.answer),
                f"{where}: line {number + 1} is about another question than row {number} of "
                f"--questions; choose another file",
            )
            found.append(line)
        return found
