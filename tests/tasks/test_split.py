"""Problems in two halves: what one agent knows is worth no more than chance, both solve them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

from cory.config import read_sweep
from cory.tasks.problems import HALVED, Problem
from cory.tasks.prompts import PromptsTask, generated_rows
from tests.support.composing import CONF, parsed

CHANCE = {"addends_1": 0.1, "addends_2": 0.1, "rows_1": 0.1, "rows_2": 0.1, "roads_4": 0.25}


def drawn(kind: str, count: int = 60_000) -> list[Problem]:
    stream = np.random.default_rng(0)
    return [HALVED[kind](stream) for _ in range(count)]


def best_guess(problems: list[Problem], *known: str) -> float:
    """How often the likeliest answer is right, of those who know these columns."""
    answers: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for problem in problems:
        answers[tuple(problem.columns[name] for name in known)][problem.answer] += 1
    return sum(max(seen.values()) for seen in answers.values()) / len(problems)


@pytest.mark.parametrize("kind", CHANCE)
def test_alone_nobody_is_better_than_chance_and_the_message_is_enough(kind: str) -> None:
    problems = drawn(kind)
    # the likeliest of a sample is a little above its probability
    assert best_guess(problems, "question", "second") == pytest.approx(CHANCE[kind], abs=0.035)
    assert best_guess(problems, "question", "first") <= CHANCE[kind] + 0.035
    assert best_guess(problems, "question", "second", "message") == 1.0


def test_answers_are_as_worked_out_by_hand() -> None:
    for kind in ("addends_3", "rows_4", "roads_8"):
        for problem in drawn(kind, 200):
            first, second = problem.columns["first"], problem.columns["second"]
            if kind == "addends_3":
                expected = str(eval(f"{first} + {second}"))
            else:
                row = dict(pair.split(" ") for pair in second.split(", "))
                place = problem.columns["question"].removesuffix("?").split(" ")[-1]
                expected = row.get(first.removeprefix("at "), "")
                if kind == "rows_4":
                    other = dict(pair.split(" ") for pair in first.split(", "))
                    expected = str(int(row[place]) + int(other[place]))
            assert problem.answer == expected, problem


def test_the_task_hands_halves_to_the_play(tokenizer: Any) -> None:
    settings = parsed("experiment=split", "task.train_problems=40", "task.test_problems=10").task
    task = PromptsTask(settings, tokenizer, np.random.default_rng(0))
    prompts = [*task.held_out(None, "train"), *task.held_out(None, "test")]
    assert len({prompt.text for prompt in prompts}) == 50
    for prompt in prompts:
        told = prompt.columns
        assert prompt.text == f"{told['question']} {told['first']}; {told['second']}"
        assert prompt.answer == told["answer"] and task.is_right(told["answer"], prompt.answer)


@pytest.mark.slow
def test_there_are_as_many_problems_as_the_sweep_asks_for() -> None:
    for words in read_sweep("split/learns", "paper", [CONF]).runs.values():
        config = parsed(*words).task
        for part, split in (("train", config.train_split), ("test", config.test_split)):
            rows = generated_rows(config, part, split)
            assert len(rows) == getattr(config, f"{part}_problems")
