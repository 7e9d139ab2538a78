"""Questions of reasoning_gym: what is asked, how answers are read and scored, what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cory.tasks.gym import GymTask, score
from tests.support.building import SMALL, build, measure
from tests.support.commands import last_wins
from tests.support.composing import parsed
from tests.support.refusals import refusal

SUMS = "{chain_sum:{max_terms:2,max_digits:1},gcd:{max_value:30}}"
WORDS = ["task=reasoning_gym", "task.train_problems=60", "task.test_problems=9"]
WORDS += ["task.max_prompt_tokens=2000"]


def made(tokenizer: Any, generators: str, *words: str) -> GymTask:
    config = parsed(*last_wins([*WORDS, f"task.generators={generators}", *words])).task
    return GymTask(config, tokenizer, np.random.default_rng(0))


def test_without_the_extra_a_line_says_what_to_install(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym.factory", None)
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    said = refusal(lambda: made(tokenizer, "{sokoban:{min_h:6}}"))
    assert said == 'task=reasoning_gym: needs pip install ".[reasoning_gym]"'


def with_the_extra() -> None:
    pytest.importorskip("reasoning_gym")  # wants an older tabulate than requirements.lock has


def test_generators_take_turns_and_no_question_is_in_both_parts(tokenizer: Any) -> None:
    with_the_extra()
    from reasoning_gym import create_dataset  # noqa: PLC0415  an extra

    task = made(tokenizer, SUMS, "task.prompt_template='Q {prompt}'")
    test, train = task.parts["test"], task.parts["train"]
    sums = create_dataset("chain_sum", seed=1_020_241_002, size=9, max_terms=2, max_digits=1)
    gcds = create_dataset("gcd", seed=1_020_241_002, size=9, max_value=30)
    for number, prompt in enumerate(test):
        question = [sums, gcds][number % 2][number // 2]
        assert prompt.text == f"Q {question['question']}"
        right, gold = question["answer"], str(prompt.answer)
        assert prompt.id == f"test:{number + 1}" and task.is_right(right, gold)
        assert task.is_right(f"<answer>\n{right}</answer> yes", gold)
        assert not task.is_right(f"{right}1", gold)
        assert prompt.columns["generator"] == ["chain_sum", "gcd"][number % 2]
    asked = {prompt.text for prompt in train}
    assert len(test) == 9 and 30 < len(train) <= 60 and not asked & {one.text for one in test}
    again = made(
        tokenizer, SUMS, "task.train_split='train[:10]'", "task.prompt_template='Q {prompt}'"
    )
    assert again.parts["train"] == [one for one in train if int(one.id.split(":")[1]) <= 10]


def scores(generator: str, *responses: str, number: int = 0, **settings: int) -> list[float]:
    rows = [json.dumps({"seed": 5, "size": 9, **settings})] * len(responses)
    return score(
        [*responses], [generator] * len(responses), rows, [number] * len(responses), answer="unread"
    )


def test_the_generators_own_scorer_scores() -> None:
    with_the_extra()
    # 859 + 467 - 914 + 807 + 961 + 857 = 3037; a part of 4 of 8 characters is half right
    said = ["3037", "3036", "It: 3037", "1 <answer>2</answer> so <answer>\n3037 </answer> 5", ""]
    assert scores("chain_sum", *said) == [1.0, 0.0, 0.5, 1.0, 0.0]
    # 179 out of 73, 85, 1, 42, 14, 49; an allowed use of other numbers has 0.05, no sum 0.01
    right = "49*(85 - 1)/14 - 42 - 73"
    assert scores("countdown", right, f"<answer>{right}</answer>", "85 + 1", "none") == [
        *(1.0, 1.0, 0.05, 0.01)
    ]
    # what scorers know of the settings: 24 of numbers up to `max_value`
    assert scores("puzzle24", "6*4*1*1", max_value=6) == [1.0]
    assert scores("puzzle24", "8*3*1*1", max_value=6) == [0.01]
    assert scores("puzzle24", "8*3*1*1", max_value=8) == [1.0]
    assert scores("prime_factorization", "no number") == [0.0]  # where the library raises


def test_responses_are_not_run(tmp_path: Path) -> None:
    with_the_extra()
    file = tmp_path / "made"
    for generator in ("countdown", "puzzle24", "string_insertion", "spiral_matrix", "n_queens"):
        open_it = f"[open('{file}', 'w').write('x')]"
        bomb = "[0 for a in 'aaaaaaaaaa' for b in 'aaaaaaaaaa' " + "for c in 'aaaaaaaaaa'" * 9 + "]"
        for text in (open_it, "9**9**9**9", "9* *9* *9* *9", bomb, "(" * 99_999):
            assert scores(generator, text)[0] <= 0.01
    assert not file.exists()
    # a list of words is one that a scorer reads
    assert scores("string_insertion", "['D', 'D', 'A']") == [0.0]


@pytest.mark.parametrize(
    ("generators", "said"),
    [
        ("{gdc:{}}", "task.generators.gdc is no generator; did you mean gcd?"),
        ("{gcd:{max_values:3}}", "gcd: GCDConfig.__init__() got an unexpected keyword argument"),
        ("{gcd:{max_value:0}}", "task.generators.gcd: max_value must be > min_value"),
        ("{gcd:{max_value:many}}", "task.generators.gcd: '>' not supported between instances"),
        ("{simple_integration:{}}", "task.generators.simple_integration: its scorer would run"),
        ("{graph_color:{}}", "train:1: 'answer' must be a text with letters or digits"),
        ("{gcd:{seed:3,size:60}}", "every training prompt is a test prompt, too"),
    ],
)
def test_refusals(tokenizer: Any, generators: str, said: str) -> None:
    with_the_extra()
    assert said in refusal(lambda: made(tokenizer, generators, "task.test_problems=60"))


PLAYS = """
from cory.tasks.gym import score

