"""Trainers on tiny random models, built as worker.py builds them, without a run directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cory.config import ClassifierConfig, Config, builder, parse_config
from cory.episode import Episode, Metrics
from cory.evaluation.responses import BeforeEach, EvalRequest
from cory.rewards import Reward
from cory.runs.files import Line
from cory.runtime.build import build_parts
from cory.trainers.ppo import PPOTrainer
from tests.support.commands import last_wins
from tests.support.composing import compose_config

CLASSIFIER = ClassifierConfig(  # float32, the text as it is
    name="classifier",
    path="",
    label="POSITIVE",
    output="logit",
    chat=False,
    max_tokens=None,
    batch_size=64,
    precision="fp32",
    quantisation="none",
    double_quantisation=True,
    compute_precision="fp32",
    attention="auto",
)


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
    """A run of 8 prompts and 6 new tokens; `base` names models and data, prompts of 2 to 4 tokens
    unless it says more."""
    settings = [
        "algorithm.prompts_per_iteration=8",
        "algorithm.minibatch_size=8",
        "algorithm.sampling.min_response_tokens=6",
        "algorithm.sampling.max_response_tokens=6",
        "task.max_prompt_tokens=4",
        "evaluation.prompts=8",
        # the observer's prompt of the paper is longer than the random model's context
        "task.observer_template='{answers}: {query}'",
    ]
    if "task=gsm8k" not in base:
        settings.append("task.min_characters=1")
    return parse_config(compose_config(*last_wins([*settings, *base, *overrides])))


def asked(questions: Path) -> list[str]:
    """Settings of a task with answers, short enough for the random model, and of its evaluation."""
    return [
        "task=gsm8k",
        "reward=exact_match",
        "task.source=path",
        f"task.path={questions}",
        "task.train_split='train[:50%]'",
        "task.test_split='train[50%:]'",
        "task.max_prompt_tokens=24",
        "task.example=''",
        "task.prompt_template='{question} So'",
        "task.observer_template='{question} {answers} So'",
        "evaluation.samples=4",
        "evaluation.k=[1,4]",
    ]


def measure(
    trainer: PPOTrainer,
    config: Config,
    run_dir: Path,
    before_each: BeforeEach = lambda done, rows: None,
    final: bool = True,
) -> tuple[Metrics, list[Line]]:
    """What an evaluation by these settings finds, and its lines of samples.jsonl."""
    request = EvalRequest(config.evaluation, config.seed, 3, final)
    metrics = trainer.evaluate(request, before_each)
    require_contributions(request, metrics)
    return metrics, request.lines


def require_contributions(request: EvalRequest, metrics: Metrics) -> None:
    """AssertionError unless what prompts contribute to each metric has it as its mean."""
    scores = request.scores
    assert scores.values and scores.shares.keys() <= scores.values.keys() <= metrics.keys()
    for name, values in scores.values.items():
        assert len(values) == len(scores.prompts) > 0
        assert abs(sum(values) / len(values) - metrics[name]) < 1e-6, name


def build(config: Config, reward: Reward | None = None) -> PPOTrainer:
    """The trainer of `config`, with another judge when one is given."""
    parts = build_parts(config)
    if reward is not None:
        parts = replace(parts, reward=reward)
    trainer = builder("algorithm", config.algorithm.name)(config.algorithm, parts)
    assert isinstance(trainer, PPOTrainer)
    return trainer
