"""Prompts of one's own: files, parts that share nothing, answers, templates, and every refusal."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cory.config import ConfigError, PromptsConfig
from cory.episode import Prompt
from cory.tasks.prompts import PromptsTask
from tests.support.commands import last_wins
from tests.support.composing import parsed
from tests.support.refusals import refusal
from tests.support.rows import write_rows

Make = Callable[..., PromptsTask]
ROWS = [{"prompt": f"Say {n}: ", "target": n, "tags": [f"t{n}"]} for n in range(20)]
MESSAGES = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "Hello?"},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": "Why {so}?"},
]
ROLES = (
    "{% for m in messages %}{% if m['role'] == 'tool' %}{{ raise_exception('no tools') }}"
    "{% endif %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}"
    "<assistant>{% endif %}"
)


@pytest.fixture
def make(tmp_path: Path, tokenizer: Any, monkeypatch) -> Make:
    """Makes the task of `mine.jsonl`, or of another `task.path`, with a fifth held out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tokenizer, "chat_template", ROLES)
    write_rows(tmp_path / "mine.jsonl", ROWS)

    def task(*overrides: str, seed: int = 0) -> PromptsTask:
        base = ["task=prompts", "task.path=mine.jsonl", "task.max_prompt_tokens=60"]
        base.append("reward=sentiment")
        if not any("test_split=" in word for word in overrides):
            base.append("task.held_out_share=0.2")
        config = parsed(*last_wins([*base, *overrides])).task
        assert isinstance(config, PromptsConfig)
        return PromptsTask(config, tokenizer, np.random.default_rng(seed))

    return task


def ids(prompts: list[Prompt]) -> list[str]:
    return [prompt.id for prompt in prompts]


def every(task: PromptsTask) -> dict[str, Prompt]:
    return {prompt.id: prompt for part in task.parts.values() for prompt in part}


def test_a_prompt_has_its_line_its_text_and_all_other_columns(make: Make) -> None:
    task = make()
    found = every(task)
    assert sorted(found) == sorted(f"mine.jsonl:{n + 1}" for n in range(20))
    assert found["mine.jsonl:4"] == Prompt(
        "mine.jsonl:4", "Say 3: ", None, {"target": 3, "tags": ["t3"]}, None
    )
    few = every(make("task.columns=[target]"))["mine.jsonl:4"]
    assert few.columns == {"target": 3}
    assert every(make("task.columns=[]"))["mine.jsonl:4"].columns == {}
    assert task.read("7") is None and not task.is_right("7", "7")  # without answers


def test_other_kinds_of_files(make: Make, tmp_path: Path) -> None:
    rows = [{"prompt": "a", "target": 1}, {"prompt": "b", "target": 2}]
    (tmp_path / "mine.json").write_text(json.dumps(rows))
    pd.DataFrame(rows).assign(day=date(2024, 1, 2)).to_parquet(tmp_path / "mine.parquet")
    found = every(make("task.path=mine.json", "task.held_out_share=0.5"))
    assert found["mine.json:2"] == Prompt("mine.json:2", "b", None, {"target": 2}, None)
    found = every(make("task.path=mine.parquet", "task.held_out_share=0.5"))
    own = {"target": 2, "day": "2024-01-02"}
    assert found["mine.parquet:2"] == Prompt("mine.parquet:2", "b", None, own, None)


def test_values_that_json_does_not_know_are_refused(make: Make, tmp_path: Path) -> None:
    rows = [{"prompt": "a", "image": b"\x89PNG"}, {"prompt": "b", "image": b"\x89PNG"}]
    pd.DataFrame(rows).to_parquet(tmp_path / "mine.parquet")
    words = "task.path=mine.parquet", "task.held_out_share=0.5"
    with pytest.raises(ConfigError, match=r"mine\.parquet:1: 'image' holds a bytes, which JSON"):
        make(*words)
    assert every(make(*words, "task.columns=[]"))["mine.parquet:1"].columns == {}


