"""Supervised fine-tuning on examples that are collected anew in every iteration."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cory.config import SupervisedConfig
from cory.episode import Context, Episode, Metrics, TokenRow
from cory.evaluation.evaluate import Evaluator
from cory.functional.losses import weighted_nll
from cory.models.policy import Policy
from cory.models.tokenization import Texts
from cory.trainers.components import Components
from cory.trainers.sanity_checks import checked_update
from cory.trainers.steps import (
    Clock,
    Resumable,
    Stage,
    Stateful,
    add_step,
    export_examples,
    optimiser_step,
    paced,
    require_finite,
)


@dataclass(frozen=True)
class Example(TokenRow):
    """A response to learn, in its context."""

    context_ids: list[int]  # not empty
    response_ids: list[int]  # empty: nothing is learnt from it
    label: float  # for the loss: right or wrong, or a weight
    asked: Context = ""  # the context before it was rendered
    lead: int = 0  # tokens at the end of the context that are of the response, and not learnt

    def pair(self, texts: Texts) -> dict[str, Any]:
        """As `Texts.pair`, with the whole response."""
        ends = len(self.context_ids) - self.lead
        before, lead = self.context_ids[:ends], self.context_ids[ends:]
        return texts.pair(self.asked, before, [*lead, *self.response_ids])


@dataclass
class CollectedExamples:
    examples: Mapping[str, list[Example]]  # policy -> its examples, perhaps none
    episodes: list[Episode]  # their source, for samples.jsonl
    metrics: Metrics = field(default_factory=dict)


@dataclass(frozen=True)
class FinetunePlan:
    epochs: int
    learning_rate: float  # at its highest
    fresh: bool = False  # as a training of its own: Adam and the schedule begin anew ...
    # ... from these weights, as of `Engine.kept_weights`; None: from its present ones
    start: Sequence[Tensor] | None = None


# (logprobs (B, R), values (B, R), None without a value head, labels (B,), mask (B, R)) -> what to
# minimise (B, R), and statistics of each example (B,), logged beside it
Losses = tuple[Tensor, Mapping[str, Tensor]]
TokenLoss = Callable[[Tensor, Tensor | None, Tensor, Tensor], Losses]


def response_nll(logprobs: Tensor, values: Tensor | None, labels: Tensor, mask: Tensor) -> Losses:
    """Negative log-likelihood of every token; values play no part."""
    return weighted_nll(logprobs, labels, mask), {}


@dataclass
class SupervisedTrainer(Resumable):
    """Minibatch steps on examples, for one policy after another.

    Algorithms differ in the functions they pass, not by inheritance.
    """

    kept = ("updates",)

    components: Components
    agents: Mapping[str, Policy]
    collect: Callable[[int], CollectedExamples]  # iteration -> the examples of every policy
    evaluate: Evaluator
    _: KW_ONLY
    loss: TokenLoss = response_nll
    # of a policy, in an iteration; None: epochs and learning rate of the settings
    finetune_plan: Callable[[str, int], FinetunePlan] | None = None
    # training metric, policy -> its logged name
    metric_name: Callable[[str, str], str] = "supervised/{}/{}".format
    average: str = "tokens"  # tokens | responses: what counts alike in the loss of a minibatch
    episodes: list[Episode] = field(init=False, default_factory=list)  # of the last step

    def __post_init__(self) -> None:
        self.config: SupervisedConfig = self.components.config.algorithm
        # iterations in which a policy learnt
        self.updates = dict.fromkeys(self.agents, 0)

    def step(self, iteration: int) -> Metrics:
        """One iteration: collect examples, and update every policy on its own.

        Once they are collected, it cannot be interrupted.
        """
        clock = Clock()
        collected = self.collect(iteration)
        metrics = dict(collected.metrics)
        if self.components.config.export_examples:
            for name, policy in self.agents.items():
                own = collected.examples[name]
                rows = (each.pair(policy.texts) | {"label": each.label} for each in own)
                export_examples(Path(self.components.config.run_dir), iteration, name, rows)
        clock.lap("rollout_s")
        for name, policy in self.agents.items():
            metrics |= self._learn(policy, collected.examples[name], iteration)
            clock.lap("update_s")
            require_finite(iteration, metrics)
        self.episodes = collected.episodes
        return metrics | clock.metrics()

    def _learn(self, policy: Policy, examples: Sequence[Example], iteration: int) -> Metrics:
        """Update one policy, unless it has no examples."""
        metrics: Metrics = {}
        if examples:
            own: SupervisedConfig = self.components.config.algorithm_of(policy.name)
            plan = FinetunePlan(own.epochs, own.learning_rate)
            if self.finetune_plan is not None:
                plan = self.finetune_plan(policy.name, iteration)
            if plan.start is not None:
                policy.engine.set_stepped_weights(plan.start)
            if plan.fresh:
                policy.engine.reset_optimizer()
            part, parts = (0, 1) if plan.fresh else (iteration, self.config.iterations)
            stage = Stage(part, parts, plan.learning_rate)
            checked = checked_update(policy, self.agents, head_counts=True)
            later = self.updates[policy.name] > 0
            with nullcontext() if later else checked:
                metrics |= self.update(policy, examples, plan.epochs, stage)
            self.updates[policy.name] += 1
            metrics[self.metric_name("learning_rate", policy.name)] = policy.engine.learning_rate
        metrics[self.metric_name("examples", policy.name)] = float(len(examples))
        return metrics

    def update(
        self, policy: Policy, examples: Sequence[Example], epochs: int, stage: Stage
    ) -> Metrics:
        """Epochs over one policy's examples; mean statistics of all steps."""
        policy.start_update(dropout=True)
        stream = self.components.streams.shuffle
        sums: dict[str, float] = {}
        for batch in paced(policy, examples, epochs, stage, self.config, stream):
            if not add_step(sums, self._minibatch(policy, batch)):
                break
        steps, whole, count = (sums.pop(key) for key in ("steps", "whole", "count"))
        divisors = {"loss": whole, "gradient_norm": steps}
        return {
            self.metric_name(key, policy.name): value / divisors.get(key, count)
            for key, value in sums.items()
        }

    def _minibatch(self, policy: Policy, rows: list[Example | None]) -> dict[str, float]:
        """One optimiser step; sums over the minibatch, and their divisors."""
        present = [row for row in rows if row is not None]
        # divided by a number of the whole minibatch, so that neither the size of a microbatch nor
        # the number of processes changes anything
        lengths = [len(row.response_ids) for row in present]
        whole = max(1, sum(lengths) if self.average == "tokens" else sum(map(bool, lengths)))

        def objective(part: list[Example | None]) -> tuple[Tensor, Mapping[str, Tensor]]:
            ids, attention_mask, mask = policy.tensors(part)
            logprobs, values, *_ = policy.engine(ids, attention_mask, mask)
            labels = torch.tensor([0.0 if r is None else r.label for r in part], device=mask.device)
            there = torch.tensor([row is not None for row in part], device=mask.device)
            per_token, statistics = self.loss(logprobs, values, labels, mask)
            losses = per_token.sum(1)
            loss = (losses if self.average == "tokens" else losses / mask.sum(1).clamp(min=1)).sum()
            return loss / whole, {"loss": loss.detach()} | {
                key: torch.where(there, of_each.float(), 0.0).sum()
                for key, of_each in statistics.items()
            }

        each = [0 if row is None else row.tokens for row in rows]
        step = optimiser_step(policy, rows, self.components.plan.microbatch, objective, each)
        return step | {"whole": float(whole), "count": float(len(present)), "steps": 1.0}

    def parts(self) -> Mapping[str, Stateful]:
        return self.components.carried
