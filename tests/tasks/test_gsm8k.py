from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cory import distributed
from cory.config import ConfigError, builder
from cory.episode import Episode, Prompt, Turn
from cory.rollout.interactions import Roles, pioneer_observer
from cory.tasks.questions import QuestionsTask
from tests.support.composing import parsed
from tests.tasks.rows import write_rows

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

TRAIN = [
    {"question": f"Tom has {n} cats and gets {{1}}. How many?", "answer": f"{n}+1\n#### {n + 1:,}"}
    for n in range(995, 1025)
]
TEST = [
    {"question": PANCAKES, "answer": "60*4=<<60*4=240>>240\n90*2=180\n240+180=420\n#### 420"},
    {"question": "What is 5 - 14?", "answer": "#### -9"},
    {"question": "What is half of three?", "answer": "1.5"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(tmp_path / "train.jsonl", TRAIN)
    write_rows(tmp_path / "test.jsonl", TEST)
    return tmp_path


def task(path: Path, tokenizer: Any, *overrides: str, seed: int = 0) -> QuestionsTask:
    where = ["task=gsm8k", "task.source=path", f"task.path={path}", "task.max_prompt_tokens=2000"]
    return QuestionsTask(parsed(*where, *overrides).task, tokenizer, np.random.default_rng(seed))


def tokens(tokenizer: Any, prompt: Prompt) -> int:
    return len(tokenizer(prompt.text, add_special_tokens=False)["input_ids"])


def test_prompts_are_the_printed_ones(folder: Path, tokenizer: Any) -> None:
    gsm8k = task(folder, tokenizer)
    prompt = gsm8k.held_out(1, "test")[0]
    assert prompt == Prompt(
        id="gsm8k-test-0", text=f"{EXAMPLE}Question: {PANCAKES} Answer:", answer="420"
    )
    assert gsm8k.observer_context(prompt.text, [f" {PIONEER}\n"]) == (
        f"{EXAMPLE}Question: {PANCAKES} Reference: {PIONEER} Answer:"
    )


def test_nobody_sees_the_answer(folder: Path, tokenizer: Any) -> None:
    gsm8k = task(folder, tokenizer)
    seen: list[str] = []

    def speak(agent: str, role: str, place: int, contexts: list[str]) -> list[Turn]:
        seen.extend(contexts)
        return [Turn(agent, role, place, text, "I do not know.", [1], [2]) for text in contexts]

    prompts = gsm8k.sample(20)
    pioneer_observer(prompts, speak, Roles(["a", "b"]), gsm8k.observer_context)
    assert len(seen) == 40
    for prompt, context in zip(prompts * 2, seen, strict=True):
        assert prompt.answer is not None
        assert prompt.answer not in context and prompt.answer.replace(",", "") not in context


def test_every_question_comes_once_per_pass(folder: Path, tokenizer: Any) -> None:
    gsm8k, other = task(folder, tokenizer), task(folder, tokenizer, seed=1)
    passes = [[prompt.id for prompt in gsm8k.sample(30)] for _ in range(2)]
    for ids in passes:
        assert sorted(ids) == sorted(f"gsm8k-train-{n}" for n in range(30))
    assert passes[0] != passes[1]
    assert [prompt.id for prompt in other.sample(30)] != passes[0]
    # the answer stays with its question
    for prompt in gsm8k.sample(30):
        row = TRAIN[int(prompt.id.removeprefix("gsm8k-train-"))]
        assert f"Question: {row['question']} Answer:" in prompt.text
        assert row["answer"].endswith(f"#### {prompt.answer}")


def test_a_task_goes_on_where_it_was(folder: Path, tokenizer: Any) -> None:
    first, second = task(folder, tokenizer), task(folder, tokenizer, seed=7)
    first.sample(13)
    state, stream = first.state_dict(), first.sampler.stream.bit_generator.state
    expected = first.sample(40)
    second.sample(3)
    second.load_state_dict(json.loads(json.dumps(state)))
    second.sampler.stream.bit_generator.state = stream
    assert second.sample(40) == expected


def test_gold_answers_score_1_and_others_0(folder: Path, tokenizer: Any) -> None:
    gsm8k = task(folder, tokenizer)
    config = parsed("task=gsm8k", "reward=exact_match").reward
    judge = builder("reward", "exact_match")(config, gsm8k, None)
    prompts = gsm8k.parts["train"] + gsm8k.parts["test"]
    rows = dict(zip([prompt.id for prompt in prompts], TRAIN + TEST, strict=True))
    episodes = [
        Episode(
            prompt,
            [
                Turn("agent_0", "pioneer", 0, "", rows[prompt.id]["answer"], [1], [2]),
                Turn("agent_1", "observer", 1, "", f"It is {prompt.answer}1.", [1], [2]),
                Turn("agent_2", "observer_2", 1, "", "I do not know.", [1], [2]),
            ],
        )
        for prompt in prompts
    ]
    judge.score(episodes)
    assert [[turn.score for turn in e.turns] for e in episodes] == [[1.0, 0.0, 0.0]] * 33


def test_a_chat_model_is_asked_for_a_box(folder: Path, tokenizer: Any) -> None:
    chat = task(folder, tokenizer, "task=gsm8k_chat")
    prompt = chat.held_out(1, "test")[0]
    assert (prompt.id, prompt.answer) == ("gsm8k-test-0", "420")
    assert prompt.text.startswith(f"{PANCAKES}\n\nExplain your reasoning")
    assert prompt.text.endswith("\nAnswer: \\boxed{...}")
    seen = chat.observer_context(prompt.text, ["It is {1}.", PIONEER])
    assert seen.startswith(f"{PANCAKES}\n\nSomebody else has answered:\nIt is {{1}}.\n\nAnd")
    assert seen.endswith("\nAnswer: \\boxed{...}") and seen.count("boxed") == 1
    # text from a new "Question:" on belongs to no answer, so no prompt should suggest to write one
    assert "Question:" not in seen and chat.read(f"So {PIONEER} \\boxed{{420}}") == 420
    assert chat.prompt_of("Why?").text == prompt.text.replace(PANCAKES, "Why?")


def test_a_response_is_read_as_a_number(folder: Path, tokenizer: Any) -> None:
    gsm8k = task(folder, tokenizer)
    said = [r"3 + 4 is 8. Answer: \boxed{7}", "7.00 dollars", "14/2", "#### 7", "eight"]
    assert [gsm8k.read(text) for text in said] == [Fraction(7)] * 4 + [None]
    assert [gsm8k.is_right(text, "7") for text in said] == [True] * 4 + [False]
    assert not any(gsm8k.is_right(text, "8") for text in said)


@pytest.mark.parametrize(("how", "value"), [("ignored", 7), ("read", 3), ("no_answer", None)])
def test_the_setting_says_what_another_question_counts_for(
    folder: Path, tokenizer: Any, how: str, value: int | None
) -> None:
    """For rewards, for votes and for accuracy alike."""
    gsm8k = task(folder, tokenizer, f"task.next_question={how}")
    said = "So it is 7. Question: Tom has 3 cats. Answer: 3"
    assert gsm8k.read(said) == value
    assert gsm8k.is_right(said, "7") is (value == 7)
    assert gsm8k.is_right("So it is 7.", "7")


def test_long_training_prompts_are_left_out_and_counted(
    folder: Path, tokenizer: Any, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    longer = [{"question": "x" * n, "answer": "#### 1"} for n in (400, 10, 300)]
    write_rows(folder / "train.jsonl", [*TRAIN, *longer])
    limit = max(tokens(tokenizer, prompt) for prompt in task(folder, tokenizer).parts["train"][:30])
    capsys.readouterr()
    short = task(folder, tokenizer, f"task.max_prompt_tokens={limit}")
    said = capsys.readouterr()
    assert f"task.max_prompt_tokens={limit} leaves out 2 of 33" in said.err
    assert "gsm8k-train-30" in said.err
    assert [prompt.id for prompt in short.parts["train"]] == [
        f"gsm8k-train-{n}" for n in [*range(30), 31]
    ]
    assert max(tokens(tokenizer, prompt) for prompt in short.parts["train"]) <= limit
    # said once: other processes are silent; and nothing is said when nothing is left out
    monkeypatch.setattr(distributed, "rank", lambda: 1)
    task(folder, tokenizer, f"task.max_prompt_tokens={limit}")
    monkeypatch.setattr(distributed, "rank", lambda: 0)
    task(folder, tokenizer)
    assert capsys.readouterr().err == ""


def test_long_test_prompts_are_refused(folder: Path, tokenizer: Any) -> None:
    gsm8k = task(folder, tokenizer)
    limit, longest = (
        tokens(tokenizer, prompt) for prompt in (gsm8k.parts["train"][0], gsm8k.parts["test"][0])
    )
    short = task(folder, tokenizer, f"task.max_prompt_tokens={limit + 5}")
    with pytest.raises(ConfigError, match=rf"\({limit + 5}\) .* {longest} tokens .*gsm8k-test-0"):
        short.held_out(1, "test")
    assert task(folder, tokenizer, f"task.max_prompt_tokens={longest}").held_out(1, "test")


def test_held_out_prompts_are_the_first_rows(folder: Path, tokenizer: Any) -> None:
    gsm8k, other = task(folder, tokenizer), task(folder, tokenizer, seed=1)
    first = gsm8k.held_out(3, "test")
    assert [(prompt.id, prompt.answer) for prompt in first] == [
        ("gsm8k-test-0", "420"), ("gsm8k-test-1", "-9"), ("gsm8k-test-2", "1.5")
    ]  # fmt: skip
    gsm8k.sample(5)
    assert gsm8k.held_out(3, "test") == first == other.held_out(3, "test")
    assert gsm8k.held_out(2, "test") == first[:2]
    assert gsm8k.held_out(4, "test") == first  # all that there are


def test_one_file_is_cut_into_slices(tmp_path: Path, tokenizer: Any) -> None:
    slices = ["task.train_split='train[:90%]'", "task.test_split='train[90%:]'"]
    gsm8k = task(write_rows(tmp_path / "all.jsonl", TRAIN), tokenizer, *slices)
    assert [p.answer for p in gsm8k.parts["train"]] == [f"{n + 1:,}" for n in range(995, 1022)]
    assert [p.answer for p in gsm8k.parts["test"]] == [f"{n + 1:,}" for n in range(1022, 1025)]


def test_a_folder_may_be_sliced_and_have_other_columns(folder: Path, tokenizer: Any) -> None:
    rows = [{"body": row["question"], "number": row["answer"]} for row in TRAIN]
    write_rows(folder / "few.jsonl", rows)
    gsm8k = task(
        folder, tokenizer, "task.train_split='few[:5]'", "task.test_split='few[5:7]'",
        "task.question_column=body", "task.answer_column=number",
    )  # fmt: skip
    assert [p.answer for p in gsm8k.parts["train"]] == ["996", "997", "998", "999", "1,000"]
    assert [p.answer for p in gsm8k.parts["test"]] == ["1,001", "1,002"]


@pytest.mark.parametrize(
    ("overrides", "rows", "said"),
    [
        ("task.source=hub task.path=nobody/nothing", TRAIN, "nobody/nothing: the hub|offline"),
        ("task.path={tmp}/x", TRAIN, "task.path={tmp}/x: there is no such file"),
        ("task.train_split=dev", TRAIN, "task.path={tmp}: the folder must hold one file for"),
        ("task.path={tmp}/train.jsonl", TRAIN, "task.test_split=test: |is one file, which is the"),
        ("task.path={tmp}/train.jsonl task.test_split=train", TRAIN, "every training prompt"),
        ("task.question_column=body", TRAIN, "task.question_column=body is not in the data; it"),
        ("task.answer_column=body", TRAIN, "task.answer_column=body is not in the data; it has"),
        ("task.max_prompt_tokens=9", TRAIN, "max_prompt_tokens=9: all 30 training prompts are"),
        ("", [*TRAIN, {"question": "Why?", "answer": "#### so"}], "row train-30|got 'so'"),
        ("", [*TRAIN, {"question": "Why?", "answer": "18 eggs"}], "row train-30 must end in"),
        ("", [*TRAIN, {"question": "Why?"}], "row train-30 has no text in 'answer'"),
        ("", [*TRAIN, {"question": "Why?", "answer": None}], "row train-30 has no text in"),
        ("", [{"question": " ", "answer": "#### 1"}], "row train-0 has no text in 'question'"),
        ("", [{"question": 3, "answer": "#### 1"}], "row train-0 has no text in 'question'"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_used_are_refused(
    overrides: str, rows: list[dict[str, Any]], said: str, folder: Path, tokenizer: Any
) -> None:
    write_rows(folder / "train.jsonl", rows)
    with pytest.raises(ConfigError) as refusal:
        task(folder, tokenizer, *overrides.format(tmp=folder).split())
    message = str(refusal.value)
    assert "\n" not in message
    for part in said.format(tmp=folder).split("|"):
        assert part in message, message


def test_two_files_of_one_split_are_refused(folder: Path, tokenizer: Any) -> None:
    (folder / "train.csv").write_text("question,answer\na,1\n")
    with pytest.raises(ConfigError, match=r"must hold one file for split 'train' .* found 2"):
        task(folder, tokenizer)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("task.source=package", "must be hub, path or generated"),
        ("task.max_prompt_tokens=0", "task.max_prompt_tokens=0: must be at least 1"),
        ("task.prompt_template='{example}'", "must contain {question}"),
        ("task.prompt_template='{question}{question}'", "must contain {question} once"),
        ("task.prompt_template='{question}{answers}'", "must not contain {answers"),
        ("task.observer_template='{question}'", "must contain {answers}"),
        ("task.observer_template='{answers}'", "must contain {question}"),
        ("task.answer_template=''", "must contain {response}"),
    ],
)
def test_a_setting_outside_its_range_is_refused(override: str, said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parsed("task=gsm8k", override)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)
