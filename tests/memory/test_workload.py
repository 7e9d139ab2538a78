"""The longest prompts that a run's settings allow, by hand."""

from __future__ import annotations

import pytest

from cory.config import Config
from cory.memory.workload import longest_context, mean_context
from tests.support.composing import parsed
from tests.support.short_prompts import short_prompts


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        (["algorithm=ppo"], 4),
        (["algorithm.knowledge_transfer=false"], 4),
        ([], 4 + 4 + 6),
        (["algorithm.agents=3"], 4 + 2 * (4 + 6) + 6 // 3),  # ": " and one separator
        (["task.answer_template='{response}'"], 4 + 6),
        (["task.observer_template='{answers} then in other words {query}'"], 14 + 22 // 3),
    ],
)
def test_longest_context(words: list[str], tokens: int) -> None:
    assert longest_context(short_prompts(*words)) == tokens


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        (["algorithm.turns=1", "algorithm.evaluation_turns=1"], 50),
        (["algorithm.turns=3", "algorithm.evaluation_turns=2"], 50 + 2 * 6),  # the latest answers
        (["algorithm.turns=1", "algorithm.evaluation_turns=2"], 50 + 2 * 6),
        (["algorithm.turns=2", "algorithm.evaluation_agents=5"], 50 + 5 * 6),
    ],
)
def test_longest_debate(words: list[str], tokens: int) -> None:
    assert longest_context(debate(*words)) == tokens


@pytest.mark.slow
def test_mean_context() -> None:
    assert mean_context(short_prompts("algorithm=ppo")) == 4
    assert mean_context(short_prompts("algorithm.knowledge_transfer=false")) == 4
    assert mean_context(short_prompts()) == (4 + 14) / 2
    assert mean_context(short_prompts("algorithm.agents=3")) == (4 + 26) / 2
    assert mean_context(debate("algorithm.turns=1")) == 50
    assert mean_context(debate("algorithm.turns=3")) == (50 + 2 * 62) / 3
    evaluated = mean_context(debate("algorithm.turns=3", "algorithm.evaluation_turns=2"), True)
    assert evaluated == (50 + 62) / 2


def debate(*words: str) -> Config:
    """Two debaters, questions of 50 tokens and answers of 6."""
    return parsed(
        *("experiment=maporl/gsm8k_maporl_exact", "scale=small", "task.max_prompt_tokens=50"),
        *("algorithm.sampling.min_response_tokens=6", "algorithm.sampling.max_response_tokens=6"),
        *("algorithm.agents=2", "algorithm.evaluation_agents=2", "algorithm.evaluation_turns=1"),
        *("algorithm.train_turns=[1]", *words),
    )


@pytest.mark.parametrize("feedback", [False, True])
def test_a_chat_keeps_every_round_of_a_debate(feedback: bool) -> None:
    config = debate("algorithm.turns=3", "model.chat=true")
    config.algorithm.verifier_feedback = feedback
    texts = config.algorithm.prompts
    others = 2 * (len(texts.other) + len(texts.separator))
    grades = len(texts.own_feedback) + 2 * len(texts.feedback) if feedback else 0
    asked_again = 2 * 6 + 50 + (len(texts.follow_up) + others + grades) // 3
    assert longest_context(config) == 50 + 2 * asked_again


def test_a_real_observer_is_not_longer() -> None:
    config = parsed()
    assert longest_context(config) == 8 + (8 + 16) + 43 // 3
