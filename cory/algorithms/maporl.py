"""Multi-agent post-co-training with reinforcement learning (Park et al., 2025)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cory.algorithms.parts import Parts
from cory.config import MaporlConfig, SFTConfig
from cory.episode import Context, Episode
from cory.evaluation.debates import DebateMeasure, roll_out_metrics
from cory.evaluation.evaluate import TeamEvaluator
from cory.functional.credit import DebateCredit
from cory.models.policy import Actor, Policy, Reference
from cory.models.ppo_policy import PPOPolicy
from cory.models.team import Team
from cory.rewards.guards import boxed, repeats
from cory.rollout.debate import Debate
from cory.rollout.debate_prompts import Chat, Graded, Plain, Wording
from cory.trainers.ppo import PPOTrainer


def build_maporl(config: MaporlConfig, parts: Parts) -> PPOTrainer:
    """Debaters that are paid for their own answers and for what becomes of the others'."""
    seats = Seats(config, parts)
    agents: dict[str, PPOPolicy] = {}
    for team, names in seats.names_by_team():
        agents |= parts.new_ppo_policies(names, team)
    speakers = seats.speakers(agents)
    debate = seats.debate(config.agents, config.turns)
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

    def assign_credit(episodes: list[Episode]) -> None:
        for turn in (turn for episode in episodes for turn in episode.turns):
            turn.flawed = not turn.absent and flawed(config, turn.response, turn.response_ids)
        credit(episodes)

    return PPOTrainer(
        config,
        parts.plan,
        agents,
        parts.task,
        parts.reward,
        parts.streams,
        interact=debate,
        speakers=speakers,
        assign_credit=assign_credit,
        learners=lambda iteration: learners(config, iteration),
        describe=lambda episodes, metrics: roll_out_metrics(episodes, config.agents),
        after_step=lambda iteration: None,
        exam=seats.exam(speakers),
        carried={},
    )


@dataclass(frozen=True)
class Seats:
    """Which model sits where in a debate: agents from 0, turns from 0."""

    config: MaporlConfig | SFTConfig
    parts: Parts

    def team_of(self, agent: int) -> Team:
        """The team whose model plays an agent: with a partner, every second one is its."""
        partner = self.parts.partner
        return (
            self.parts.team if partner is None or agent % self.config.agents % 2 == 0 else partner
        )

    def names_by_team(self) -> list[tuple[Team, list[str]]]:
        """The policies that learn, by the team that they belong to."""
        teams = [team for team in (self.parts.team, self.parts.partner) if team is not None]
        return [
            (
                team,
                [n for n, agent in self.config.policies().items() if self.team_of(agent) is team],
            )
            for team in teams
        ]

    def speaker(self, turn: int, agent: int) -> str:
        """Who speaks: a policy that learns, or the frozen start of that agent's model."""
        name = self.config.policy(turn, agent)
        if name in self.config.policies() and min(turn, self.config.turns - 1) + 1 in (
            self.config.trained
        ):
            return name
        return self.frozen(agent)

    def frozen(self, agent: int) -> str:
        """The frozen start of an agent's model."""
        return "reference" if self.team_of(agent) is self.parts.team else "partner_reference"

    def speakers(self, voices: Mapping[str, Policy]) -> dict[str, Actor]:
        """Everybody whom `speaker` may name."""
        found: dict[str, Actor] = dict(voices)
        for name, team in (
            ("reference", self.parts.team),
            ("partner_reference", self.parts.partner),
        ):
            own = [voice for voice in voices.values() if voice.team is team]
            if own:
                found[name] = Reference(name, own[0])
        return found

    def debate(self, agents: int, turns: int) -> Debate:
        """A debate of so many agents and turns."""
        parts, config = self.parts, self.config
        limit = config.sampling.max_response_tokens

        def fits(agent: int, context: Context) -> bool:
            team = self.team_of(agent)
            return team.tokens(context) + limit <= team.context_length

        chat = Chat(Graded(config.prompts, config.verifier_feedback))
        plain = Plain(parts.task)

        def wording(agent: int) -> Wording:
            return chat if self.team_of(agent).config.chat else plain

        return Debate(
            agents=agents,
            turns=turns,
            speaker=self.speaker,
            wording=wording,
            fits=fits,
            read=parts.task.read,
            consensus=config.consensus,
            judge=parts.reward.score if config.verifier_feedback else None,
        )

    def exam(self, speakers: Mapping[str, Actor]) -> TeamEvaluator:
        """Debates of as many agents and turns as are evaluated."""
        agents, turns = self.config.evaluation_agents, self.config.evaluation_turns
        return TeamEvaluator(
            self.debate(agents, turns),
            speakers,
            agents * turns,
            DebateMeasure(agents, self.config.vote_ties),
        )


def learners(config: MaporlConfig, iteration: int) -> Collection[str]:
    """The policies that learn in an iteration: all, or those of one turn, from the last on."""
    turn = turn_of(config, iteration)
    if turn is None:
        return config.policies()
    return {config.policy(turn - 1, agent) for agent in range(config.agents)}


def turn_of(config: MaporlConfig, iteration: int) -> int | None:
    """The only turn that learns, from 1; None where all do."""
    if config.alternation is None:
        return None
    later = max(iteration - config.alternation.first, 0) // config.alternation.every
    # the first period is the last turn's, and so is the first `every` after it
    return config.trained[-1 - later % len(config.trained)]


def flawed(config: MaporlConfig, response: str, ids: list[int]) -> bool:
    """Whether an answer breaks a guard."""
    guards = config.guards
    return (
        (guards.min_tokens is not None and len(ids) < guards.min_tokens)
        or (guards.boxed and not boxed(response))
        or (
            guards.max_repeats is not None
            and repeats(ids, guards.repeat_length, guards.max_repeats)
        )
    )
