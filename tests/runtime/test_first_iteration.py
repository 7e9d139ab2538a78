"""What a run on prompts of one's own says when little else is typed: at its start, and once more
after its first iteration."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cory.runtime.loop import Loop
from tests.support.composing import parsed
from tests.support.warm import WarmCommand

OBSTACLES = ("reward: all answers of agent_0 have the same score", "task.prompt_template: in ")
SMALL = ("algorithm.iterations=2", "algorithm.prompts_per_iteration=32")


def test_own_prompts_are_trained_on_with_nothing_else_typed(
    tiny_model: str, tmp_path: Path
) -> None:
    rows = [{"prompt": f"{n} so", "answer": n} for n in range(28)]
    rows += [{"prompt": "and so on " * 20, "answer": 1} for _ in range(2)]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["task=prompts", "task.path=mine.jsonl", f"model.path={tiny_model}", *SMALL]
    words += ["task.answer_column=answer", "task.answers=number", "reward=exact_match"]
    run = WarmCommand(tmp_path, [*words, "algorithm=ppo", "algorithm.minibatch_size=32"])
    assert run.wait() == 0, run.err
    said = run.err.splitlines()
    assert "note: task.held_out_share=0.1: 3 of 29 different prompts are held out" in said
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
def test_what_it_needs_to_be_said(
    read: Any, chat: str, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    turns = [SimpleNamespace(response=text, absent=text == "") for text in ("one", "", "two", "3")]
    algorithm: Any = SimpleNamespace(episodes=[SimpleNamespace(turns=turns)])
    none: Any = None
    loop = Loop(algorithm, parsed(f"model.chat={chat}"), none, none, none, none, read)
    loop.bar = SimpleNamespace(write=lambda line, file: print(line, file=file))  # type: ignore
    loop.pending = {"rollout/truncated_share/agent_0": 0.6, "objective/score_std/agent_0": 0.1}
    loop._say_obstacles()
    lines = capsys.readouterr().out.splitlines()
    assert [line.removeprefix("note: ").partition(":")[0] for line in lines] == expected
