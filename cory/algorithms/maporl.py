"""Multi-agent post-co-training with reinforcement learning (Park et al., 2025).

And, as `debate_sft`, imitation of the best debates of the untrained models (their section 4.7).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from cory.config import DebateSFTConfig, MaporlConfig
from cory.config.debate import OF_REFERENCE
from cory.episode import Episode, score_of
from cory.evaluation.debates import debate_metrics, roll_out_metrics
from cory.evaluation.evaluate import TeamEvaluator, probes_of
from cory.functional.credit import incentives, influence_aware, repeats, rounds_of
from cory.functional.votes import VoteRule
from cory.models.actor import Actor
from cory.models.policy import Policy
from cory.rollout.debate import Debate
from cory.rollout.debate_prompts import Chat, Graded, Plain
from cory.rollout.scheduler import RollOut
from cory.tasks.answers import judge_rest
from cory.trainers.components import Components
from cory.trainers.ppo import PPOTrainer
from cory.trainers.supervised import CollectedExamples, Example, SupervisedTrainer

REFERENCE = "reference"  # the model of the run as it came


def build_maporl(config: MaporlConfig, components: Components) -> PPOTrainer:
    """Debaters rewarded for their own answers and for the others' later ones."""
    debates = TrainedDebates(config, components)
    agents = components.new_policies(config.names())
    actors = debates.actors(agents)

    def assign_credit(episodes: list[Episode]) -> None:
        judge_rest(components.task, episodes)
        for turn in (turn for episode in episodes for turn in episode.turns):
            turn.flawed = not turn.absent and breaks_guard(config, turn.response, turn.response_ids)
        debate_credit(config, episodes)

    return PPOTrainer(
        components,
        agents,
        debates.debate(config.agents, config.turns).play,
        assign_credit,
        actors=actors,
        evaluator=debates.evaluator(agents, actors),
        describe=lambda episodes, metrics: roll_out_metrics(episodes, config.agents),
    )


@dataclass(frozen=True)
class TrainedDebates:
    """Debates between policies in training: which one speaks where, seeing what.

    Agents and rounds are numbered from 0.
    """

    config: MaporlConfig | DebateSFTConfig
    components: Components

    def actor(self, number: int, agent: int) -> str:
        """The actor of round `number`: a trained policy, or the reference of its agent."""
        config = self.config
        name = config.policy(number, agent)
        trained = min(number, config.turns - 1) + 1 in config.trained
        return name if trained and name in config.policies() else self.reference(number, agent)

    def reference(self, number: int, agent: int) -> str:
        """The frozen reference in the place of a policy: of all without a block one."""
        block = self.config.member_of(self.config.policy(number, agent))
        return f"{block}{OF_REFERENCE}" if block in self.components.config.members else REFERENCE

    def actors(self, policies: Mapping[str, Policy]) -> dict[str, Actor]:
        """Every actor that `actor` and `reference` may name."""
        actors: dict[str, Actor] = dict(policies)
        run, members = self.components.config, self.components.config.members
        for policy in policies.values():
            block = self.config.member_of(policy.name)
            name = f"{block}{OF_REFERENCE}" if block in members else REFERENCE
            actors.setdefault(name, policy.reference(name).as_member(run))
            if policy.bundle is self.components.bundle:  # for turns that nobody learns
                actors.setdefault(REFERENCE, policy.reference(REFERENCE))
        return actors

    def debate(self, agents: int, rounds: int) -> Debate:
        """A debate of so many agents and rounds."""
        components, config = self.components, self.config
        chat = Chat(Graded(config.prompts, config.verifier_feedback))
        plain = Plain(components.task)
        return Debate(
            agents=agents,
            rounds=rounds,
            speaker=self.actor,
            wording=lambda name, agent: chat if components.bundle_of(name).texts.chat else plain,
            limit=config.sampling.max_response_tokens,
            read=components.task.read,
            consensus=config.consensus,
            scored=config.verifier_feedback,
        )

    def evaluator(
        self, policies: Mapping[str, Policy], actors: Mapping[str, Actor]
    ) -> TeamEvaluator:
        """Debates of as many agents and rounds as the settings evaluate."""
        config, components = self.config, self.components
        agents, rounds = config.evaluation_agents, config.evaluation_turns
        vote = VoteRule(config.vote_ties, config.unreadable_votes)
        return TeamEvaluator(
            policies,
            components.task,
            components.reward,
            config.sampling,
            self.debate(agents, rounds).play,
            actors,
            team_metrics=partial(debate_metrics, agents, vote),
            probes=probes_of(components.config, policies),
        )


