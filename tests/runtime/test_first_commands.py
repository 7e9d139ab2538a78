"""What somebody with a chat model, prompts and words of their own types first, on tiny models.

Beside model and data each command names at most three settings; those of SHORT only make it end.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.chat_models import FAMILIES, save_chat_model
from tests.support.commands import metrics
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
