"""Learning from examples that are collected anew in every iteration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cory.config import BatchPlan, SupervisedConfig
from cory.episode import Episode, Metrics
from cory.evaluation import BeforeEach, Request
from cory.pieces import Pieces
from cory.streams import Streams
from cory.tasks import Task
from cory.trainers.clock import Clock
from cory.trainers.divergence import TrainingDiverged
from cory.trainers.first_update import check_first_update, weights
from cory.trainers.rows import minibatches, one_step
from cory.voice import Voice


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


# (logprobs (B, R), values (B, R), labels (B,), mask (B, R)) -> what is made of them
Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # (B, R) per token, to minimise
Statistics = Callable[[Tensor, Tensor, Tensor, Tensor], Mapping[str, Tensor]]  # (B,) per example


class SupervisedTrainer:
    """Minibatch steps on examples; one after another, each policy on its own.

    What differs between algorithms is given, not inherited:
      collect() -> Collected     where examples come from
      loss                       what is minimised, per token
      statistics                 what else is logged, mean over examples
      named(what, policy)        what a number of the training is called
      measure                    how the policies are evaluated
    """

    def __init__(
        self,
        config: SupervisedConfig,
        plan: BatchPlan,
        voices: Mapping[str, Voice],
        task: Task,
        streams: Streams,
        *,
        collect: Callable[[], Collected],
        loss: Loss,
        statistics: Statistics,
        named: Callable[[str, str], str],
        measure: Callable[[Request, Pieces, BeforeEach], Metrics],
    ) -> None:
        self.config = config
        self.plan = plan
        self.agents = voices
        self.task = task
        self.streams = streams
        self.collect = collect
        self.loss = loss
        self.statistics = statistics
        self.named = named
        self.evaluate = measure
        self.updates = dict.fromkeys(voices, 0)  # iterations in which a policy learnt
        self.idle = dict.fromkeys(voices, 0)  # ... and in which it had no example
        self.episodes: list[Episode] = []  # of the last step

    def step(self, iteration: int) -> Metrics:
        """One iteration: collect examples, and update every policy on its own."""
        clock = Clock()
        collected = self.collect()
        self.episodes = collected.episodes
        metrics = dict(collected.metrics)
        clock.lap("rollout_s")
        for voice in self.agents.values():
            examples = collected.examples[voice.name]
            if examples:
                first = self.updates[voice.name] == 0
                before = weights(self.agents) if first else None
                metrics |= self.update(voice, examples)
                if before is not None:
                    skipped = metrics[self.named("skipped_steps", voice.name)]
                    check_first_update(voice, before, weights(self.agents), skipped == 1)
                self.updates[voice.name] += 1
            else:
                self.idle[voice.name] += 1
            metrics[self.named("examples", voice.name)] = float(len(examples))
            metrics[self.named("idle", voice.name)] = float(self.idle[voice.name])
            clock.lap("update_s")
            for key, value in metrics.items():
                if not math.isfinite(value):
                    raise TrainingDiverged(iteration, f"{key} is not finite", metrics)
        return metrics | clock.metrics()

    def update(self, voice: Voice, examples: Sequence[Example]) -> Metrics:
        """Passes over one policy's examples; mean statistics of them all."""
        voice.start_update()
        sums: dict[str, float] = {}
        size, epochs, stream = self.config.minibatch_size, self.config.epochs, self.streams.shuffle
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

    def _minibatch(self, voice: Voice, rows: Sequence[Example | None]) -> dict[str, float]:
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
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.task.load_state_dict(state["task"])
        self.streams.load_state_dict(state["streams"])
        self.updates = dict(state["updates"])
        self.idle = dict(state["idle"])
