"""Imitation of the best debates of models as they come (Park et al., 2025, section 4.7)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from cory.algorithms.maporl import Seats
from cory.algorithms.parts import Parts
from cory.config import SFTConfig
from cory.episode import Context, Episode, Turn
from cory.evaluation.debates import roll_out_metrics
from cory.evaluation.evaluate import EvalContext, evaluate
from cory.functional.losses import weighted_nll
from cory.models.policy import Actor, Policy
from cory.rollout.debate import Debate
from cory.trainers.supervised import Collected, Example, FinetunePlan, SupervisedTrainer


def build_sft(config: SFTConfig, parts: Parts) -> SupervisedTrainer:
    """Policies that learn to say what the frozen start said in its best debates."""
    seats = Seats(config, parts)
    voices: dict[str, Policy] = {}
    for team, names in seats.names_by_team():
        voices |= parts.new_policies(names, team)
    speakers = seats.speakers(voices)
    # while collecting, nobody speaks who learns
    debate = replace(
        seats.debate(config.agents, config.turns), speaker=lambda turn, agent: seats.frozen(agent)
    )
    bench = EvalContext(voices, parts.task, parts.reward, seats.exam(speakers), config.sampling)
    return SupervisedTrainer(
        config,
        parts.plan,
        voices,
        parts.task,
        parts.streams,
        collect=DebateCollector(config, parts, debate, speakers),
        course=lambda policy, iteration: FinetunePlan(config.epochs, config.learning_rate),
        loss=imitation_loss,
        statistics=no_statistics,
        named=lambda what, policy: f"supervised/{what}/{policy}",
        measure=partial(evaluate, bench),
    )


def imitation_loss(logprobs: Tensor, values: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """Negative log-likelihood of every token; values play no part."""
    return weighted_nll(logprobs, labels, mask)


def no_statistics(
    logprobs: Tensor, values: Tensor, labels: Tensor, mask: Tensor
) -> Mapping[str, Tensor]:
    """Nothing beside the loss."""
    return {}


class DebateCollector:
    """Lets the frozen models debate, and keeps the debates with the highest scores."""

    def __init__(
        self, config: SFTConfig, parts: Parts, debate: Debate, speakers: Mapping[str, Actor]
    ) -> None:
        self.config = config
        self.parts = parts
        self.debate = debate
        self.speakers = speakers

    def __call__(self, iteration: int) -> Collected:
        """The turns of the best debates, each for the policy that is to speak in its place."""
        config, parts = self.config, self.parts
        sampling, streams = config.sampling, parts.streams
        limit = int(
            streams.length.integers(sampling.min_response_tokens, sampling.max_response_tokens + 1)
        )

        def speak(
            speaker: str, role: str, round: int, contexts: Sequence[Context | None]
        ) -> list[Turn]:
            spoken = self.speakers[speaker].turns(
                role, round, contexts, limit, sampling, streams.sampling
            )
            return [turn for turn, _ in spoken]

        episodes = self.debate(parts.task.sample(config.prompts_per_iteration), speak)
        parts.reward.score(episodes)
        kept = best(episodes, config.keep_share)
        examples: dict[str, list[Example]] = {name: [] for name in config.policies()}
        for episode in kept:
            for place, turn in enumerate(episode.turns):
                number, agent = divmod(place, config.agents)
                if number + 1 in config.trained and not turn.absent:
                    example = Example(turn.context_ids, turn.response_ids, 1.0)
                    examples[config.policy(number, agent)].append(example)
        metrics = roll_out_metrics(episodes, config.agents) | {
            "supervised/score/team": sum(map(mean_score, episodes)) / len(episodes),
            "supervised/kept_score/team": sum(map(mean_score, kept)) / len(kept),
        }
        return Collected(examples, episodes, metrics)


def best(episodes: Sequence[Episode], share: float) -> list[Episode]:
    """The share of the debates with the highest mean scores, at least one; of equals, the first."""
    count = math.ceil(share * len(episodes))
    return sorted(episodes, key=mean_score, reverse=True)[:count]


def mean_score(episode: Episode) -> float:
    """Of all answers of a debate."""
    scores = [turn.score for turn in episode.turns if turn.score is not None]
    return sum(scores) / len(scores)