def breaks_guard(config: MaporlConfig, response: str, ids: list[int]) -> bool:
    """Whether a response breaks a guard against reward hacking."""
    guards = config.guards
    return (
        (guards.min_tokens is not None and len(ids) < guards.min_tokens)
        or (guards.boxed and "\\boxed{" not in response)
        or (
            guards.max_repeats is not None
            and repeats(ids, guards.repeat_length, guards.max_repeats)
        )
    )


def debate_credit(config: MaporlConfig, episodes: Sequence[Episode]) -> None:
    """Influence-aware scores plus incentives: fills `turn.credit` and `turn.bonus`.

    It reads `turn.score`, `turn.right` and `turn.flawed`. The penalty of a flawed turn takes the
    place of its score in its own credit; with horizon=last, of its agent's score in the last round.
    """
    guards = config.guards
    for episode in episodes:
        rounds = rounds_of(episode, config.agents)
        pays = any((*config.alpha, *config.beta))
        if pays and any(turn.right is None for turns in rounds for turn in turns):
            raise ValueError(f"nobody said whether answers to {episode.prompt.id} are right")
        right = [[bool(turn.right) for turn in turns] for turns in rounds]
        bonuses = incentives(right, config.alpha, config.beta, config.official_shaping)
        scores = [[score_of(turn) for turn in turns] for turns in rounds]
        penalised = [
            [guards.penalty if turn.flawed else score_of(turn) for turn in turns]
            for turns in rounds
        ]
        for t, turns in enumerate(rounds):
            paid = len(rounds) - 1 if config.horizon == "last" else t
            for a, turn in enumerate(turns):
                # with propagate, earlier turns see the penalty, too
                known = penalised if guards.scope == "propagate" else [[*row] for row in scores]
                if turn.flawed and guards.scope == "own":
                    known[paid][a] = guards.penalty
                turn.bonus = bonuses[t][a]
                turn.credit = turn.bonus + influence_aware(
                    known, t, a, config.turn_discount, config.horizon, config.share
                )


def build_debate_sft(config: DebateSFTConfig, components: Components) -> SupervisedTrainer:
    """Policies fine-tuned on the best debates between their frozen references."""
    debates = TrainedDebates(config, components)
    policies = components.new_policies(config.names())
    actors = debates.actors(policies)
    frozen = replace(debates.debate(config.agents, config.turns), speaker=debates.reference)
    collector = BestDebates(config, components, frozen, actors)
    return SupervisedTrainer(components, policies, collector, debates.evaluator(policies, actors))


@dataclass(frozen=True)
class BestDebates:
    """Collects examples from the debates of frozen models with the highest scores."""

    config: DebateSFTConfig
    components: Components
    debate: Debate
    actors: Mapping[str, Actor]

    def __call__(self, iteration: int) -> CollectedExamples:
        """The turns of the best debates, each for the policy that speaks in its place."""
        config, components = self.config, self.components
        sampling, streams, reward = config.sampling, components.streams, components.reward
        key = streams.key_of_roll_out()
        roll_out = RollOut.of(self.actors, sampling, key, streams.length, reward=reward)
        episodes = roll_out(self.debate.play, components.task.sample(config.prompts_per_iteration))
        reward.score(episodes)
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
    scores = [turn.score for turn in episode.turns if turn.score is not None]
    return sum(scores) / len(scores)
