"""The kinds of answers that `task.answers` can name: how each is read and compared; verdicts."""

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial

from cory import distributed
from cory.config import PromptsConfig
from cory.episode import Episode
from cory.tasks import Form
from cory.tasks.answers import (
    BOX,
    CHOICES,
    LABELS,
    WORDS,
    final_choice,
    final_label,
    final_number,
    final_text,
    is_number,
    last_box,
    plain_formula,
)
from cory.tasks.sandbox.equality import Answer

SENTENCE = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{2,}\s+[a-zA-Z]{2,}")  # two words, no commands

MARK = "####"  # stands before the number, after a worked solution


@dataclass(frozen=True)
class AnswerKind:
    """Reads the answers of one kind from responses and from data."""

    read: Callable[[str], Hashable | None]  # response -> its answer; None: none can be read
    # value in the data, as text -> a text from which `read` reads it; None: it is no such answer
    gold: Callable[[str], str | None]
    wanted: str  # what a value in the data must be, for refusals


def answer_kind(config: PromptsConfig) -> AnswerKind:
    """The kind of answers of a task, by `task.answers`."""
    if config.answers == "number":
        read = partial(final_number, next_question=config.next_question)
        return AnswerKind(read, number_in_data, f"a number, alone or after {MARK}")
    if config.answers == "choice":
        return AnswerKind(final_choice, partial(one_of, CHOICES), "a letter from A to D, or 0 to 3")
    if config.answers == "label":
        return AnswerKind(
            final_label, partial(one_of, LABELS), f"0, 1, 2 or one of {', '.join(LABELS)}"
        )
    if config.answers == "formula":

        def read_formula(response: str) -> Answer | None:
            formula = last_box(response)
            # of dots alone, which a prompt may show, nothing is left
            return Answer(formula, config.seconds) if formula and plain_formula(formula) else None

        wanted = "a formula, alone or in a closed \\boxed{...}"
        return AnswerKind(read_formula, formula_in_data, wanted)
    return AnswerKind(
        final_text, lambda text: text if final_text(text) else None, "a text with letters or digits"
    )


def number_in_data(text: str) -> str | None:
    """A number, or the one at the end of a worked solution."""
    number = text.rpartition(MARK)[2].strip()
    return number if is_number(number) else None


def one_of(names: Sequence[str], text: str) -> str | None:
    """The name, of these, that a text is; or the number of, counted from 0, as 1 or 1.0."""
    numbers = {str(number): name for number, name in enumerate(names)}
    return text if text in [*names] else numbers.get(text.removesuffix(".0"))


def formula_in_data(text: str) -> str | None:
    """A formula in a box, whether or not it has one in the data; None for sentences without."""
    if not BOX.search(text) and SENTENCE.search(WORDS.sub("", text)):
        return None
    formula = last_box(text if BOX.search(text) else f"\\boxed{{{text}}}")
    return f"\\boxed{{{formula}}}" if formula and plain_formula(formula) else None


def judged(form: Form, responses: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether each response gives its prompt's answer, as the first process finds it.

    Where formulas are compared, time may run out in one process and not in another; what follows
    from a verdict would then differ between them. Every process calls this.

    responses: (response, right answer)
    """
    return distributed.first_works(lambda: [form.is_right(*pair) for pair in responses])


def judge_rest(form: Form, episodes: Sequence[Episode]) -> None:
    """Fill `turn.right` where the reward did not; of prompts with answers, and turns not absent."""
    rest = [
        (str(episode.prompt.answer), turn)
        for episode in episodes
        for turn in episode.turns
        if episode.prompt.answer is not None and turn.right is None and not turn.absent
    ]
    verdicts = judged(form, [(turn.response, answer) for answer, turn in rest])
    for (_, turn), right in zip(rest, verdicts, strict=True):
        turn.right = right