def test_cells_of_a_csv_file_are_the_texts_that_stand_there(make: Make, tmp_path: Path) -> None:
    golds = ["007", "4", "0.5", "NA", "1e3", '"a,\r\nb\n"']
    (tmp_path / "a.csv").write_bytes(
        ("prompt,gold,v\n" + "".join(f"q{n},{g},\n" for n, g in enumerate(golds))).encode()
    )
    words = ["task.path=a.csv", "task.answer_column=gold", "task.held_out_share=0.5"]
    found = [every(make(*words))[f"a.csv:{n + 1}"] for n in range(len(golds))]
    assert [p.answer for p in found] == ["007", "4", "0.5", "NA", "1e3", "a,\r\nb"]
    # an empty cell is missing
    assert {p.columns["v"] for p in found} == {None}
    for file, content, said in (
        ("a.csv", "prompt,gold\na,b,c\n", "a.csv: row 1 must be an object with the file's keys"),
        ("a.csv", 'prompt,gold\na,"b\n', "a.csv: cannot be read: unexpected"),
        ("a.jsonl", '{"prompt": "a"}\n\n{"prompt": "b"}\n', "cannot be read: line 2: it is empty$"),
        ("a.jsonl", '{"prompt": "a"}\n{"prompt": \n', "cannot be read: line 2: Expecting value"),
    ):
        (tmp_path / file).write_text(content)
        with pytest.raises(ConfigError, match=said):
            make(*words[1:], f"task.path={file}")


