"""reward=python: a function written for TRL's GRPOTrainer scores here, and mistakes are refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch

from cory.config import PythonRewardConfig
from cory.episode import Episode, Prompt, Turn, further_columns
from cory.rewards import RunFacts
from cory.rewards.python_function import PythonReward, as_number
from tests.support.refusals import refusal

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch) -> Write:
    """`write(source, file)`: a file in the current folder, as `reward.function` names it."""
    monkeypatch.chdir(tmp_path)

    def make(source: str, file: str = "mine.py") -> str:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(dedent(source))
        return f"{file}:score"

    return make


def said(turn: str, agent: str = "agent_0", role: str = "pioneer", ids: int = 3) -> Turn:
    return Turn(agent, role, int(role == "observer"), "seen", turn, [1], list(range(ids)))


def episodes(**columns: list[Any]) -> list[Episode]:
    """Two prompts with two turns each; `columns` has a value for each prompt."""
    return [
        Episode(
            Prompt(str(n), f"asked {n}", columns={key: of[n] for key, of in columns.items()}),
            [said(f"first {n}"), said(f"second {n}!", "agent_1", "observer", ids=4)],
        )
        for n in range(2)
    ]


def reward_of(function: str, part: str | None = None) -> PythonReward:
    config = PythonRewardConfig(name="python", function=function)
    return PythonReward(config, None, None, RunFacts(Path(), 30, part))


def scores(function: str, rows: list[Episode] | None = None) -> list[float | None]:
    rows = episodes() if rows is None else rows
    reward_of(function).score(rows)
    return [turn.score for episode in rows for turn in episode.turns]


# what a function is given


def test_it_gets_all_rows_in_order_and_where_the_run_stands(write: Write) -> None:
    function = write(
        """
        seen = {}
        def score(completions, completion_ids, trainer_state, **kwargs):
            seen.update(kwargs, ids=completion_ids, completions=completions)
            seen["step"] = (trainer_state.global_step, trainer_state.max_steps)
            return [float(len(text)) for text in completions]
        """
    )
    rows = episodes(level=[1, 2], tags=[["a"], None])
    rows[0].prompt = replace(rows[0].prompt, answer="7")
    reward = reward_of(function)
    reward.at(12)
    reward.score(rows)
    assert [turn.score for row in rows for turn in row.turns] == [7.0, 9.0, 7.0, 9.0]
    seen = reward.found.call.__globals__["seen"]
    assert seen["step"] == (12, 30)
    assert seen["prompts"] == ["asked 0", "asked 0", "asked 1", "asked 1"]
    assert seen["completions"] == ["first 0", "second 0!", "first 1", "second 1!"]
    assert seen["ids"] == [[0, 1, 2], [0, 1, 2, 3]] * 2
    assert seen["level"] == [1, 1, 2, 2] and seen["tags"] == [["a"], ["a"], None, None]
    assert seen["answer"] == ["7", "7", None, None]
    assert seen["role"] == ["pioneer", "observer"] * 2 and seen["round"] == [0, 1, 0, 1]
    assert seen["agent"] == ["agent_0", "agent_1"] * 2


def test_an_absent_turn_is_not_scored(write: Write) -> None:
    rows = episodes()
    rows[0].turns[1] = replace(rows[0].turns[1], response_ids=[])
    function = write("def score(completions, **kwargs): return [len(completions)] * 3")
    assert scores(function, rows) == [3.0, None, 3.0, 3.0]
    reward_of(function).score([Episode(Prompt("0", ""), [rows[0].turns[1]])])


def test_only_what_it_asks_for_is_given_and_its_own_column_wins(write: Write) -> None:
    function = write(
        "def score(completions, role, level=0): return [n + len(r) for n, r in zip(level, role)]"
    )
    assert scores(function, episodes(role=["me", "you"], level=[1, 2])) == [3, 3, 5, 5]


def test_a_chat_comes_as_messages(write: Write) -> None:
    function = write(
        """
        def score(prompts, completions, **kwargs):
            assert prompts[0][0] == {"role": "system", "content": "s"} and len(prompts[0]) == 2
            assert prompts[2] == "asked 1" and completions[2] == "first 1"
            prompts[0].clear()
            (first,), (second,) = completions[:2]
            assert first["role"] == second["role"] == "assistant"
            return [len(first["content"]), len(second["content"]), 0, 0]
        """
    )
    rows = episodes()
    messages = ({"role": "system", "content": "s"}, {"role": "user", "content": "q"})
    rows[0].prompt = replace(rows[0].prompt, messages=messages)
    assert scores(function, rows) == [7, 9, 0, 0]
    assert messages[0] == {"role": "system", "content": "s"}


# what it may return and log


def test_numbers_of_torch_and_numpy_are_numbers(write: Write) -> None:
    function = write(
        "import torch\ndef score(completions, **k): return torch.tensor([1, 2, 3, 4.5])"
    )
    assert scores(function) == [1.0, 2.0, 3.0, 4.5]
    assert [as_number(value) for value in (True, np.float32(0.5), torch.tensor(2))] == [1, 0.5, 2]
    assert not any(map(as_number, ("1", float("inf"), [1], torch.ones(2), 1j)))


def test_what_it_logs_is_kept(write: Write) -> None:
    function = write(
        """
        def score(completions, log_metric, log_extra, **kwargs):
            log_metric("share", 0.25)
            log_metric("share", 0.75)
            log_extra("letters", [len(text) for text in completions])
            log_extra("kind", [list] * len(completions))
            return (len(text) / 10 for text in completions)
        """
    )
    rows = episodes()
    reward = reward_of(function)
    reward.score(rows)
    extra = further_columns(rows[0].turns[1])
    assert extra == {"extra": {"letters": 9, "kind": "<class 'list'>"}}
    assert reward.metrics() == {"reward/logged/share": 0.5}
    assert reward.metrics() == {}
    # parts of a sum have columns of their own
    reward_of(function, "one").scores([(row.prompt, turn) for row in rows for turn in row.turns])
    assert rows[0].turns[1].extra["one/letters"] == 9


# where it is found


def test_a_file_may_import_what_lies_beside_it(write: Write, tmp_path: Path) -> None:
    write("WORTH = 3", file="beside/values_beside.py")
    function = write(
        "import values_beside as v\ndef score(completions): return [v.WORTH] * len(completions)",
        file="beside/mine.py",
    )
    assert scores(function) == [3.0] * 4
    assert scores(f"{tmp_path}/{function}") == [3.0] * 4


# refusals


def test_what_cannot_be_imported_is_refused(write: Write) -> None:
    for source, rule in (
        ("import nothing_like_it\ndef score(): 0", "mine.py, line 1: ModuleNotFoundError"),
        ("def score(): 0\nraise SystemExit(3)", "mine.py, line 2: SystemExit: 3"),
        ("scores = 3", "did you mean scores?"),
    ):
        config = PythonRewardConfig(name="python", function=write(source))
        said = refusal(lambda own=config: PythonReward.prepare(own))
        assert said.startswith("reward.function=mine.py:score: ") and rule in said


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("return [1, 2, 3]", "it gave 3 values for 4 completions"),
        ("return [1, float('nan'), 3, 4]", "returned nan for 'second 0!'"),
        ("return {0: 1.0}", "got {0: 1.0}"),
        ("return [None, 1, 1, 1]", "returned None for 'first 0'"),
        ("return missing", "mine.py, line 3: NameError"),
        ("for text in completions: yield len(text) / 0", "mine.py, line 3: ZeroDivisionError"),
        ("raise ValueError('two\\nlines')", "ValueError: two lines"),
        ("k['log_extra']('x', [1]); return [1] * 4", "log_extra('x', ...) gave 1 values for 4"),
    ],
)
def test_a_call_that_goes_wrong_is_refused_in_one_line(body: str, rule: str, write: Write) -> None:
    function = write(f"\ndef score(completions, **k):\n    {body}\n")
    said = refusal(lambda: scores(function))
    assert said.startswith("reward.function=mine.py:score: ") and rule in said


def test_what_it_asks_for_and_nobody_gives_is_named(write: Write) -> None:
    said = refusal(lambda: scores(write("def score(completions, text, *, n=0): return [1] * 4")))
    assert said.startswith("reward.function=mine.py:score: it asks for text; there are agent, ")
    assert "completions" in said and "prompts" in said
