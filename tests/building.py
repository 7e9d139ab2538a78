"""Trainers on tiny random models, built as worker.py builds them, without a run directory."""

from __future__ import annotations

from dataclasses import replace

from cory.algorithms import ALGORITHMS
from cory.config import Config, parse_config
from cory.episode import Episode
from cory.rewards import Reward
from cory.trainers.ppo import PPOTrainer
from cory.worker import build_parts
from tests.composing import compose_config


class LetterShare:
    """A judge that needs no model: the share of `letter` in the response, times `sign`."""

    def __init__(self, letter: str = "e", sign: float = 1.0) -> None:
        self.letter, self.sign, self.calls = letter, sign, 0

    def score(self, episodes: list[Episode]) -> None:
        self.calls += 1
        for episode in episodes:
            for turn in episode.turns:
                share = turn.response.count(self.letter) / max(1, len(turn.response))
                turn.score = self.sign * share


def small_config(base: list[str], *overrides: str) -> Config:
    """A run of 8 prompts of 2 to 4 tokens and 6 new tokens; `base` names models and data."""
    return parse_config(
        compose_config(
            *base,
            "algorithm.prompts_per_iteration=8",
            "algorithm.minibatch_size=8",
            "algorithm.sampling.min_response_tokens=6",
            "algorithm.sampling.max_response_tokens=6",
            "task.max_prompt_tokens=4",
            "task.min_characters=1",
            "evaluation_prompts=8",
            # the observer's prompt of the paper is longer than the random model's context
            "task.observer_template='{answers}: {query}'",
            *overrides,
        )
    )


def build(config: Config, reward: Reward | None = None) -> PPOTrainer:
    """The trainer of `config`, with another judge when one is given."""
    parts = build_parts(config)
    if reward is not None:
        parts = replace(parts, reward=reward)
    trainer = ALGORITHMS[config.algorithm.name](config.algorithm, parts)
    assert isinstance(trainer, PPOTrainer)
    return trainer