def test_a_folder_has_a_file_for_each_split(make: Make, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_rows(tmp_path / "data" / "train.jsonl", ROWS[:12])
    (tmp_path / "data" / "test.json").write_text(json.dumps(ROWS[12:]))
    sliced = make("task.path=data", "task.train_split='train[6:]'", "task.test_split='test[:2]'")
    assert ids(sliced.parts["train"]) == [f"train.jsonl:{n + 1}" for n in range(6, 12)]
    assert ids(sliced.parts["test"]) == ["test.json:1", "test.json:2"]


def test_a_share_is_held_out_by_content(make: Make, tmp_path: Path) -> None:
    # every prompt twice, with other spaces and another target
    twice = [*ROWS, *({**row, "prompt": f" {row['prompt']} ", "target": -1} for row in ROWS)]
    write_rows(tmp_path / "mine.jsonl", twice)
    for seed in range(3):
        task = make(f"task.pick_seed={seed}")
        train, test = (
            {" ".join(prompt.text.split()) for prompt in task.parts[part]}
            for part in ("train", "test")
        )
        assert (len(train), len(test)) == (16, 4) and not train & test
        assert [len(task.parts[part]) for part in ("train", "test")] == [32, 8]
        # the run's own seed plays no part
        assert make(f"task.pick_seed={seed}", seed=1).parts == task.parts
    assert make("task.pick_seed=1").parts != make("task.pick_seed=2").parts
    assert len(make("task.held_out_share=0.5").parts["test"]) == 20


def test_a_test_prompt_is_never_trained_on(make: Make, tmp_path: Path, capsys) -> None:
    (tmp_path / "data").mkdir()
    write_rows(tmp_path / "data" / "train.jsonl", [*ROWS[:10], ROWS[0], {**ROWS[12], "target": 0}])
    write_rows(tmp_path / "data" / "test.jsonl", [{**ROWS[0], "prompt": "Say  0:"}, ROWS[12]])
    task = make("task.path=data", "task.test_split=test")
    assert ids(task.parts["train"]) == [f"train.jsonl:{n + 1}" for n in range(1, 10)]
    assert capsys.readouterr().err == (
        "note: task.path=data: 3 of 12 training prompts are test prompts, too, and are left out of "
        "the training\n"
    )


ANSWERS = [
    # kind, value in the data, answer, a right response, a wrong one
    ("text", "Paris", "Paris", "It is old.\nparis.", "Rome"),
    ("number", 7, "7", "So it is 7.00.", "8"),
    ("number", "3 + 4 = 7\n#### 7", "7", r"\boxed{7}", "3 + 4"),
    ("choice", 2, "C", "The answer is C", "(B)"),
    ("label", 1.0, "neutral", r"\boxed{neutral}", "It is entailed"),
    ("formula", r"\frac12", r"\boxed{\frac12}", r"It is \boxed{0.5}", "0.5"),
    ("formula", r"so \boxed{x}", r"\boxed{x}", r"\boxed{x}", r"\boxed{y}"),
]


@pytest.mark.parametrize(("kind", "value", "answer", "right", "wrong"), ANSWERS)
def test_answers(make, tmp_path, kind, value, answer, right, wrong) -> None:
    write_rows(tmp_path / "mine.jsonl", [{"prompt": f"{n}?", "gold": value} for n in range(5)])
    task = make("task.answer_column=gold", f"task.answers={kind}")
    assert {prompt.answer for prompt in every(task).values()} == {answer}
    assert task.is_right(right, answer) and not task.is_right(wrong, answer)
    assert task.read(right) == task.read(answer) is not None
    assert task.read("?!") is None and not task.is_right("?!", answer)
    assert not task.is_right("?!", "?!")  # two that cannot be read are not equal
    # the value of the data is the reward's, too
    assert task.sample(1)[0].columns == {"gold": value}
    # without data, for finished agents
    form = PromptsTask.form(task.config)
    assert form.is_right(right, answer) and form.prompt_of("Why?").text == "Why?"


def test_templates(make: Make, tmp_path: Path) -> None:
    write_rows(tmp_path / "mine.jsonl", [{"prompt": f"{n}{{?", "on": f"a {n}"} for n in range(5)])
    words = [
        "task.prompt_template='On {on}: {prompt} {{x}}'",
        *("task.observer_template='{query} | {answers}'", "task.answer_template='<{response}>'"),
        "task.answer_separator=' & '",
    ]
    task = make(*words)
    prompt = every(task)["mine.jsonl:3"]
    assert prompt.text == "On a 2: 2{? {x}"
    said = task.observer_context(prompt.text, [" one {1}\n", "two"])
    assert said == "On a 2: 2{? {x} | <one {1}> & <two>"
    assert task.prompt_of("Why?").text == "Why? {x}"
    done = make("task.answer_template='{query}{response}'")
    assert done.observer_context("It", [" is. "]) == "Somebody else answered:\nIt is. \n\nIt"


def test_chat_messages(make: Make, tmp_path: Path) -> None:
    chats = [
        {"prompt": [*MESSAGES[:-1], {"role": "user", "content": f"{n}?"}], "target": n}
        for n in range(5)
    ]
    write_rows(tmp_path / "mine.jsonl", chats)
    chat = ["model.chat=true", "task.prompt_template='{prompt} Say.'"]
    prompt = every(make(*chat))["mine.jsonl:2"]
    assert (prompt.text, prompt.columns) == ("1? Say.", {"target": 1})
    asked = [*MESSAGES[:-1], {"role": "user", "content": "1? Say."}]
    assert prompt.messages == tuple(asked) and prompt.opening == asked
    assert prompt.asking("Sure?") == [*MESSAGES[:-1], {"role": "user", "content": "Sure?"}]
    # the same last message after another first one is another prompt
    chats[0]["prompt"] = [{"role": "system", "content": "Be long."}, *chats[1]["prompt"][1:]]
    write_rows(tmp_path / "mine.jsonl", chats[:2])
    assert len(make(*chat, "task.held_out_share=0.5").parts["train"]) == 1


def test_the_length_of_a_chat_is_that_of_all_of_its_messages(
    make: Make, tmp_path: Path, tokenizer: Any, capsys
) -> None:
    long = [{"role": "system", "content": "x" * 30}, {"role": "user", "content": "n?"}]
    chats = [{"prompt": [{"role": "user", "content": f"{n}?"}]} for n in range(4)]
    write_rows(tmp_path / "mine.jsonl", [*chats, {"prompt": long}])
    every_word = ["model.chat=true", "task.train_split='train[1:]'", "task.test_split='train[:1]'"]
    whole = tokenizer("<system>" + "x" * 30 + "<user>n?<assistant>")["input_ids"]
    length = len(whole) - len(tokenizer("<user><assistant>")["input_ids"])
    fits = make(*every_word, f"task.max_prompt_tokens={length}")
    assert len(fits.parts["train"]) == 4
    cut = make(*every_word, f"task.max_prompt_tokens={length - 1}")
    assert ids(cut.parts["train"]) == [f"mine.jsonl:{n}" for n in (2, 3, 4)]
    assert "1 of 4 training prompts are longer" in capsys.readouterr().err


def test_long_prompts_are_left_out_of_both_parts(make: Make, tmp_path: Path, capsys) -> None:
    long = [{**ROWS[9], "prompt": "x" * count} for count in (40, 50)]
    write_rows(tmp_path / "mine.jsonl", [*ROWS[:5], *long, *ROWS[5:7]])

    def split(test: str) -> PromptsTask:
        own = "task.train_split='train[:6]'", f"task.test_split='train[{test}]'"
        return make("task.max_prompt_tokens=30", *own)

    both = split("6:")
    assert ids(both.parts["train"]) == [f"mine.jsonl:{n}" for n in range(1, 6)]
    assert ids(both.held_out(None, "test")) == ["mine.jsonl:8", "mine.jsonl:9"]
    assert ids(both.held_out(2, "train")) == ["mine.jsonl:1", "mine.jsonl:2"]
    said = "task.max_prompt_tokens=30: 1 of 6 training prompts and 1 of 3 test prompts are longer"
    assert capsys.readouterr().err == f"note: {said} (up to 50) and left out\n"
    assert len(split("6:8").parts["test"]) == 1  # half of them
    with pytest.raises(ConfigError, match=r"1 of 1 test prompts are longer .*; at most half of a"):
        split("6:7")


def test_of_few_prompts_one_is_held_out(make: Make, tmp_path: Path) -> None:
    write_rows(tmp_path / "mine.jsonl", ROWS[:2])
    both = make("task.held_out_share=0.01").parts
    assert [len(both["train"]), len(both["test"])] == [1, 1]
    again = make("task.held_out_share=0.01", seed=3).parts
    assert ids(again["test"]) == ids(both["test"])  # by task.pick_seed alone
    write_rows(tmp_path / "mine.jsonl", ROWS[:1])
    with pytest.raises(ConfigError, match=r"of 1 different prompts leaves none to train on; task"):
        make()


CHAT = ["model.chat=true"]
GOLD = ["task.answer_column=gold"]
BAD = [
    # overrides, rows, parts of what is said
    ([], [*ROWS, {"target": 1}], ":21: 'prompt' must be a text |got 'None'"),
    ([], [{**ROWS[0], "prompt": " \n"}], ":1: 'prompt' must be a text or a list"),
    ([], [ROWS[0], {"prompt": MESSAGES}], ":2: 'prompt' holds chat messages, which need a"),
    (CHAT, [{"prompt": MESSAGES[:3]}], ":1: 'prompt' must be messages, |the last one the user's"),
    (CHAT, [{"prompt": [{"role": "user"}]}], ":1: 'prompt' must be messages, each a text"),
    (GOLD, [{"prompt": "a", "gold": None}], ":1: 'gold' must be a text |=text, got 'None'"),
    ([*GOLD, "task.answers=formula"], [{"prompt": "a", "gold": "..."}], "'gold' must be a formula"),
    (["task.prompt_template='{on} {prompt}'"], [{"prompt": "a", "on": None}], ":1 has no 'on'"),
    (["task.test_split=train"], ROWS, "every training prompt is a test prompt, too"),
    (["task.test_split='train[100%:]'"], ROWS, "there is no row in split train[100%:]"),
    (["task.prompt_column=promt"], ROWS, "prompt_column=promt is not in the data; |mean prompt?"),
    (["task.prompt_template='{on}'"], ROWS, "must contain {prompt}"),
    (["task.path=."], ROWS, "task.path=.: the folder must hold one file for split 'train'"),
    (["task.answer_column=prompt"], ROWS, "task.answer_column=prompt: must not be task.prompt_c"),
    (["task.test_split='train[x]'"], ROWS, "split train[x] must be train or a slice as train[:"),
]


@pytest.mark.parametrize(("overrides", "data", "said"), BAD)
def test_bad_rows_and_wrong_settings_are_refused(make, tmp_path, overrides, data, said) -> None:
    write_rows(tmp_path / "mine.jsonl", data)
    message = refusal(lambda: make(*overrides))
    assert all(part in message for part in said.split("|"))
