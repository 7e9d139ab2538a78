"""Trainers on tiny random models, built as worker.py builds them, without a run directory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor

from cory.config import ClassifierConfig, Config, builder, parse_config
from cory.episode import Batch, Metrics, turns_of
from cory.evaluation.responses import BeforeEach, EvalRequest
from cory.models.policy import PPOPolicy
from cory.rewards import Reward, Row
from cory.runs.export import export_agents
from cory.runs.files import Line
from cory.runtime.worker import build_components
from cory.trainers.components import Components
from cory.trainers.estimates import Estimate
from cory.trainers.ppo import PPOTrainer
from cory.trainers.steps import Stage
from tests.support.commands import last_wins
from tests.support.composing import compose_config

CLASSIFIER = ClassifierConfig(  # float32, the text as it is
    name="classifier",
    path="",
    label="POSITIVE",
    output="logit",
    chat=False,
    batch_size=64,
    precision="fp32",
    compute_precision="fp32",
    attention="auto",
)


class LetterShare(Reward):
    """A judge that needs no model: the share of `letter` in the response, times `sign`."""

    def __init__(self, letter: str = "e", sign: float = 1.0) -> None:
        self.letter, self.sign, self.calls = letter, sign, 0

    def scores(self, rows: Sequence[Row]) -> list[float]:
        self.calls += 1
        said = [turn.response for _, turn in rows]
        return [self.sign * text.count(self.letter) / max(1, len(text)) for text in said]


# 8 prompts of at most 4 tokens, and 6 new ones
SMALL = [
    *("algorithm.prompts_per_iteration=8", "algorithm.minibatch_size=8"),
    *("algorithm.sampling.min_response_tokens=6", "algorithm.sampling.max_response_tokens=6"),
    *("task.max_prompt_tokens=4", "evaluation.prompts=8"),
    # the observer's prompt of the paper is longer than the random model's context
    "task.observer_template='{answers}: {query}'",
]


def small_config(base: list[str], *overrides: str) -> Config:
    """A SMALL run; `base` names models and data, prompts of 2 to 4 tokens unless it says more."""
    reviews = [] if "task=gsm8k" in base else ["task.min_characters=1"]
    return parse_config(compose_config(*last_wins([*SMALL, *reviews, *base, *overrides])))


def asked(questions: Path) -> list[str]:
    """Settings of a task with answers, short enough for the random model, and of its evaluation."""
    return [
        *("task=gsm8k", "reward=exact_match", "task.source=path", f"task.path={questions}"),
        *("task.train_split='train[:50%]'", "task.test_split='train[50%:]'"),
        *("task.max_prompt_tokens=24", "task.prompt_template='{prompt} So'"),
        *("task.observer_template='{prompt} {answers} So'", "evaluation.samples=4"),
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


def steps(trainer: Any, *iterations: int) -> list[Metrics]:
    """The metrics of these iterations, without how long they took."""
    found = [trainer.step(iteration) for iteration in iterations]
    return [
        {name: value for name, value in metrics.items() if not name.startswith("time/")}
        for metrics in found
    ]


def after_two_steps(trainer: PPOTrainer) -> tuple[PPOPolicy, Batch]:
    """The first agent, and its last turns, with responses cut to one to six tokens."""
    steps(trainer, 0, 1)
    agent = trainer.agents["agent_0"]
    turns = turns_of(trainer.episodes, "agent_0")
    for number, turn in enumerate(turns):
        del turn.response_ids[1 + number % 6 :]
    return agent, agent.annotate(turns)


@torch.no_grad()
def plain_logprobs(lm: Any, context: Sequence[int], said: Sequence[int]) -> Tensor:
    """Of each token of a response, by a pass of the library over this row alone."""
    ids = torch.tensor([[*context, *said]])
    logits = lm(input_ids=ids, use_cache=False).logits[0, len(context) - 1 : -1]
    return logits.log_softmax(-1).gather(1, torch.tensor([*said])[:, None]).squeeze(1)  # type: ignore[no-any-return]


def gradient_norm(loss: Tensor, agent: PPOPolicy) -> float:
    gradients = torch.autograd.grad(loss, [*agent.engine.trainable.values()], allow_unused=True)
    return sum(float((g**2).sum()) for g in gradients if g is not None) ** 0.5


def noise_in(mask: Tensor) -> Callable[[float], Tensor]:
    """Takes a scale: random numbers, another time others, and 0 outside the mask."""
    stream = torch.Generator().manual_seed(4)
    return lambda scale: torch.where(mask, scale * torch.randn(mask.shape, generator=stream), 0.0)


@dataclass
class Updated:
    """What one update of an agent was given, and what that had been computed from."""

    credits: list[float]  # of its turns, before scaling
    scores: list[float]
    batch: Batch
    estimate: Estimate
    kl_coef: float


def updates_of(trainer: PPOTrainer, iterations: int) -> dict[str, list[Updated]]:
    """The updates of each agent in so many iterations."""
    found: dict[str, list[Updated]] = {name: [] for name in trainer.agents}
    update = trainer.update

    def noted(agent: PPOPolicy, batch: Batch, estimate: Estimate, stage: Stage) -> Metrics:
        turns = turns_of(trainer.episodes, agent.name)
        credits = [float(turn.credit or 0.0) for turn in turns]
        scores = [float(turn.score or 0.0) for turn in turns]
        found[agent.name].append(Updated(credits, scores, batch, estimate, agent.kl_coef))
        return update(agent, batch, estimate, stage)

    trainer.update = noted  # type: ignore[method-assign]
    for iteration in range(iterations):
        trainer.step(iteration)
    trainer.update = update  # type: ignore[method-assign]
    return found


def built(config: Config, components: Components | None = None, **others: Any) -> Any:
    """The trainer of `config`, with these components in place of its own."""
    components = replace(components or build_components(config), **others)
    return builder("algorithm", config.algorithm.name)(config.algorithm, components)


def build(config: Config, reward: Reward | None = None) -> PPOTrainer:
    """The same where it is PPO's, with another judge when one is given."""
    trainer = built(config, **({} if reward is None else {"reward": reward}))
    assert isinstance(trainer, PPOTrainer)
    return trainer


def leave_run(agents: Any, config: Config, run_dir: Path) -> None:
    """What a finished run leaves for those who ask its agents or start from them."""
    export_agents(agents, config, run_dir)
    OmegaConf.save(OmegaConf.create(config.model_dump()), run_dir / "config.yaml")
