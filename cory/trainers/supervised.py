"""Learning from examples that are collected anew in every iteration."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cory import processes
from cory.config import BatchPlan, SupervisedConfig
from cory.episode import Episode, Metrics
from cory.evaluation import BeforeEach, Request
from cory.functional.masking import pad_turns
from cory.pieces import Pieces
from cory.streams import Streams
from cory.tasks import Task
from cory.trainers.clock import Clock
from cory.trainers.divergence import TrainingDiverged
from cory.trainers.first_update import check_first_update, weights
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
        for chosen in self._minibatches(len(examples)):
            # None stands for an absent row, of which no token counts
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

    def _minibatches(self, examples: int) -> Iterator[list[int | None]]:
        """Indices of every minibatch of every epoch; each epoch in an order of its own.

        The last minibatch of an epoch is filled up, so that all have the same number of rows.
        """
        size = self.config.minibatch_size
        for _ in range(self.config.epochs):
            order = torch.randperm(examples, generator=self.streams.shuffle).tolist()
            for start in range(0, examples, size):
                chosen = order[start : start + size]
                yield [*chosen, *[None] * (size - len(chosen))]

    def _minibatch(self, voice: Voice, rows: Sequence[Example | None]) -> dict[str, float]:
        """One optimiser step; sums over the minibatch, and what they are to be divided by."""
        present = [row for row in rows if row is not None]
        # divided by the whole minibatch's tokens, so that neither the size of a microbatch nor the
        # number of processes changes anything
        tokens = max(1, sum(len(row.response_ids) for row in present))
        own = rows[processes.own_rows(len(rows))]
        sums: dict[str, Tensor] = {}
        norm = None
        for start in range(0, len(own), self.plan.microbatch):
            part = own[start : start + self.plan.microbatch]
            ids, attended, mask, labels = self._tensors(voice, part)
            logprobs, values = voice.engine(ids, attended, mask)
            loss = self.loss(logprobs, values, labels, mask).sum()
            voice.engine.backward(loss / tokens)
            norm = voice.engine.step()
            found = self.statistics(logprobs.detach(), values.detach(), labels, mask)
            there = torch.tensor([row is not None for row in part], device=mask.device)
            numbers = {"loss": loss.detach()} | {
                key: torch.where(there, of_each.float(), 0.0).sum()
                for key, of_each in found.items()
            }
            sums |= {key: sums.get(key, torch.zeros(())) + n for key, n in numbers.items()}
        assert norm is not None, "the last microbatch steps the optimiser"
        totals = processes.summed(torch.stack(list(sums.values()))).tolist()
        return dict(zip(sums, totals, strict=True)) | {
            "tokens": float(tokens),
            "count": float(len(present)),
            "steps": 1.0,
            "gradient_norm": norm,
            "skipped_steps": float(voice.engine.skipped),
        }

    def _tensors(
        self, voice: Voice, rows: Sequence[Example | None]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """input_ids (B, L), attention_mask (B, L), response_mask (B, R) and labels (B,)."""
        pad, device = voice.team.tokenizer.pad_token_id, voice.team.device
        tensors = pad_turns(
            # attention needs something to look at, in absent rows, too
            [[pad] if row is None else row.context_ids for row in rows],
            [[] if row is None else row.response_ids for row in rows],
            pad,
        )
        ids, attended, mask = (tensor.to(device) for tensor in tensors)
        labels = torch.tensor([0.0 if row is None else row.label for row in rows], device=device)
        return ids, attended, mask, labels

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
