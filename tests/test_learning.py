"""Every algorithm learns a toy task, and does not learn it with the sign of the credit flipped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cory.config import Config
from tests.building import LetterShare, build
from tests.composing import parsed

ITERATIONS = 25
OWN = {"maporl": ["algorithm.guards.boxed=false", "algorithm.guards.min_tokens=null"]}
MARGIN = 0.1  # share of the letter; a random model writes it about once in 100 characters


@pytest.mark.parametrize("algorithm", ["ppo", "cory", "maporl"])
@pytest.mark.parametrize("flipped", [False, True])
def test_the_score_rises(config_of: Callable[..., Config], algorithm: str, flipped: bool) -> None:
    config = config_of(
        f"algorithm={algorithm}",
        "algorithm.prompts_per_iteration=32",
        "algorithm.minibatch_size=32",
        "algorithm.learning_rate=3e-3",
        "algorithm.kl_coef=0.001",
        *OWN.get(algorithm, []),
    )
    trainer = build(config, LetterShare())
    if flipped:
        give_credit = trainer.assign_credit

        def flip(episodes: list) -> None:
            give_credit(episodes)
            for episode in episodes:
                for turn in episode.turns:
                    turn.credit = -turn.credit

        trainer.assign_credit = flip
    scores = []
    for iteration in range(ITERATIONS):
        metrics = trainer.step(iteration)
        agents = [metrics[f"objective/score/{name}"] for name in trainer.agents]
        scores.append(sum(agents) / len(agents))
    gain = sum(scores[-5:]) / 5 - sum(scores[:5]) / 5
    assert (gain > MARGIN) == (not flipped), scores


@pytest.mark.usefixtures("config_of")  # it joins a process group
def test_a_debater_learns_to_take_a_better_partners_answer() -> None:
    """tiny_math gets one subtraction in five right, tiny_sums two in three; both see both."""
    config = parsed(
        "experiment=maporl/gsm8k_hetero_qwen",
        "scale=small",
        "algorithm.turns=2",
        "algorithm.train_turns=[2]",
        "algorithm.param_sharing=per_agent",
        "algorithm.prompts_per_iteration=128",
        "algorithm.minibatch_size=64",
    )
    trainer = build(config)
    assert trainer.agents["agent_1"].team.config.name == "tiny_math"
    trainer.learners = lambda iteration: ["agent_1"]
    scores = [trainer.step(i)["objective/score/agent_1"] for i in range(12)]
    assert sum(scores[-3:]) / 3 - sum(scores[:3]) / 3 > MARGIN, scores
