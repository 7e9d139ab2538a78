"""What somebody with a model, prompts and words of their own types first, and is told."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tqdm import tqdm

from cory import distributed
from cory.runtime.loop import Lines, Loop, progress
from tests.support.chat_models import FAMILIES, save_chat_model
from tests.support.commands import metrics
from tests.support.composing import parsed
from tests.support.warm import WarmCommand

SHORT = (
    "algorithm.iterations=1 evaluation.prompts=2 algorithm.minibatch_size=8 run_dir=run "
    "algorithm.prompts_per_iteration=8 algorithm.sampling.max_response_tokens=8"
)
PROMPTS = "task=prompts task.path=mine.jsonl"
SCORED = f"{PROMPTS} reward=python reward.function=mine.py:reward"
WORDS = "apple bridge castle doctor engine flower garden hammer island jacket kitchen ladder"
# the words, and a metric that its run has
COMMANDS = [
    (f"algorithm=cory model.path=qwen3 adapter=lora model.template.enable_thinking=false {SCORED}",
     "objective/kl/observer"),
    (f"algorithm=grpo model.path=gemma3 {SCORED}", "rollout/equal_groups/agent_0"),
    (f"algorithm=cory model.path=qwen3 members.agent_1.model.path=llama3 "
     f"members.agent_1.learning_rate=1e-4 {SCORED}", "ppo/learning_rate/agent_1"),
    ("algorithm=spag model.path=qwen3 task=taboo task.path=words.txt "
     "algorithm.iterations_per_epoch=null algorithm.instructions.per_iteration=0",
     "game/attacker_wins"),
    (f"algorithm=maft model.path=qwen2_5 {PROMPTS} task.answer_column=answer",
     "debate/consensus/team"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "metric"), COMMANDS, ids=["cory", "grpo", "pair", "spag", "maft"]
)
def test_it_trains(typed: str, metric: str, tmp_path: Path) -> None:
    for family in FAMILIES:
        if f"path={family} " in typed:
            save_chat_model(family, tmp_path / family, max_position_embeddings=4096)
    rows = [{"prompt": f"What is {n} plus 1?", "answer": str(n + 1)} for n in range(20)]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    function = "def reward(completions, **more):\n    return [len(set(c)) for c in completions]\n"
    (tmp_path / "mine.py").write_text(function)
    (tmp_path / "words.txt").write_text(WORDS.replace(" ", "\n"))
    command = WarmCommand(tmp_path, [*typed.split(), *SHORT.split()])
    assert command.wait(600) == 0, (command.out, command.err)
    (line,) = metrics(tmp_path / "run")
    assert metric in line
    if metric == "ppo/learning_rate/agent_1":  # of CORY itself, and its own
        assert [line[f"ppo/learning_rate/agent_{n}"] for n in (0, 1)] == [1.41e-5, 1e-4]


OBSTACLES = ("reward: all answers of agent_0 have the same score", "task.prompt_template: in ")
SMALL = ("algorithm.iterations=2", "algorithm.prompts_per_iteration=32")


def test_own_prompts_are_trained_on_with_nothing_else_typed(tiny_model, tmp_path) -> None:
    rows = [{"prompt": f"{n} so", "answer": n} for n in range(28)]
    rows += [{"prompt": "and so on " * 20, "answer": 1} for _ in range(2)]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["task=prompts", "task.path=mine.jsonl", f"model.path={tiny_model}", *SMALL]
    words += ["task.answer_column=answer", "task.answers=number", "reward=exact_match"]
    run = WarmCommand(tmp_path, [*words, "algorithm=ppo", "algorithm.minibatch_size=32"])
    assert run.wait() == 0, run.err
    said = run.err.splitlines()
    assert "note: task.held_out_share=0.1: 3 of 29 different prompts are held out" in said
    all_asked = "task=prompts holds out 3, and all of them are asked"
    assert f"note: evaluation.prompts=128: {all_asked}" in said
    longer = "note: task.max_prompt_tokens=32: 2 of 27 training prompts are longer"
    assert any(line.startswith(longer) for line in said), said
    drawn = "note: algorithm.prompts_per_iteration=32 draws 32 prompts, and task=prompts has 25 to"
    assert any(line.startswith(drawn) for line in said), said
    for line in OBSTACLES:  # the end says them in another form
        assert run.out.count(f"note: {line}") == 1, run.out
    assert (tmp_path / "outputs/prompts_ppo").is_dir()


@pytest.mark.parametrize(
    ("read", "chat", "expected"),
    [
        (None, "false", []),  # a text that goes on
        (None, "true", ["algorithm.sampling.max_response_tokens"]),
        (len, "false", ["algorithm.sampling.max_response_tokens"]),
        (
            lambda text: text if text == "one" else None,
            "false",
            ["algorithm.sampling.max_response_tokens", "task.prompt_template"],
        ),
    ],
)
def test_what_it_needs_to_be_said(read: Any, chat: str, expected: list[str], capsys) -> None:
    turns = [SimpleNamespace(response=text, absent=text == "") for text in ("one", "", "two", "3")]
    algorithm: Any = SimpleNamespace(episodes=[SimpleNamespace(turns=turns)])
    none: Any = None
    loop = Loop(algorithm, parsed(f"model.chat={chat}"), none, none, none, none, read)
    loop.pending = {"rollout/truncated_share/agent_0": 0.6, "objective/score_std/agent_0": 0.1}
    loop._say_obstacles()
    lines = capsys.readouterr().out.splitlines()
    assert [line.removeprefix("note: ").partition(":")[0] for line in lines] == expected


def test_progress_in_a_file_is_lines(capsys) -> None:
    with tqdm(total=2, file=Lines(), bar_format="{n_fmt}/{total_fmt}", mininterval=0) as bar:
        distributed.note("heard")
        bar.update()
        bar.update()
    out, err = capsys.readouterr()
    assert out.splitlines() == ["0/2", "1/2", "2/2"]
    assert err == "note: heard\n"


def test_progress_shows_agents_and_not_their_roles() -> None:
    of = {"agent_0": 0.25, "agent_1": 0.5, "pioneer": 9.0, "observer": 9.0, "team": 9.0}
    metrics = {f"objective/score/{who}": value for who, value in of.items()}
    metrics |= {"objective/kl/agent_0": 1.0, "objective/kl/observer": 9.0}
    assert progress(metrics) == "reward 0.25 0.50 | kl 1.00"
    more = {f"objective/score/agent_{n}": 0.25 for n in range(4)}
    assert progress(more) == "mean reward 0.25"
    named = {"objective/score/asker": 0.5, "objective/score/teller": 0.0, "verifier/accuracy": 1.0}
    assert progress(named) == "reward asker 0.50 teller 0.00 | accuracy 1.00"
