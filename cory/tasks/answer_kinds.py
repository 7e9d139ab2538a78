"""The kinds of answers that `task.answers` can name: how each is read and compared."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from cory.tasks.answers.answers import final_number, is_number
from cory.tasks.answers.choices import CHOICES, final_choice
from cory.tasks.answers.formulas import BOX, last_box, plain_formula
from cory.tasks.answers.texts import final_text
from cory.tasks.sandbox.equality import Answer, equality

MARK = "####"  # stands before the number, after a worked solution


@dataclass(frozen=True)
class AnswerKind:
    """Reads the answers of one kind from responses and from data."""

    read: Callable[[str], Hashable | None]  # response -> its answer; None: none can be read
    # value in the data -> a text from which `read` reads it; None: it is no such answer
    gold: Callable[[object], str | None]
    wanted: str  # what a value in the data must be, for refusals


def answer_kind(name: str, seconds: int) -> AnswerKind:
    """The kind of this name, a choice of task.answers.

    seconds: of processor time in which two formulas must be found equal
    """
    if name == "number":
        return AnswerKind(final_number, number_in_data, f"a number, alone or after {MARK}")
    if name == "choice":
        return AnswerKind(final_choice, choice_in_data, "a letter from A to D, or 0 to 3")
    if name == "formula":
        compared = equality(seconds)

        def read(response: str) -> Answer | None:
            formula = last_box(response)
            # of dots alone, which a prompt may show, nothing is left
            return Answer(formula, compared) if formula and plain_formula(formula) else None

        return AnswerKind(read, formula_in_data, "a formula, alone or in a closed \\boxed{...}")
    if name == "text":
        return AnswerKind(final_text, text_in_data, "a text with letters or digits")
    raise ValueError(f"no kind of answers is called {name}")


def number_in_data(value: object) -> str | None:
    """A number, or the one at the end of a worked solution."""
    text = as_text(value).rpartition(MARK)[2].strip()
    return text if is_number(text) else None


def choice_in_data(value: object) -> str | None:
    """The letter of an option that is given as a letter or counted from 0."""
    text = as_text(value).strip().upper()
    if text.isdecimal() and len(text) <= 3 and int(text) < len(CHOICES):
        return CHOICES[int(text)]
    return text if len(text) == 1 and text in CHOICES else None


def formula_in_data(value: object) -> str | None:
    """A formula in a box, whether or not it has one in the data."""
    text = as_text(value).strip()
    formula = last_box(text if BOX.search(text) else f"\\boxed{{{text}}}")
    return f"\\boxed{{{formula}}}" if formula and plain_formula(formula) else None


def text_in_data(value: object) -> str | None:
    """Words, of which an answer can be read."""
    text = as_text(value).strip()
    return text if final_text(text) is not None else None


def as_text(value: object) -> str:
    """A text, a number or a truth value as text; of anything else, nothing."""
    return str(value) if isinstance(value, str | int | float) else ""
