"""Generated problems: the worked answers are right, and no question is in two parts."""

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from cory.config import ConfigError
from cory.tasks.answers import final_number
from cory.tasks.problems import HALVED, KINDS, PARTS, draw_distinct, part_of
from cory.tasks.prompts import PromptsTask
from tests.support.composing import parsed


def task(tokenizer: Any, *overrides: str, seed: int = 0) -> PromptsTask:
    settings = parsed("task=arithmetic", "task.max_prompt_tokens=500", *overrides).task
    return PromptsTask(settings, tokenizer, np.random.default_rng(seed))


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - HALVED))
def test_every_step_of_a_worked_answer_is_right(kind: str) -> None:
    stream = np.random.default_rng(0)
    for _ in range(300):
        problem = KINDS[kind](stream)
        steps = re.findall(r"([-\d][-+*/ \d]*) = (-?\d+)", problem.solution)
        assert steps, problem
        for left, right in steps:
            assert eval(left) == int(right), problem
        assert steps[-1][1] == problem.answer
        assert problem.kind == kind and final_number(problem.solution) == int(problem.answer)
        if kind != "story":
            asked = problem.question.removeprefix("What is ").removesuffix("?")
            assert eval(asked) == int(problem.answer), problem


def test_a_story_has_the_answer_that_it_asks_for() -> None:
    for seed, question, answer in (  # answers by hand
        (0, "Mina sells 2 coins for $2 each and 2 marbles for $3 each. How many dollars", "10"),
        (1, "Kim had 58 stamps, found 6 more and gave 10 to a friend. How many", "54"),
        (4, "Tara has 63 stones, keeps 9 and shares the rest equally among 6 friends. How", "9"),
        (11, "Cleo has 30 stamps and buys 6 boxes with 7 stamps each. How many stamps", "72"),
    ):
        story = KINDS["story"](np.random.default_rng(seed))
        assert story.question.startswith(question) and story.answer == answer


def test_each_part_has_its_share_of_questions() -> None:
    stream = np.random.default_rng(3)
    shares = Counter(part_of(KINDS["story"](stream).question) for _ in range(4000))
    for part, hundredths in PARTS.items():
        assert abs(shares[part] / 40 - hundredths) < 3, shares


def test_all_the_problems_that_there_are_can_be_asked_for_and_no_more() -> None:
    few = r"multiply: only \d+ questions found in part test"
    with pytest.raises(ConfigError, match=few) as refusal:
        draw_distinct(np.random.default_rng(5), ["multiply"], "test", 200)
    (all_of_them,) = map(int, re.findall(r"\d+", str(refusal.value)))
    stream = np.random.default_rng(6)
    assert len(draw_distinct(stream, ["multiply"], "test", all_of_them)) == all_of_them > 20


def test_the_task_asks_generated_questions(tokenizer: Any) -> None:
    arithmetic = task(tokenizer, "task.train_problems=60", "task.test_problems=30")
    train, test = arithmetic.parts["train"], arithmetic.held_out(None, "test")
    assert (len(train), len(test)) == (60, 30)
    assert not {p.text for p in train} & {p.text for p in test}
    for prompt in [*train, *test]:
        found = re.fullmatch(r"Question: (.+\?) Answer:", prompt.text)
        assert found and part_of(found[1]) == prompt.id.split(":")[0]
        assert prompt.answer is not None and final_number(prompt.answer) is not None
    seen = arithmetic.observer_context(test[0].text, [" 1 + 1 = 2.", "2."])
    assert seen == test[0].text.replace(" Answer:", " Reference: 1 + 1 = 2. Reference: 2. Answer:")


def test_every_run_and_machine_has_the_same_questions(tokenizer: Any) -> None:
    kinds = [kind for kind in KINDS if kind != "story" and kind not in HALVED]
    assert {kind: KINDS[kind](np.random.default_rng(0)).question for kind in kinds} == {
        "add": "What is 85 + 63?",
        "subtract": "What is 85 - 63?",
        "multiply": "What is 85 * 6?",
        "mixed": "What is 26 + 19 * 15 + 8 - 9 * 1?",
        "mixed_29": "What is 25 + 19 * 15 + 8 - 9 * 1?",
        "chain": "What is 7 * 4 - 2 + 3 + 8 + 9?",
    }
    words = ["task.kinds=[add,story,chain]", "task.train_problems=3", "task.test_problems=3"]
    parts = task(tokenizer, *words, "task.test_split='test[:1]'").parts
    assert any("Finn has 40 pencils and buys 3 jars" in one.text for one in parts["train"])
    assert parts["test"][0].text == "Question: What is 25 + 2 - 9 + 5 + 2? Answer:"
