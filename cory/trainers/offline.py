"""Offline updates on sets of games; the reference is the policy as it was before each set."""

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from cory.config import ConfigError, OfflineConfig
from cory.episode import Context, Episode, Metrics, TokenRow
from cory.evaluation.evaluate import Evaluator, response_logprobs
from cory.functional.losses import OfflineLoss, utterance_logprobs
from cory.models.agreement import tolerance_of, typical_worst
from cory.models.policy import Policy
from cory.trainers.components import Components
from cory.trainers.sanity_checks import FirstUpdateError, checked_update
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

INSTRUCTION = "instruction"  # the source of an example that is not from a game
CHECKED = 16  # examples on which training and reference passes are compared


@dataclass
class OfflineExample(TokenRow):
    """An utterance of a game, or an answer to an instruction, to learn.

    A set has many tokens: as arrays of 32 bits they take a ninth of what lists take.
    """

    context_ids: "array[int]"  # not empty
    response_ids: "array[int]"  # not empty
    source: str  # the role that said it in a game, or INSTRUCTION
    weight: float  # in the mean over a minibatch's examples
    advantage: float
    kl_share: float = 1.0  # of the KL to the reference, beside the weight
    asked: Context = ""  # the context before it was rendered, where examples are exported
    reference: float = math.nan  # log-probability under the reference, once it is known


@dataclass(frozen=True)
class StoredGames:
    """A set of games, as the examples to learn from each."""

    examples: list[list[OfflineExample]]  # game -> its winners' utterances
    episodes: list[Episode]  # some of the games, for samples.jsonl
    metrics: Metrics = field(default_factory=dict)


# (logprobs with gradient, reference, advantages, kl_shares=...), all (B,) -> the loss per example
ExampleLoss = Callable[..., OfflineLoss]


