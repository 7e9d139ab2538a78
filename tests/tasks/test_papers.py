"""The data sets of the papers: prompts as printed, answers as read, and rows that are refused."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

from cory.episode import Prompt
from cory.functional.votes import VoteRule
from cory.tasks.prompts import PromptsTask
from tests.support.commands import last_wins
from tests.support.composing import parsed
from tests.support.refusals import refusal
from tests.support.rows import write_rows

# Ma et al., App. A.2, as printed
EXAMPLE = (
    "Question: Shawn has five toys. For Christmas, he got two toys each from his mom and dad. How "
    "many toys does he have now? Answer: Shawn started with 5 toys. If he got 2 toys each from his "
    "mom and dad, then that is 4 more toys. 5 + 4 = 9. "
)
PANCAKES = (
    "The civic league was hosting a pancake breakfast fundraiser. A stack of pancakes was $4.00 "
    "and you could add bacon for $2.00. They sold 60 stacks of pancakes and 90 slices of bacon. "
    "How much did they raise?"
)
PIONEER = "So, 60 x $4 = $240. Then 90 x $2 = $180. Therefore, they raised $240 + $180 = $420."
LABELS = ("entailment", "neutral", "contradiction")
SUBJECTS = [
    *("algebra", "counting_and_probability", "geometry", "intermediate_algebra"),
    *("number_theory", "prealgebra", "precalculus"),
]
LEVELS = ["Level 1", "Level 3", "Level 5", "Level ?", "Level 2"] * 4
ROWS: dict[str, list[dict[str, Any]]] = {
    "gsm8k": [
        {"question": f" {PANCAKES}\n", "answer": "60*4=<<60*4=240>>240\n240+180=420\n#### 420"},
        {"question": "What is half of {1}?", "answer": "0.5"},
    ],
    "anli": [
        {"premise": "It rained all day. ", "hypothesis": "Nobody {sang}.", "label": "neutral"},
        *({"premise": f"{n} rained.", "hypothesis": "It was wet.", "label": n} for n in range(3)),
        {"premise": "It rained.", "hypothesis": "It was dry.", "label": 2.0},
    ],
    "mmlu": [
        {"question": f"{n} {{+}} 1? ", "choices": [str(n), "b", " {1} ", "none"], "answer": 1}
        for n in range(6)
    ],
    "math": [
        {"problem": f"What is ${n}+1$?", "solution": f"It is $\\boxed{{{n + 1}}}$.", "level": level}
        for n, level in enumerate(LEVELS)
    ],
}
MAKES = {"gsm8k_chat": "gsm8k"}  # a file of settings -> whose rows it asks

Make = Callable[..., PromptsTask]


@pytest.fixture
def make(tmp_path: Path, tokenizer: Any) -> Make:
    """Makes a task of its ROWS, with further training rows if given; all are in both splits."""

    def task(name: str, *overrides: str, rows: list[dict[str, Any]] | None = None) -> PromptsTask:
        own = ROWS[MAKES.get(name, name)]
        write_rows(tmp_path / "test.jsonl", own)
        other = {"question": "Who?", "problem": "Who?", "premise": "Who?"}
        write_rows(tmp_path / "train.jsonl", rows or [{**own[-1], **other}])
        words = [
            *(f"task={name}", "task.source=path", f"task.path={tmp_path}"),
            *("task.train_split=train", "task.test_split=test", "task.max_prompt_tokens=2000"),
            *("task.pick_train=null", "task.pick_test=null"),
        ]
        config = parsed(*last_wins([*words, *overrides])).task
        return PromptsTask(config, tokenizer, np.random.default_rng(0))

    return task


def test_gsm8k_is_asked_as_printed(make: Make) -> None:
    gsm8k = make("gsm8k")
    prompt, half = gsm8k.held_out(None, "test")
    asked = f"{EXAMPLE}Question: {PANCAKES} Answer:"
    assert prompt == Prompt("test.jsonl:1", asked, "420", answer_text=prompt.answer_text)
    assert prompt.answer_text == "60*4=<<60*4=240>>240\n240+180=420\n#### 420"
    assert half.answer == "0.5" and "half of {1}?" in half.text
    assert gsm8k.observer_context(prompt.text, [f" {PIONEER}\n"]) == (
        f"{EXAMPLE}Question: {PANCAKES} Reference: {PIONEER} Answer:"
    )


def test_a_chat_model_is_asked_for_a_box(make: Make) -> None:
    chat = make("gsm8k_chat")
    prompt = chat.held_out(1, "test")[0]
    assert prompt.text.startswith(f"{PANCAKES}\n\nExplain your reasoning")
    assert prompt.text.endswith("\nAnswer: \\boxed{...}")
    seen = chat.observer_context(prompt.text, ["It is {1}.", PIONEER])
    assert seen.startswith(f"{PANCAKES}\n\nSomebody else has answered:\nIt is {{1}}.\n\nAnd")
    assert seen.endswith("\nAnswer: \\boxed{...}") and seen.count("boxed") == 1
    # text from a new "Question:" on belongs to no answer, so no prompt should suggest to write one
    assert "Question:" not in seen and chat.read(f"So {PIONEER} \\boxed{{420}}") == 420
    assert chat.read("So it is 7. Question: Tom has 3 cats. Answer: 3") == 7
    assert chat.prompt_of(" Why? ").text == prompt.text.replace(PANCAKES, "Why?")


def test_anli_asks_for_one_of_three_labels(make: Make) -> None:
    anli = make("anli")
    prompts = anli.held_out(None, "test")
    assert [prompt.answer for prompt in prompts] == ["neutral", *LABELS, "contradiction"]
    text = prompts[0].text
    assert text.startswith("Premise: It rained all day.\nHypothesis: Nobody {sang}.\n\nHow does")
    assert text.endswith("Answer: \\boxed{...}")
    assert all(text.count(f"- {label}: ") == 1 for label in LABELS)
    assert anli.read(text) is None  # an echo of the prompt is no answer
    said = [r"\boxed{Entailment}", "Entailment? No, neutral", r"\boxed{?}", "It is entailed."]
    assert [anli.is_right(text, "entailment") for text in said] == [True, False, False, True]
    # of another text there are no columns to put into the template, which goes on behind it
    free = "Premise: it rained.\nHypothesis: it was wet."
    assert anli.prompt_of(f" {free} ") == Prompt("probe", free + text.partition("{sang}.")[2])


def test_mmlu_shows_the_options(make: Make) -> None:
    mmlu = make("mmlu", "task.train_split=test", "task.pick_train=4", "task.pick_test=2")
    every = {prompt.id: prompt for part in mmlu.parts.values() for prompt in part}
    assert [len(part) for part in mmlu.parts.values()] == [4, 2] and len(every) == 6
    first = every["test.jsonl:1"]
    message = "0 {+} 1?\n(A) 0\n(B) b\n(C) {1}\n(D) none\n\nWhich option is right?"
    assert first.text.startswith(message) and "form (X)" in first.text
    assert first.answer == "B" and mmlu.read(first.text) == "D"  # the last option
    seen = mmlu.observer_context(first.text, ["(A) {x}"])
    assert seen.startswith(f"{first.text}\n\nSomebody else has answered:\n(A) {{x}}\n\nCheck")


def test_math_asks_for_bullet_points_and_a_box(make: Make) -> None:
    math = make("math")
    prompt = math.held_out(1, "test")[0]
    assert prompt.text.startswith("What is $0+1$?\n\nSolve") and "bullet" in prompt.text
    assert prompt.text.endswith("Answer: \\boxed{...}") and math.read(prompt.text) is None
    seen = math.observer_context(prompt.text, ["It is {1}. ", "It is 2."])
    assert seen.startswith(f"{prompt.text}\n\nSomebody else has answered:\nIt is {{1}}.\n\nAnd")


def test_problems_of_the_levels_that_are_asked_for(make: Make) -> None:
    few = make("math")
    rows = (1, 2, 5, 6, 7, 10, 11, 12, 15, 16, 17, 20)
    assert [prompt.id for prompt in few.parts["test"]] == [f"test.jsonl:{row}" for row in rows]
    every = make("math", "task.only=null").parts
    assert len(every["test"]) == 20
    hardest = make("math", "task.only=['Level 5','Level 2']").parts["test"]
    assert [prompt.answer for prompt in hardest][:3] == [r"\boxed{3}", r"\boxed{5}", r"\boxed{8}"]


def test_all_subjects_come_from_the_hub(monkeypatch, tokenizer: Any) -> None:
    asked: list[tuple[str, str, str]] = []

    def given(path: str, subset: str, split: str, key: str) -> Dataset:
        asked.append((path, subset, split))
        text = f"{subset} of {split}"
        return Dataset.from_list(
            [{**ROWS["math"][1], "problem": text, "question": text, "answer": 1}]
        )

    def parts_of(*words: str) -> dict[str, list[Prompt]]:
        return PromptsTask(parsed(*words).task, tokenizer, np.random.default_rng(0)).parts

    monkeypatch.setattr("cory.tasks.tables.hub_table", given)
    math = parts_of("task=math", "task.pick_train=5", "task.pick_test=4")
    hub = "EleutherAI/hendrycks_math"
    assert asked == [(hub, name, split) for split in ("train", "test") for name in SUBJECTS]
    assert [len(part) for part in math.values()] == [5, 4]
    assert all(prompt.id.endswith("/test:1") for prompt in math["test"])
    asked.clear()
    gsm8k = parts_of("task=gsm8k", "task.max_prompt_tokens=2000")
    assert asked == [("openai/gsm8k", "main", split) for split in ("train", "test")]
    assert gsm8k["test"][0].id == "main/test:1"


def test_formulas_are_counted_by_what_they_say(make: Make) -> None:
    math = make("math")
    said = [r"\boxed{1/2}", r"so \boxed{\frac12}", r"\boxed{0.5}", r"\boxed{2}", r"\boxed{...}", ""]
    answers = [math.read(text) for text in said]
    assert [None if answer is None else str(answer) for answer in answers] == [
        "1/2", r"\frac12", "0.5", "2", None, None
    ]  # fmt: skip
    assert list(Counter(answers).values()) == [3, 1, 2]
    rule = VoteRule("lexicographic", "counted")
    assert rule.winners(answers) == [answers[0]] == [math.read(r"\boxed{\dfrac{2}{4}}")]
    assert make("math", "task.seconds=7").read(r"\boxed{1}").seconds == 7  # type: ignore[union-attr]
    # ties by the text
    tied = [math.read(r"\boxed{3}"), math.read(r"\boxed{1/2}")]
    right = math.read(r"\boxed{0.5}")
    assert right is not None and rule.score(tied, right) == 1


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("gsm8k", {"answer": "#### so"}, "'answer' must be a number, alone or after ####"),
        ("anli", {"label": [1]}, "'label' must be 0, 1, 2 or one of entailment, neutral, contra"),
        ("mmlu", {"choices": ["1", "2", "3"]}, "'choices' must be a text, or a list of four that"),
        ("mmlu", {"answer": 4}, "'answer' must be a letter from A to D, or 0 to 3 with"),
        ("math", {"solution": r"\boxed{\frac{1}{2}"}, "'solution' must be a formula, alone or in"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(name, change, said, make) -> None:
    row = ROWS[name][0]
    message = refusal(lambda: make(name, rows=[row, {**row, **change}]))
    assert "train.jsonl:2" in message and said in message
