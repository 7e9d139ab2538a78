"""Multi-agent post-co-training with reinforcement learning (Park et al., 2025)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from cory.config import DebateSFTConfig, MaporlConfig, require
from cory.episode import Episode, score_of
from cory.evaluation.debates import debate_metrics, roll_out_metrics
from cory.evaluation.evaluate import TeamEvaluator
from cory.functional.credit import DebateCredit, repeats
from cory.functional.votes import VoteRule
from cory.models.bundle import ModelBundle
from cory.models.policy import Actor, Policy, PPOPolicy
from cory.rewards import Reward, ScoredOnce
from cory.rollout.debate import Debate
from cory.rollout.debate_prompts import Chat, Graded, Plain
from cory.tasks.answers import judge_rest
from cory.trainers.components import Components
from cory.trainers.ppo import PPOTrainer


def build_maporl(config: MaporlConfig, components: Components) -> PPOTrainer:
    """Debaters rewarded for their own answers and for the others' later ones."""
    debates = TrainedDebates(config, components)
    agents: dict[str, PPOPolicy] = {}
    for bundle, names in debates.names_by_bundle():
        agents |= components.new_ppo_policies(names, bundle)
    actors = debates.actors(agents)
    credit = DebateCredit(
        agents=config.agents,
        horizon=config.horizon,
        share=config.share,
        discount=config.turn_discount,
        alpha=(config.alpha[0], config.alpha[1]),
        beta=(config.beta[0], config.beta[1]),
        official=config.official_shaping,
        bonus_from=config.bonus_from,
        penalty=config.guards.penalty,
        scope=config.guards.scope,
    )
    by_score = config.shapes and config.bonus_from == "verifier"

    def assign_credit(episodes: list[Episode]) -> None:
        judge_rest(components.task, episodes)
        for turn in (turn for episode in episodes for turn in episode.turns):
            turn.flawed = not turn.absent and breaks_guard(config, turn.response, turn.response_ids)
            # of a reward that is code of the user's, settings do not say what its scores are
            require(
                not by_score or turn.absent or 0 <= score_of(turn) <= 1,
                f"algorithm.bonus_from=verifier needs scores from 0 to 1; "
                f"reward={components.config.reward.name} gave {turn.score}",
            )
        credit(episodes)

    return PPOTrainer(
        components,
        agents,
        debates.debate(config.agents, config.turns).play,
        assign_credit,
        actors=actors,
        reward=debates.reward,
        evaluator=debates.evaluator(agents, actors),
        learners=lambda iteration: learners(config, iteration),
        describe=lambda episodes, metrics: roll_out_metrics(episodes, config.agents),
    )


@dataclass(frozen=True)
class TrainedDebates:
    """Debates between policies in training: which one speaks where, seeing what.

    Agents and rounds are numbered from 0.
    """

    config: MaporlConfig | DebateSFTConfig
    components: Components

    @cached_property
    def reward(self) -> Reward:
        """The run's; where debaters have seen scores, it keeps them."""
        reward = self.components.reward
        return ScoredOnce(reward) if self.config.verifier_feedback else reward

    def bundle_of(self, agent: int) -> ModelBundle:
        """The bundle of an agent's model: with a partner, every second agent's is the partner."""
        bundle, partner = self.components.bundle, self.components.partner
        return bundle if partner is None or agent % self.config.agents % 2 == 0 else partner

    def names_by_bundle(self) -> list[tuple[ModelBundle, list[str]]]:
        """The names of the trained policies, by their bundle."""
        named = self.config.policies().items()
        return [
            (bundle, [name for name, agent in named if self.bundle_of(agent) is bundle])
            for bundle in (self.components.bundle, self.components.partner)
            if bundle is not None
        ]

    def actor(self, number: int, agent: int) -> str:
        """The actor of round `number`: a trained policy, or the reference of the agent's model."""
        config = self.config
        name = config.policy(number, agent)
        trained = min(number, config.turns - 1) + 1 in config.trained
        return name if trained and name in config.policies() else self.reference(agent)

    def reference(self, agent: int) -> str:
        """The name of the frozen reference of an agent's model."""
        return (
            "reference" if self.bundle_of(agent) is self.components.bundle else "partner_reference"
        )

    def actors(self, policies: Mapping[str, Policy]) -> dict[str, Actor]:
        """Every actor that `actor` may name."""
        actors: dict[str, Actor] = dict(policies)
        for policy in policies.values():
            name = "reference" if policy.bundle is self.components.bundle else "partner_reference"
            actors.setdefault(name, policy.reference(name))
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
            wording=lambda agent: chat if self.bundle_of(agent).texts.chat else plain,
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
            self.reward,
            config.sampling,
            self.debate(agents, rounds).play,
            actors,
            team_metrics=partial(debate_metrics, agents, vote),
        )


def learners(config: MaporlConfig, iteration: int) -> Collection[str]:
    """The policies that learn in an iteration: all, or by turns those of one round."""
    if config.alternation is None:
        return config.policies()
    later = max(iteration - config.alternation.first, 0) // config.alternation.every
    # the first period is the last round's, and so is the first `every` after it
    trained = config.trained[-1 - later % len(config.trained)]
    return {config.policy(trained - 1, agent) for agent in range(config.agents)}


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
