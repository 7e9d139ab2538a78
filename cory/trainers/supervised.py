"""Learning from examples that are collected anew in every iteration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cory.config import BatchPlan, SupervisedConfig
from cory.episode import Episode, Metrics, as_plain, of_plain
from cory.evaluation.evaluate import BeforeEach, Request
from cory.models.policy import Policy
from cory.runs.partial_results import PartialResults
from cory.runs.stop import StopPoint, never_stop
from cory.seeding import Streams
from cory.tasks import Task
from cory.trainers.clock import Clock
from cory.trainers.divergence import TrainingDiverged
from cory.trainers.minibatch import minibatches, one_step
from cory.trainers.sanity_checks import check_first_update, weights


@dataclass(frozen=True)
class Example:
    """A text to learn from; tokens of the context are only read."""

    context_ids: list[int]  # not empty
    response_ids: list[int]  # empty: nothing is learnt from it
    label: float  # what the loss is told: right or wrong, or a weight


@dataclass
class Collected:
    """What an iteration learns from."""

    examples: Mapping[str, list[Example]]  # policy -> any number of them, perhaps none
    episodes: list[Episode]  # what they were taken from, for samples.jsonl
    metrics: Metrics = field(default_factory=dict)


@dataclass(frozen=True)
class FinetunePlan:
    """How a policy learns in one iteration."""

    epochs: int
    learning_rate: float
    fresh: bool = False  # as a training of its own: Adam begins anew ...
    start: Mapping[str, Tensor] | None = None  # ... from these weights; None: from its present ones


# (logprobs (B, R), values (B, R), labels (B,), mask (B, R)) -> what is made of them
Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # (B, R) per token, to minimise
Statistics = Callable[[Tensor, Tensor, Tensor, Tensor], Mapping[str, Tensor]]  # (B,) per example


@dataclass
class IterationState:
    """An iteration between its parts."""

    examples: dict[str, list[Example]]  # of the policies that have not learnt yet
    metrics: Metrics  # so far
    episodes: list[Episode]

    def state_dict(self) -> dict[str, Any]:
        """Plain values."""
        examples = {
            name: [(e.context_ids, e.response_ids, e.label) for e in own]
            for name, own in self.examples.items()
        }
        episodes = [as_plain(episode) for episode in self.episodes]
        return {"examples": examples, "metrics": dict(self.metrics), "episodes": episodes}

    @classmethod
    def of(cls, state: dict[str, Any]) -> IterationState:
        """What `state_dict` gave."""
        examples = {
            name: [Example(*fields) for fields in own] for name, own in state["examples"].items()
        }
        return cls(examples, dict(state["metrics"]), [of_plain(own) for own in state["episodes"]])


class SupervisedTrainer:
    """Minibatch steps on examples; one after another, each policy on its own.

    What differs between algorithms is given, not inherited:
      collect(iteration) -> Collected    where examples come from
      course(policy, iteration)  how long and how fast a policy learns
      loss                       what is minimised, per token
      statistics                 what else is logged, mean over examples
      named(what, policy)        what a number of the training is called
      measure                    how the policies are evaluated
    """

    def __init__(
        self,
        config: SupervisedConfig,
        plan: BatchPlan,
        voices: Mapping[str, Policy],
        task: Task,
        streams: Streams,
        *,
        collect: Callable[[int], Collected],
        course: Callable[[str, int], FinetunePlan],
        loss: Loss,
        statistics: Statistics,
        named: Callable[[str, str], str],
        measure: Callable[[Request, PartialResults, BeforeEach], Metrics],
    ) -> None:
        self.config = config
        self.plan = plan
        self.agents = voices
        self.task = task
        self.streams = streams
        self.collect = collect
        self.course = course
        self.loss = loss
        self.statistics = statistics
        self.named = named
        self.evaluate = measure
        self.updates = dict.fromkeys(voices, 0)  # iterations in which a policy learnt
        self.idle = dict.fromkeys(voices, 0)  # ... and in which it had no example
        self.episodes: list[Episode] = []  # of the last step
        self.begun: IterationState | None = None  # an iteration that is not over

    def step(self, iteration: int, stop_point: StopPoint = never_stop) -> Metrics:
        """One iteration: collect examples, and update every policy on its own.

        Between two policies it can be left: what is still to be learnt is part of the state.
        """
        clock = Clock()
        if self.begun is None:
            self.begun = self._begin(iteration)
            clock.lap("rollout_s")
        begun = self.begun
        while begun.examples:
            name, examples = next(iter(begun.examples.items()))
            begun.metrics |= self._learn(self.agents[name], examples, iteration)
            del begun.examples[name]
            clock.lap("update_s")
            for key, value in begun.metrics.items():
                if not math.isfinite(value):
                    raise TrainingDiverged(iteration, f"{key} is not finite", begun.metrics)
            if begun.examples:
                stop_point()
        self.episodes = begun.episodes
        self.begun = None
        return begun.metrics | clock.metrics()

    def _begin(self, iteration: int) -> IterationState:
        """Collect what every policy is to learn."""
        collected = self.collect(iteration)
        examples = {name: list(collected.examples[name]) for name in self.agents}
        return IterationState(examples, dict(collected.metrics), collected.episodes)

    def _learn(self, voice: Policy, examples: Sequence[Example], iteration: int) -> Metrics:
        """Update one policy, where there is anything to learn."""
        metrics: Metrics = {}
        if examples:
            course = self.course(voice.name, iteration)
            if course.start is not None:
                voice.engine.set_weights(course.start)
            if course.fresh:
                voice.engine.reset_optimizer()
            voice.engine.set_learning_rate(course.learning_rate)
            before = weights(self.agents) if self.updates[voice.name] == 0 else None
            metrics |= self.update(voice, examples, course.epochs)
            if before is not None:
                skipped = metrics[self.named("skipped_steps", voice.name)]
                check_first_update(voice, before, weights(self.agents), skipped == 1)
            self.updates[voice.name] += 1
        else:
            self.idle[voice.name] += 1
        metrics[self.named("examples", voice.name)] = float(len(examples))
        metrics[self.named("idle", voice.name)] = float(self.idle[voice.name])
        return metrics

    def update(self, voice: Policy, examples: Sequence[Example], epochs: int) -> Metrics:
        """Passes over one policy's examples; mean statistics of them all."""
        voice.start_update()
        sums: dict[str, float] = {}
        size, stream = self.config.minibatch_size, self.streams.shuffle
        for chosen in minibatches(len(examples), size, epochs, stream):
            rows = [None if index is None else examples[index] for index in chosen]
            step = self._minibatch(voice, rows)
            for key, value in step.items():
                sums[key] = sums.get(key, 0.0) + value
            if not all(map(math.isfinite, step.values())):
                break  # the same in every process: these are sums over all of them
        steps, tokens, count = (sums.pop(key) for key in ("steps", "tokens", "count"))
        over = {"loss": tokens, "gradient_norm": steps, "skipped_steps": steps}
        return {
            self.named(key, voice.name): value / over.get(key, count) for key, value in sums.items()
        }

    def _minibatch(self, voice: Policy, rows: Sequence[Example | None]) -> dict[str, float]:
        """One optimiser step; sums over the minibatch, and what they are to be divided by."""
        present = [row for row in rows if row is not None]
        # divided by the whole minibatch's tokens, so that neither the size of a microbatch nor the
        # number of processes changes anything
        tokens = max(1, sum(len(row.response_ids) for row in present))

        def objective(
            part: Sequence[Example | None], logprobs: Tensor, values: Tensor, mask: Tensor
        ) -> tuple[Tensor, Mapping[str, Tensor]]:
            device = mask.device
            labels = torch.tensor([0.0 if r is None else r.label for r in part], device=device)
            there = torch.tensor([row is not None for row in part], device=device)
            loss = self.loss(logprobs, values, labels, mask).sum()
            found = self.statistics(logprobs.detach(), values.detach(), labels, mask)
            numbers = {"loss": loss.detach()} | {
                key: torch.where(there, of_each.float(), 0.0).sum()
                for key, of_each in found.items()
            }
            return loss / tokens, numbers

        stepped = one_step(voice, rows, self.plan.microbatch, objective)
        return stepped.sums | {
            "tokens": float(tokens),
            "count": float(len(present)),
            "steps": 1.0,
            "gradient_norm": stepped.gradient_norm,
            "skipped_steps": float(stepped.skipped),
        }

    def state_dict(self) -> dict[str, Any]:
        """All that an iteration changes except weights and optimisers, which the engines keep."""
        return {
            "task": self.task.state_dict(),
            "streams": self.streams.state_dict(),
            "updates": dict(self.updates),
            "idle": dict(self.idle),
            "begun": None if self.begun is None else self.begun.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.task.load_state_dict(state["task"])
        self.streams.load_state_dict(state["streams"])
        self.updates = dict(state["updates"])
        self.idle = dict(state["idle"])
        begun = state["begun"]
        self.begun = None if begun is None else IterationState.of(begun)
