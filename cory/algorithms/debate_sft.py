"""Imitation of the best debates of the untrained models (Park et al., 2025, section 4.7)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cory.algorithms.maporl import TrainedDebates
from cory.config import DebateSFTConfig
from cory.episode import Episode
from cory.evaluation.debates import roll_out_metrics
from cory.models.actor import Actor
from cory.models.generation import draw_limit
from cory.rewards import Reward
from cory.rollout.debate import Debate
from cory.rollout.scheduler import RollOut, limits_of
from cory.trainers.components import Components
from cory.trainers.supervised import CollectedExamples, Example, SupervisedTrainer


def build_debate_sft(config: DebateSFTConfig, components: Components) -> SupervisedTrainer:
    """Policies fine-tuned on the best debates between their frozen references."""
    debates = TrainedDebates(config, components)
    policies = components.new_policies(config.names())
    actors = debates.actors(policies)
    frozen = replace(debates.debate(config.agents, config.turns), speaker=debates.reference)
    collector = BestDebates(config, components, debates.reward, frozen, actors)
    return SupervisedTrainer(components, policies, collector, debates.evaluator(policies, actors))


@dataclass(frozen=True)
class BestDebates:
    """Collects examples from the debates of frozen models with the highest scores."""

    config: DebateSFTConfig
    components: Components
    reward: Reward
    debate: Debate
    actors: Mapping[str, Actor]

    def __call__(self, iteration: int) -> CollectedExamples:
        """The turns of the best debates, each for the policy that speaks in its place."""
        config, components = self.config, self.components
        sampling, streams = config.sampling, components.streams
        limit = draw_limit(sampling, streams.length)
        limits = limits_of(self.actors, sampling, streams.length)
        key = streams.key_of_roll_out()
        roll_out = RollOut(self.actors, limit, sampling, key, reward=self.reward, limits=limits)
        episodes = roll_out(self.debate.play, components.task.sample(config.prompts_per_iteration))
        self.reward.score(episodes)
        kept = best(episodes, config.keep_share)
        examples: dict[str, list[Example]] = {name: [] for name in config.policies()}
        for episode in kept:
            for place, turn in enumerate(episode.turns):
                number, agent = divmod(place, config.agents)
                if number + 1 in config.trained and not turn.absent:
                    example = Example(turn.context_ids, turn.response_ids, 1.0, turn.asked)
                    examples[config.policy(number, agent)].append(example)
        metrics = roll_out_metrics(episodes, config.agents) | {
            "supervised/score/team": sum(map(mean_score, episodes)) / len(episodes),
            "supervised/kept_score/team": sum(map(mean_score, kept)) / len(kept),
        }
        return CollectedExamples(examples, episodes, metrics)


def best(episodes: Sequence[Episode], share: float) -> list[Episode]:
    """The share of the debates with the highest mean scores, at least one; of equals, the first."""
    # less 1e-9, lest 55.00000001 of a rounded product become 56
    count = max(1, math.ceil(share * len(episodes) - 1e-9))
    return sorted(episodes, key=mean_score, reverse=True)[:count]


def mean_score(episode: Episode) -> float:
    """The mean score of a debate's answers."""
    scores = [turn.score for turn in episode.turns if turn.score is not None]
    return sum(scores) / len(scores)
