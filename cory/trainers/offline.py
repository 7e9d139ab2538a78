"""Updates on stored sets of games, against the model that the set began with."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from cory import distributed
from cory.config import BatchPlan, ConfigError, OfflineConfig
from cory.episode import Episode, Metrics
from cory.evaluation.evaluate import BeforeEach, Request
from cory.functional.offline import OfflineLoss, utterance_logprobs
from cory.functional.schedule import share_of_peak
from cory.models.policy import Policy
from cory.runs.partial_results import PartialResults
from cory.runs.stop import StopPoint, never_stop
from cory.seeding import Streams
from cory.tasks import Task
from cory.trainers.clock import Clock
from cory.trainers.divergence import TrainingDiverged
from cory.trainers.minibatch import minibatches, one_step, tensors_of
from cory.trainers.sanity_checks import (
    TOLERANCE,
    FirstUpdateError,
    check_first_update,
    weights,
)

INSTRUCTION = "instruction"  # where an utterance comes from that nobody said in a game
CHECKED = 16  # utterances on which training and reference passes are compared


@dataclass(frozen=True)
class Utterance:
    """Something to learn to say."""

    context_ids: list[int]  # not empty
    response_ids: list[int]  # not empty
    source: str  # the role that said it in a game, or INSTRUCTION
    weight: float  # in the mean over a minibatch's utterances
    advantage: float
    reference: float = math.nan  # log-probability under the reference, once it is known


@dataclass(frozen=True)
class Stored:
    """A set of games, as what is to be learnt from each."""

    utterances: Sequence[Sequence[Utterance]]  # game -> what its winners said
    episodes: Sequence[Episode]  # some of the games, for samples.jsonl
    metrics: Metrics = field(default_factory=dict)


# (log-probabilities (B,) with gradient, reference (B,), advantages (B,)) -> what to minimise
Loss = Callable[[Tensor, Tensor, Tensor], OfflineLoss]


class OfflineTrainer:
    """One epoch over a set of games, in parts; then perhaps another set, played by who learnt.

    What differs between algorithms is given, not inherited:
      collect(epoch, again) -> Stored    where games come from; again: a set that was collected
      instructions(count)                what else there is to imitate
      loss                               what is minimised, per utterance
      measure                            how the policy is evaluated

    The reference of a set is the policy as it is before the first update on it. What it says of
    every utterance is reckoned once and kept, so that no second model is held.
    """

    def __init__(
        self,
        config: OfflineConfig,
        plan: BatchPlan,
        voice: Policy,
        task: Task,
        streams: Streams,
        *,
        collect: Callable[[int, bool], Stored],
        instructions: Callable[[int], Sequence[Utterance]],
        loss: Loss,
        measure: Callable[[Request, PartialResults, BeforeEach], Metrics],
        carried: Mapping[str, Any],
    ) -> None:
        """carried: what else must survive a restart, by name: with state_dict, load_state_dict"""
        self.config = config
        self.plan = plan
        self.voice = voice
        self.agents = {voice.name: voice}
        self.streams = streams
        self.collect = collect
        self.instructions = instructions
        self.loss = loss
        self.evaluate = measure
        self.carried = {"task": task, "streams": streams, **carried}
        self.updates = 0  # iterations in which something was learnt
        self.games: list[list[Utterance]] | None = None  # of the present set
        self.digest = ""  # of what is learnt from it
        self.order: list[int] = []  # in which its games are learnt from
        self.references: list[list[float]] = []  # game -> of each utterance
        self.episodes: list[Episode] = []  # of the last step

    def step(self, iteration: int, stop_point: StopPoint = never_stop) -> Metrics:
        """One iteration: at the beginning of an epoch a set of games; then learn from a part.

        Once games are there, it has no middle to be left in.
        """
        clock = Clock()
        config = self.config
        epoch, place = divmod(iteration, config.per_epoch)
        metrics = self._begin(epoch) if place == 0 else self._go_on(epoch)
        clock.lap("rollout_s")
        if config.collect_only:
            return metrics | clock.metrics()
        if place == 0:
            self._remember()
            clock.lap("annotate_s")
        rows = self._rows(place)
        metrics |= self._update(rows, place) if rows else {}
        metrics[self._named("examples")] = float(sum(row.source != INSTRUCTION for row in rows))
        clock.lap("update_s")
        for key, value in metrics.items():
            if not math.isfinite(value):
                raise TrainingDiverged(iteration, f"{key} is not finite", metrics)
        return metrics | clock.metrics()

    def _begin(self, epoch: int) -> Metrics:
        """Another set: its games, and the order in which they are learnt from."""
        stored = self.collect(epoch, False)
        self.games = [list(said) for said in stored.utterances]
        self.digest = digest_of(stored.utterances)
        self.order = torch.randperm(len(self.games), generator=self.streams.shuffle).tolist()
        self.episodes = list(stored.episodes)
        return dict(stored.metrics)

    def _go_on(self, epoch: int) -> Metrics:
        """The present set; after a restart it is read again."""
        if self.games is None:
            stored = self.collect(epoch, True)
            if digest_of(stored.utterances) != self.digest:
                raise ConfigError(
                    "the games that this run had begun to learn from are not what they were; put "
                    "them back, or start again in another directory"
                )
            self.games = [
                [replace(said, reference=known) for said, known in zip(own, kept, strict=True)]
                for own, kept in zip(stored.utterances, self.references, strict=True)
            ]
            self.episodes = list(stored.episodes)
        return {}

    def _remember(self) -> None:
        """What the policy says of every utterance now: it is the reference of this set.

        Adam starts anew, as for a stage of its own.
        """
        assert self.games is not None
        flat = [said for own in self.games for said in own]
        known = iter(self._logprobs(flat))
        self.references = [[next(known) for _ in own] for own in self.games]
        self.games = [
            [replace(said, reference=logp) for said, logp in zip(own, kept, strict=True)]
            for own, kept in zip(self.games, self.references, strict=True)
        ]
        self.voice.engine.reset_optimizer()
        self._check([said for own in self.games for said in own][:CHECKED])

    def _logprobs(self, utterances: Sequence[Utterance]) -> list[float]:
        """Log-probability of each, by `algorithm.log_probability`, under the policy as it is."""
        voice = self.voice

        def score(batch: Sequence[Utterance]) -> list[float]:
            ids, attended, mask = tensors_of(voice, batch)
            # not called as a module: at its end ZeRO-3 would take a training pass to be over
            logprobs, _ = voice.model.forward(ids, attended, mask)
            found: list[float]
            found = utterance_logprobs(logprobs, mask, self.config.log_probability).tolist()
            return found

        voice.model.eval()
        with voice.whole(), torch.no_grad():
            return distributed.map_rows(utterances, voice.hardware.rollout_batch_size, score)

    def _check(self, utterances: Sequence[Utterance]) -> None:
        """The ratio is 1 and the KL 0 before the first update on a set, as training passes see it.

        They hold by definition; if they do not, training and scoring disagree about some token.
        """
        if not utterances:
            return
        voice = self.voice
        voice.model.eval()
        with torch.no_grad():
            ids, attended, mask = tensors_of(voice, utterances)
            logprobs, _ = voice.engine(ids, attended, mask)
        own = utterance_logprobs(logprobs, mask, self.config.log_probability)
        known = torch.tensor([said.reference for said in utterances], device=own.device)
        off = ((own - known).exp() - 1).abs().max().item()
        tolerance = TOLERANCE[voice.team.config.precision]
        if not off < tolerance:
            raise FirstUpdateError(
                f"{voice.name}: before the first update on a set of games the policy ratio is off "
                f"1 by {off:.2g} (at most {tolerance}): training and scoring passes disagree"
            )

    def _rows(self, place: int) -> list[Utterance]:
        """What this iteration learns from: a part of the set's games, and instructions."""
        assert self.games is not None
        size = self.config.prompts_per_iteration
        chosen = self.order[place * size : (place + 1) * size]
        return [
            *(said for number in chosen for said in self.games[number]),
            *self.instructions(self.config.instructions.per_iteration),
        ]

    def _update(self, rows: Sequence[Utterance], place: int) -> Metrics:
        """Passes over one iteration's utterances; mean statistics of them all."""
        config, voice = self.config, self.voice
        before = weights(self.agents) if self.updates == 0 else None
        voice.start_update()
        sums: dict[str, float] = {}
        size, epochs = config.minibatch_size, config.epochs
        steps = epochs * math.ceil(len(rows) / size)
        chosen_rows = minibatches(len(rows), size, epochs, self.streams.shuffle)
        for number, chosen in enumerate(chosen_rows):
            progress = (place + (number + 0.5) / steps) / config.per_epoch
            share = share_of_peak(progress, config.schedule, config.warmup)
            voice.engine.set_learning_rate(config.learning_rate * share)
            step = self._minibatch([None if i is None else rows[i] for i in chosen])
            for key, value in step.items():
                sums[key] = sums.get(key, 0.0) + value
            if not all(map(math.isfinite, step.values())):
                break  # the same in every process: these are sums over all of them
        if before is not None:
            may_rest = sums["skipped_steps"] == steps
            check_first_update(voice, before, weights(self.agents), may_rest)
        self.updates += 1
        played, told = sums.pop("played"), sums.pop("told")
        over = {"nll_sft": told, **dict.fromkeys(("loss", "gradient_norm", "skipped_steps"), steps)}
        return {
            self._named(key): value / over.get(key, played)
            for key, value in sums.items()
            if over.get(key, played) > 0  # of what an iteration has none of, nothing is logged
        }

    def _minibatch(self, rows: Sequence[Utterance | None]) -> dict[str, float]:
        """One optimiser step; sums over its utterances."""
        config = self.config
        there = [row for row in rows if row is not None]
        played = sum(row.source != INSTRUCTION for row in there)
        told = len(there) - played

        def objective(
            part: Sequence[Utterance | None], logprobs: Tensor, values: Tensor, mask: Tensor
        ) -> tuple[Tensor, Mapping[str, Tensor]]:
            def column(of: Callable[[Utterance], float]) -> Tensor:
                numbers = [0.0 if row is None else of(row) for row in part]
                return torch.tensor(numbers, device=mask.device)

            said = column(lambda row: row.source != INSTRUCTION) > 0
            read = column(lambda row: row.source == INSTRUCTION) > 0
            own = utterance_logprobs(logprobs, mask, config.log_probability)
            # where there is none, its own probability stands for it: nothing overflows
            reference = torch.where(said, column(lambda row: row.reference), own.detach())
            found = self.loss(own, reference, column(lambda row: row.advantage))
            answer = -utterance_logprobs(logprobs, mask, "mean")
            weight = column(lambda row: row.weight)
            # divided by the whole minibatch's utterances of each kind, so that neither the size of
            # a microbatch nor the number of processes changes anything
            game = torch.where(said, weight * found.per_utterance, 0.0).sum() / max(1, played)
            instruction = torch.where(read, answer, 0.0).sum() / max(1, told)
            loss = game + config.instructions_coef * instruction
            numbers = {
                "loss": loss.detach(),
                "ratio": torch.where(said, found.ratio, 0.0).sum(),
                "kl": torch.where(said, found.kl, 0.0).sum(),
                "clipfrac": (said & found.clipped).float().sum(),
                "nll_game": torch.where(said, answer.detach(), 0.0).sum(),
                "nll_sft": torch.where(read, answer.detach(), 0.0).sum(),
            }
            return loss, numbers

        stepped = one_step(self.voice, rows, self.plan.microbatch, objective)
        return stepped.sums | {
            "played": float(played),
            "told": float(told),
            "gradient_norm": stepped.gradient_norm,
            "skipped_steps": float(stepped.skipped),
        }

    def _named(self, what: str) -> str:
        return f"offline/{what}/{self.voice.name}"

    def state_dict(self) -> dict[str, Any]:
        """All that an iteration changes except weights and optimiser, which the engine keeps."""
        return {
            "updates": self.updates,
            "digest": self.digest,
            "order": list(self.order),
            "references": [list(own) for own in self.references],
            "carried": {name: part.state_dict() for name, part in self.carried.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.updates = state["updates"]
        self.digest = state["digest"]
        self.order = list(state["order"])
        self.references = [list(own) for own in state["references"]]
        for name, part in self.carried.items():
            part.load_state_dict(state["carried"][name])


def digest_of(games: Sequence[Sequence[Utterance]]) -> str:
    """A name for what is learnt from a set of games, word for word."""
    rows = [[(said.context_ids, said.response_ids) for said in own] for own in games]
    return hashlib.sha256(repr(rows).encode()).hexdigest()