@dataclass
class OfflineTrainer(Resumable):
    """One epoch over a set of games, in parts; then perhaps another set, by the updated policy.

    The reference of a set is the policy as it is before the first update on it. Its
    log-probability of every example is computed once and kept, so that no second model is held.

    Algorithms differ in the functions they pass, not by inheritance.
    """

    kept = ("updates", "order", "references")

    components: Components
    policy: Policy
    # epoch, whether it was collected before a restart -> its set of games
    collect: Callable[[int, bool], StoredGames]
    # so many, to imitate beside the games; None: there are none
    instructions: Callable[[int], Sequence[OfflineExample]] | None
    loss: ExampleLoss
    evaluate: Evaluator
    # further components whose state a checkpoint keeps
    carried: Mapping[str, Stateful] = field(default_factory=dict)
    episodes: list[Episode] = field(init=False, default_factory=list)  # of the last step

    def __post_init__(self) -> None:
        self.config: OfflineConfig = self.components.config.algorithm
        self.agents = {self.policy.name: self.policy}
        self.updates = 0  # iterations with an update
        self.games: list[list[OfflineExample]] | None = None  # of the present set; None: not read
        self.order: list[int] = []  # in which its games are learnt from
        self.references: list[list[float]] = []  # game -> reference of each example

    def step(self, iteration: int) -> Metrics:
        """One iteration: at the beginning of an epoch collect games; learn from a part of them.

        Once the games are collected, it cannot be interrupted.
        """
        clock = Clock()
        config = self.config
        epoch, place = divmod(iteration, config.per_epoch)
        metrics = self._take_set(epoch, again=False) if place == 0 else {}
        if self.games is None:
            self._take_set(epoch, again=True)
        clock.lap("rollout_s")
        if place == 0:  # the reference of every example is the policy as it is now
            examples = [example for own in self.games or () for example in own]
            known = response_logprobs(self.policy, examples)
            for example, reference in zip(examples, known, strict=True):
                example.reference = reference
            self.references = [[one.reference for one in own] for own in self.games or ()]
            self.policy.engine.reset_optimizer()  # as for a stage of its own
            self._check(examples[:CHECKED])
            clock.lap("annotate_s")
        rows = self._rows(place)
        metrics |= self._update(rows, place) if rows else {}
        metrics[self._named("examples")] = float(sum(row.source != INSTRUCTION for row in rows))
        clock.lap("update_s")
        require_finite(iteration, metrics)
        return metrics | clock.metrics()

    def _take_set(self, epoch: int, again: bool) -> Metrics:
        """Collect another set of games, and draw the order in which they are learnt from.

        again: read the present set once more after a restart
        """
        stored = self.collect(epoch, again)
        self.games, self.episodes = stored.examples, stored.episodes
        config, texts = self.components.config, self.policy.texts
        if config.export_examples:
            rows = (
                texts.pair(e.asked, e.context_ids, e.response_ids)
                | {"role": e.source, "weight": e.weight, "advantage": e.advantage}
                for own in self.games
                for e in own
            )
            first = epoch * self.config.per_epoch
            export_examples(Path(config.run_dir), first, self.policy.name, rows)
        if not again:
            stream = self.components.streams.shuffle
            self.order = torch.randperm(len(self.games), generator=stream).tolist()
            return stored.metrics
        if [*map(len, stored.examples)] != [*map(len, self.references)]:
            raise ConfigError(
                "the games that this run had begun to learn from are not what they were; put "
                "them back, or start again in another directory"
            )
        for own, references in zip(self.games, self.references, strict=True):
            for example, reference in zip(own, references, strict=True):
                example.reference = reference
        return {}

    def _check(self, examples: Sequence[OfflineExample]) -> None:
        """FirstUpdateError unless the ratio is 1 before the first update on a set.

        It is by definition; if not, training and scoring passes disagree about some token.
        """
        if not examples:
            return
        policy = self.policy
        policy.model.eval()
        with torch.no_grad():
            ids, attention_mask, mask = policy.tensors(examples)
            logprobs = policy.engine(ids, attention_mask, mask).logprobs
        own = utterance_logprobs(logprobs, mask)
        known = torch.tensor([example.reference for example in examples], device=own.device)
        ratios = (own - known).exp()
        off = typical_worst(ratios - 1, torch.ones_like(ratios, dtype=torch.bool), policy)
        tolerance = tolerance_of(policy.bundle.config)
        if not off < tolerance:
            raise FirstUpdateError(
                f"{policy.name}: before the first update on a set of games the policy ratio is off "
                f"1 by {off:.2g} (at most {tolerance}): training and scoring passes disagree"
            )

    def _rows(self, place: int) -> list[OfflineExample]:
        """The examples of this iteration: a part of the set's games, and instructions."""
        assert self.games is not None
        size = self.config.prompts_per_iteration
        chosen = self.order[place * size : (place + 1) * size]
        rows = [example for number in chosen for example in self.games[number]]
        if self.instructions is not None:
            rows += self.instructions(self.config.instructions.per_iteration)
        return rows

    def _update(self, rows: Sequence[OfflineExample], place: int) -> Metrics:
        """Epochs over one iteration's examples; mean statistics of all steps."""
        config, policy = self.config, self.policy
        policy.start_update()
        stage = Stage(place, config.per_epoch, config.learning_rate)
        steps = config.epochs * math.ceil(len(rows) / config.minibatch_size)
        stream = self.components.streams.shuffle
        sums: dict[str, float] = {}
        with nullcontext() if self.updates else checked_update(policy, self.agents):
            for batch in paced(policy, rows, config.epochs, stage, config, stream):
                if not add_step(sums, self._minibatch(batch)):
                    break
        self.updates += 1
        games, instructions = sums.pop("games"), sums.pop("instructions")
        divisors = dict.fromkeys(("loss", "gradient_norm"), float(steps))
        divisors["nll_sft"] = instructions
        means = {
            self._named(key): value / divisors.get(key, games)
            for key, value in sums.items()
            if divisors.get(key, games) > 0  # without examples of a kind its metrics are left out
        }
        return means | {self._named("learning_rate"): policy.engine.learning_rate}

    def _minibatch(self, rows: list[OfflineExample | None]) -> dict[str, float]:
        """One optimiser step; sums over its examples."""
        config, policy = self.config, self.policy
        present = [row for row in rows if row is not None]
        games = sum(row.source != INSTRUCTION for row in present)
        instructions = len(present) - games

        def objective(part: list[OfflineExample | None]) -> tuple[Tensor, Mapping[str, Tensor]]:
            ids, attention_mask, mask = policy.tensors(part)
            logprobs = policy.engine(ids, attention_mask, mask).logprobs

            def column(of: Callable[[OfflineExample], float]) -> Tensor:
                numbers = [0.0 if row is None else of(row) for row in part]
                return torch.tensor(numbers, device=mask.device)

            in_game = column(lambda row: row.source != INSTRUCTION) > 0
            instructed = column(lambda row: row.source == INSTRUCTION) > 0
            own = utterance_logprobs(logprobs, mask)
            # where there is no reference, its own probability stands for it: nothing overflows
            reference = torch.where(in_game, column(lambda row: row.reference), own.detach())
            advantages = column(lambda row: row.advantage)
            kl_shares = column(lambda row: row.kl_share)
            terms = self.loss(own, reference, advantages, kl_shares=kl_shares)
            (slope,) = torch.autograd.grad(terms.per_utterance.sum(), own, retain_graph=True)
            nll = -utterance_logprobs(logprobs, mask)
            weight = column(lambda row: row.weight)
            # divided by the whole minibatch's examples of each kind, so that neither the size of
            # a microbatch nor the number of processes changes anything
            game = torch.where(in_game, weight * terms.per_utterance, 0.0).sum() / max(1, games)
            instruction = torch.where(instructed, nll, 0.0).sum() / max(1, instructions)
            loss = game + config.instructions_coef * instruction
            return loss, {
                "loss": loss.detach(),
                "ratio": torch.where(in_game, terms.ratio, 0.0).sum(),
                "kl": torch.where(in_game, terms.kl, 0.0).sum(),
                "push": torch.where(in_game, -weight * slope, 0.0).sum(),
                "clipfrac": (in_game & terms.clipped).float().sum(),
                "nll_game": torch.where(in_game, nll.detach(), 0.0).sum(),
                "nll_sft": torch.where(instructed, nll.detach(), 0.0).sum(),
            }

        each = [0 if row is None else row.tokens for row in rows]
        step = optimiser_step(policy, rows, self.components.plan.microbatch, objective, each)
        return step | {"games": float(games), "instructions": float(instructions)}

    def _named(self, what: str) -> str:
        return f"offline/{what}/{self.policy.name}"

    def parts(self) -> Mapping[str, Stateful]:
        return {**self.components.carried, **self.carried}