async def scored(prompt, team):
    hint = await team.one.say(prompt.text)
    await team.two.say(prompt.text + hint.text)

async def paid(prompt, team):
    hint = await team.one.say(prompt.text)
    reply = await team.two.say(prompt.text + hint.text)
    return score([reply.text], **{name: [value] for name, value in prompt.columns.items()})[0]
"""


@pytest.mark.slow
@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("name", ["ppo", "grpo", "cory", "maporl", "team:scored", "team:paid"])
def test_every_kind_of_training(tmp_path: Path, name: str) -> None:
    with_the_extra()
    (tmp_path / "mine.py").write_text(PLAYS)
    algorithm, _, play = name.partition(":")
    words = [*SMALL, *WORDS, f"algorithm={algorithm}"]
    words += ["task.generators={fraction_simplification:{},gcd:{}}"]  # one pays 0.01 for any text
    words += ["task.max_prompt_tokens=150", "task.prompt_template='{prompt}'"]
    words += ["algorithm.samples_per_prompt=2", "evaluation.prompts=2"]
    if algorithm == "maporl":  # shaping by right answers, and votes
        words += ["algorithm.alpha=[0.5,0.5]", "algorithm.guards.min_tokens=null"]
    if play:
        words += [f"algorithm.play={tmp_path}/mine.py:{play}", "algorithm.agents=[one,two]"]
    config = parsed(*last_wins(words))
    trainer = build(config)
    trainer.step(0)
    for episode in trainer.episodes:
        rows = {name: [value] for name, value in episode.prompt.columns.items()}
        own = [score([turn.response], **rows)[0] for turn in episode.turns]
        expected = own[-1:] * 2 if play == "paid" else own
        assert [turn.score for turn in episode.turns] == expected
    assert any(turn.score for e in trainer.episodes for turn in e.turns)
    metrics, _ = measure(trainer, config, tmp_path)
    assert any("pass_at_1" in name or "majority" in name for name in metrics)
