"""reward=python: a function written for TRL's GRPOTrainer scores here, and mistakes are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cory.config import (
    Config,
    ConfigError,
    PythonRewardConfig,
    SumConfig,
)
from cory.episode import TEXT_ONLY, Episode, Prompt, Turn, reward_columns
from cory.rewards import RunFacts, RunReward
from cory.rewards.python_function import PythonReward, as_number
from cory.runs.user_function import require_functions
from cory.runtime.worker import build_parts
from tests.support.composing import parsed

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """`write(source, name)`: a file in the current folder, as `reward.function` names it."""
    monkeypatch.chdir(tmp_path)

    def make(source: str, name: str = "score", file: str = "mine.py") -> str:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(dedent(source))
        return f"{file}:{name}"

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


class Data:
    """A task with held-out prompts."""

    def __init__(self, prompts: list[Prompt]) -> None:
        self.prompts = prompts

    def held_out(self, count: int, split: str) -> list[Prompt]:
        return self.prompts[:count]


def reward_of(function: str, rows: list[Episode] | None = None) -> PythonReward:
    task: Any = Data([episode.prompt for episode in rows or episodes()])
    return PythonReward(PythonRewardConfig(name="python", function=function), task, None)


def scores(function: str, rows: list[Episode] | None = None) -> list[float | None]:
    rows = episodes() if rows is None else rows
    reward_of(function, rows).score(rows)
    return [turn.score for episode in rows for turn in episode.turns]


def test_a_function_gets_prompts_and_completions_in_order(write: Write) -> None:
    function = write(
        """
        def score(prompts, completions, **kwargs):
            assert prompts == ["asked 0", "asked 0", "asked 1", "asked 1"], prompts
            assert completions == ["first 0", "second 0!", "first 1", "second 1!"]
            return [float(len(text)) for text in completions]
        """
    )
    assert scores(function) == [7.0, 9.0, 7.0, 9.0]


def test_an_absent_turn_is_not_scored(write: Write) -> None:
    rows = episodes()
    rows[0].turns[1] = replace(rows[0].turns[1], response_ids=[])
    function = write("def score(completions, **kwargs): return [len(completions)] * 3")
    assert scores(function, rows) == [3.0, None, 3.0, 3.0]
    reward_of(function, rows).score([Episode(Prompt("0", ""), [rows[0].turns[1]])])


def test_it_gets_columns_ids_roles_agents_rounds_and_where_the_run_stands(write: Write) -> None:
    function = write(
        """
        seen = {}
        def score(completions, completion_ids, trainer_state, **kwargs):
            seen.update(kwargs, ids=completion_ids)
            seen["step"] = (trainer_state.global_step, trainer_state.max_steps)
            return [0] * len(completions)
        """
    )
    rows = episodes(level=[1, 2], prompt=["not", "this"], tags=[["a"], None])
    rows[0].prompt = replace(rows[0].prompt, answer="7")
    reward = reward_of(function, rows)
    assert isinstance(reward, RunReward)
    reward.begin(RunFacts(Path(), 30, None))
    reward.at(12)
    reward.score(rows)
    seen = reward.function.__globals__["seen"]
    assert seen["step"] == (12, 30)
    assert seen["ids"] == [[0, 1, 2], [0, 1, 2, 3]] * 2
    assert seen["level"] == [1, 1, 2, 2] and seen["tags"] == [["a"], ["a"], None, None]
    assert seen["answer"] == ["7", "7", None, None]
    assert seen["role"] == ["pioneer", "observer"] * 2 and seen["round"] == [0, 1, 0, 1]
    assert seen["agent"] == ["agent_0", "agent_1"] * 2
    assert seen["prompts"] == ["asked 0", "asked 0", "asked 1", "asked 1"]
    assert "prompt" not in seen


def test_only_what_it_asks_for_is_given_and_its_own_column_wins(write: Write) -> None:
    function = write("def score(completions, role, level=0): return [f + len(r) for f, r in "
                     "zip(level, role)]")  # fmt: skip
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


def test_numbers_of_torch_and_numpy_are_numbers(write: Write) -> None:
    function = write(
        "import torch\ndef score(completions, **k): return torch.tensor([1, 2, 3, 4.5])"
    )
    assert scores(function) == [1.0, 2.0, 3.0, 4.5]
    for value, number in ((True, 1.0), (np.float32(0.5), 0.5), (torch.tensor(2), 2.0)):
        assert as_number(value) == number
    for value in ("1", None, float("nan"), float("inf"), [1], torch.ones(2), 1j, "nan"):
        assert as_number(value) is None


def test_a_coroutine_is_waited_for(write: Write) -> None:
    function = write(
        """
        import asyncio
        class Scorer:
            async def __call__(self, completions, **kwargs):
                await asyncio.sleep(0)
                return [1.5] * len(completions)
        score = Scorer()
        """
    )
    assert scores(function) == [1.5] * 4


def test_all_calls_of_a_coroutine_have_one_loop(write: Write) -> None:
    """A lock that waited in one call, as a client's does, belongs to that call's loop."""
    function = write(
        """
        import asyncio
        lock = asyncio.Lock()
        async def one(text):
            async with lock:
                await asyncio.sleep(0)
                return float(len(text))
        async def score(completions, **kwargs):
            return await asyncio.gather(*map(one, completions))
        """
    )
    rows = episodes()
    reward = reward_of(function, rows)
    for _ in range(2):
        reward.score(rows)
        assert [turn.score for row in rows for turn in row.turns] == [
            len(turn.response) for row in rows for turn in row.turns
        ]


def test_what_it_logs_is_kept(write: Write) -> None:
    function = write(
        """
        def score(completions, log_metric, log_extra, **kwargs):
            log_metric("share", 0.25)
            log_metric("share", 0.75)
            log_extra("letters", [len(text) for text in completions])
            log_extra("kind", [list] * len(completions))
            return [0.0] * len(completions)
        """
    )
    rows = episodes()
    reward = reward_of(function, rows)
    reward.score(rows)
    extra = reward_columns(rows[0].turns[1])
    assert extra == {"extra": {"letters": 9, "kind": "<class 'list'>"}}
    logged = reward.metrics()
    assert logged.pop("time/reward_call_s") > 0
    assert logged == {"reward/logged/share": 0.5}
    assert reward.metrics() == {}


def test_columns_that_parts_of_a_sum_log_do_not_meet(write: Write, tmp_path: Path) -> None:
    function = write(
        """
        def score(completions, log_extra, **kwargs):
            log_extra("why", ["first"] * len(completions))
            return (len(text) / 10 for text in completions)
        """
    )
    rows = episodes()
    for part in ("one", "two"):
        reward = reward_of(function, rows)
        reward.begin(RunFacts(tmp_path, 1, None, part))
        reward.score(rows)
    assert rows[0].turns[1].extra == {"one/why": "first", "two/why": "first"}
    assert rows[0].turns[1].score == len(rows[0].turns[1].response) / 10


def test_responses_known_as_text_get_the_tokenizers_ids(write: Write, tiny_model: str) -> None:
    function = write(
        "def score(completion_ids, **kwargs): return [sum(ids) for ids in completion_ids]"
    )
    rows = [Episode(Prompt("0", "q"), [replace(said("film"), response_ids=TEXT_ONLY), said("a")])]
    reward = reward_of(function, rows)

    def tokenizer(text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not add_special_tokens
        return {"input_ids": [40, len(text)]}

    reward.begin(RunFacts(Path(), 1, tokenizer))
    reward.score(rows)
    assert [turn.score for turn in rows[0].turns] == [44.0, 3.0]


def test_an_importable_module_is_found_from_the_current_folder(write: Write) -> None:
    write("raise ValueError('imported')", file="own_pkg/__init__.py")
    place = "own_pkg.inner:score"
    write("def score(completions): return [2] * len(completions)", file="own_pkg/inner.py")
    with pytest.raises(
        ConfigError, match=r"cannot be imported: .*__init__\.py|ValueError: imported"
    ):
        scores(place)
    Path("own_pkg/__init__.py").write_text("")
    assert scores(place) == [2.0] * 4


def test_a_file_may_import_what_lies_beside_it(write: Write, tmp_path: Path) -> None:
    write("WORTH = 3", file="beside/values_beside.py")
    function = write(
        "import values_beside as v\ndef score(completions): return [v.WORTH] * len(completions)",
        file="beside/mine.py",
    )
    assert scores(function) == [3.0] * 4
    assert scores(f"{tmp_path}/{function}") == [3.0] * 4


def test_a_file_that_is_not_there_is_refused_without_running_one(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"^reward\.function=nowhere\.py:score: there is no file"):
        require_functions(PythonRewardConfig(name="python", function="nowhere.py:score"))
    require_functions(PythonRewardConfig(name="python", function=write("raise SystemExit")))
    for value in ("mine.py", "my-rewards:score"):
        with pytest.raises(ConfigError, match="must be <file>"):
            PythonRewardConfig(name="python", function=value)


def test_the_part_of_a_sum_is_named(write: Write) -> None:
    part = PythonRewardConfig(name="python", function="nowhere.py:score")
    with pytest.raises(
        ConfigError, match=r"^reward\.parts\.own\.function=nowhere\.py:score: there"
    ):
        require_functions(SumConfig(name="sum", parts={"own": part}, weights={}))


CANNOT_BE_IMPORTED = [
    ("import nothing_like_it\ndef score(): 0", r"mine\.py, line 1: ModuleNotFoundError: No module"),
    ("def score(): 0\n\n1 / 0", r"mine\.py, line 3: ZeroDivisionError: division by zero"),
    ("def score(): 0\nraise SystemExit(3)", r"mine\.py, line 2: SystemExit: 3"),
    ("def score(", r"mine\.py, line 1: .*was never closed"),
    ("scores = 3", r"mine\.py has no score; did you mean scores\?"),
    ("score = 3", r"score in .*mine\.py must be a function, got int"),
    ("class score: pass", r"must be a function, got type"),
]


@pytest.mark.parametrize(("source", "rule"), CANNOT_BE_IMPORTED)
def test_what_cannot_be_imported_is_refused(source: str, rule: str, write: Write) -> None:
    function = write(source)
    with pytest.raises(
        ConfigError, match=rf"^reward\.function=mine\.py:score: .*{rule}"
    ) as refused:
        PythonReward.prepare(PythonRewardConfig(name="python", function=function))
    assert "\n" not in str(refused.value)


WRONG_ARGUMENTS = [
    ("def score(completions, truth): return []", r"it needs truth, .*\(columns: level\)"),
    ("def score(completions, environments, *, b): return []", "it needs environments, b, "),
]


@pytest.mark.parametrize(("source", "rule"), WRONG_ARGUMENTS)
def test_other_arguments_are_refused_before_the_first_call(
    source: str, rule: str, write: Write
) -> None:
    with pytest.raises(ConfigError, match=rf"^reward\.function=mine\.py:score: .*{rule}"):
        reward_of(write(source), episodes(level=[1, 2]))


WRONG_RESULTS = [
    ("return [1, 2, 3]", r"a number for each completion; got 3 values for 4 completions"),
    ("return [1, float('nan'), 3, 4]", r"returned nan for completion 1 of 4, 'second 0!'"),
    ("return [1, 2, float('inf'), 4]", r"returned inf for completion 2 of 4, 'first 1'"),
    ("return [1, 2, 3, '4']", r"finite; it returned '4' for completion 3 of 4"),
    ("return 'good'", "must return a list with a number for each completion, got 'good'"),
    ("return 1.0", "must return a list with a number for each completion, got 1.0"),
    ("return {0: 1.0}", r"must return a list .*, got \{0: 1\.0\}"),
    ("return map(lambda text: {}[text], completions)", r"mine\.py, line 3: KeyError: 'first 0'"),
    ("import torch; return torch.tensor(1.0)", r"must return a list .*, got tensor\(1\.\)"),
    ("import numpy; return numpy.array(2.5)", r"must return a list .*, got array\(2\.5\)"),
    ("pass", "must return a list with a number for each completion, got None"),
    ("return [None, 1, 1, 1]", "returned None for completion 0 .* must be a part of reward=sum"),
    ("return missing", r"mine\.py, line 3: NameError: name 'missing' is not defined"),
    ("return score(1, 2)", r"mine\.py, line 3: TypeError: score\(\) takes"),
    ("exit(4)", r"mine\.py, line 3: SystemExit: 4"),
    ("for text in completions: yield len(text) / 0", r"mine\.py, line 3: ZeroDivisionError"),
    ("raise ValueError('two\\nlines')", "ValueError: two lines"),
    ("k['log_metric']('x', 'high')", r"line 3: ValueError: log_metric\('x', \.\.\.\) takes a"),
    ("k['log_extra']('x', [1]); return [1] * 4", r"log_extra\('x', \.\.\.\) got 1 values for 4"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "rule"), WRONG_RESULTS)
def test_a_call_that_goes_wrong_is_refused_in_one_line(body: str, rule: str, write: Write) -> None:
    function = write(f"\ndef score(completions, **k):\n    {body}\n")
    with pytest.raises(
        ConfigError, match=rf"^reward\.function=mine\.py:score: .*{rule}"
    ) as refused:
        scores(function)
    assert "\n" not in str(refused.value)


def test_a_run_builds_it_from_its_settings(write: Write, config_of: Callable[..., Config]) -> None:
    function = write("def score(completions): return [1] * len(completions)")
    config = config_of("algorithm.iterations=7")
    config.reward = PythonRewardConfig(name="python", function=function)
    reward = build_parts(config).reward
    assert isinstance(reward, PythonReward)
    assert reward.state.max_steps == 7 and reward.tokenizer is not None
    assert reward.sources() == {function: Path("mine.py").absolute()}


def test_the_settings_name_the_function() -> None:
    with pytest.raises(ConfigError, match=r"no value given for reward\.function"):
        parsed("reward=python")
    assert SimpleNamespace(**vars(parsed("reward=python", "reward.function=a.py:b").reward)) == (
        SimpleNamespace(name="python", function="a.py:b")
    )
