"""What somebody with a chat model, prompts and words of their own types first, on tiny models.

Beside model and data each command names at most three settings; those of SHORT only make it end.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.chat_models import save_chat_model
from tests.support.commands import metrics
from tests.support.warm import WarmCommand

SHORT = ("algorithm.iterations=1", "evaluation.prompts=2", "algorithm.minibatch_size=8",
         "algorithm.sampling.max_response_tokens=8")  # fmt: skip
FEW = (*SHORT, "algorithm.prompts_per_iteration=8")
PROMPTS = ("task=prompts", "task.path=mine.jsonl")
REWARD = ("reward=python", "reward.function=mine.py:reward")
WORDS = "apple bridge castle doctor engine flower garden hammer island jacket kitchen ladder"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "short", "metric", "agents"),
    [
        (
            [*PROMPTS, *REWARD, "algorithm=cory", "model.path=qwen3", "adapter=lora",
             "model.template.enable_thinking=false"],
            FEW, "objective/kl/observer", ["agent_0", "agent_1"],
        ),
        (
            [*PROMPTS, *REWARD, "algorithm=grpo", "model.path=gemma3"],
            FEW, "rollout/equal_groups/agent_0", ["agent_0"],
        ),
        (
            [*PROMPTS, *REWARD, "algorithm=cory", "model.path=qwen3",
             "members.agent_1.model.path=llama3", "members.agent_1.learning_rate=1e-4"],
            FEW, "ppo/learning_rate/agent_1", ["agent_0", "agent_1"],
        ),
        (
            ["algorithm=spag", "task=taboo", "task.path=words.txt", "model.path=qwen3",
             "algorithm.iterations_per_epoch=null", "algorithm.instructions.per_iteration=0"],
            FEW, "game/attacker_wins", ["agent_0"],
        ),
        (
            [*PROMPTS, "algorithm=maft", "task.answer_column=answer", "model.path=qwen2_5",
             "algorithm.prompts_per_iteration=8"],
            SHORT, "debate/consensus/team", ["critic_0", "critic_1", "critic_2"],
        ),
    ],
    ids=["cory", "grpo", "pair", "spag", "maft"],
)  # fmt: skip
def test_it_trains(
    words: list[str], short: tuple[str, ...], metric: str, agents: list[str], tmp_path: Path
) -> None:
    for word in words:
        key, _, name = word.partition("=")
        if key.endswith("model.path"):
            save_chat_model(name, tmp_path / name, max_position_embeddings=4096)
    rows = [{"prompt": f"What is {n} plus 1?", "answer": str(n + 1)} for n in range(20)]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "mine.py").write_text(
        "def reward(completions, **columns):\n    return [len(set(c)) / 9 for c in completions]\n"
    )
    (tmp_path / "words.txt").write_text(WORDS.replace(" ", "\n"))
    command = WarmCommand(tmp_path, [*words, *short, "run_dir=run"])
    assert command.wait(600) == 0, (command.out, command.err)
    (line,) = metrics(tmp_path / "run")
    assert metric in line
    assert {path.name for path in (tmp_path / "run" / "agents").iterdir()} >= {*agents}
    if "members.agent_1.learning_rate=1e-4" in words:
        rates = [line[f"ppo/learning_rate/agent_{n}"] for n in (0, 1)]
        assert rates == [pytest.approx(1.41e-5), pytest.approx(1e-4)]  # CORY's own, and its own
