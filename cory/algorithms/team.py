"""A team of the user's own: who speaks when, seeing what, is the function `algorithm.play`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cory import distributed
from cory.algorithms.cory import SHARED, shared_sum
from cory.config import Config, SamplingConfig, TeamConfig, require
from cory.endpoint import REPLIES, Endpoint, EndpointActor
from cory.episode import Asked, Context, Episode, Metrics, Turn
from cory.evaluation.evaluate import TeamEvaluator, probes_of, return_metrics, returns_of
from cory.functional.credit import own_return
from cory.functional.statistics import mean
from cory.models.actor import Actor
from cory.models.actor_critic import ActorCriticModel, store_as_products
from cory.models.bundle import ModelBundle
from cory.models.policy import Policy
from cory.rewards import Reward, Row
from cory.rollout.team import CreditRule, credit_rule, team_play
from cory.runs.export import export_agents
from cory.runs.run_dir import AGENTS
from cory.seeding import uniforms
from cory.tasks import Task
from cory.trainers.components import Components
from cory.trainers.ppo import PPOTrainer

POOL = "pool"  # folder of the run directory: a folder per version, each like a run's own


def build_team(config: TeamConfig, components: Components) -> PPOTrainer:
    """PPO for the agents that learn, each on what it has said."""
    play = team_play(config)
    # those with a model of their own, by the folder of their run; None: of a pool
    others: dict[str, Path | None] = {name: Path(run) for name, run in config.runs.items()}
    others |= {name: None for name, kind in config.fixed_agents.items() if kind == "pool"}
    agents, loaders = components.new_team(config.names(), others, "algorithm.fixed")
    frozen = {name: load() for name, load in loaders.items()}
    run_dir = Path(components.config.run_dir)
    actors = team_actors(components.config, agents, frozen, components.bundle_of, run_dir)
    first = next(iter(agents.values()))
    pools = {
        name: OpponentPool(name, first, frozen[name], components.config)
        for name, kind in config.fixed_agents.items()
        if kind == "pool"
    }
    actors |= pools
    # evaluations are against a pool's first version: the others would come and go between them
    first_ones = {name: first.reference(name).as_member(components.config) for name in pools}

    def after_step(iteration: int) -> None:
        for pool in pools.values():
            pool.after_step(iteration)

    learners = {n: agents[p] for n in config.agents if (p := config.policy_of(n)) in agents}
    probes = probes_of(components.config, learners, [*config.fixed_agents])
    rules: dict[str, CreditRule] = {
        "own": own_return,
        "discounted": partial(own_return, discount=config.turn_discount),
        "sum": shared_sum,
        **SHARED,
    }
    task, reward = components.task, components.reward
    asked = {**actors, **first_ones}
    evaluator = team_evaluator(components.config, task, reward, asked, probes=probes)
    return PPOTrainer(
        components,
        agents,
        play,
        credit_rule(config.credit, rules),
        actors=actors,
        reward=evaluator.reward,
        evaluator=evaluator,
        describe=lambda episodes, metrics: team_metrics(config.agents, episodes),
        after_step=after_step,
        carried=pools,
    )


def team_evaluator(
    run: Config, task: Task, reward: Reward, actors: Mapping[str, Actor], **how: Any
) -> TeamEvaluator:
    """Asks the whole team; actors: by the names of `policy_of`; how: as of `TeamEvaluator`."""
    config: TeamConfig = run.algorithm
    return TeamEvaluator(
        {},
        task,
        ReturnedOrScored(reward, f"reward={run.reward.name}"),
        config.sampling,
        # agents by their own names: one is changed without those that share its policy
        team_play(config.replace(policies="separate")),
        {name: actors[config.policy_of(name)] for name in config.agents},
        partial(return_metrics, config.agents),
        alone=False,
        rows=run.hardware.responses_at_once,
        **how,
    )


@dataclass
class OpponentPool:
    """An `Actor` that speaks, in each iteration, as one of the pool's versions of the learner.

    The first is the frozen reference; every `pool_every` iterations the learner joins as it then
    is. Which one plays depends on seed and iteration alone. Every process calls each method.
    """

    name: str
    learner: Policy
    version: Policy  # gets the weights of the version that plays
    config: Config
    present: int = field(init=False, default=0)  # iterations of the version that plays; 0: none

    @property
    def sampling(self) -> SamplingConfig | None:
        """As of a `Policy`."""
        return self.version.sampling

    def turns(
        self, asked: Sequence[Asked], limit: int, sampling: SamplingConfig | None
    ) -> Sequence[Turn]:
        start = self.learner.reference(self.name).as_member(self.config)
        return (self.version if self.present else start).turns(asked, limit, sampling)

    def fits(self, context: Context, limit: int) -> bool:
        return self.version.fits(context, limit)

    def after_step(self, iteration: int) -> None:
        """Let the learner join, where it is time to, and choose who plays in the next iteration."""
        settings: TeamConfig = self.config.algorithm
        done, every = iteration + 1, settings.pool_every
        if done % every == 0:
            export_agents({self.learner.name: self.learner}, self.config, self._place(done), done)
        drawn = float(uniforms((self.config.seed, POOL, done), 1))
        self._enter(every * int(drawn * (1 + done // every)))

    def _enter(self, version: int) -> None:
        if version not in (0, self.present):
            folder = self._place(version) / AGENTS / self.learner.name
            self.version.model.load(folder, POOL, self.version.bundle.config.remote_code)
        self.present = version

    def _place(self, done: int) -> Path:
        return Path(self.config.run_dir) / POOL / str(done)

    def state_dict(self) -> dict[str, Any]:
        """Which version plays."""
        return {"present": self.present}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let that version play which played when `state` was taken."""
        self._enter(state["present"])


def team_actors(
    run: Config,
    agents: Mapping[str, Policy],
    others: Mapping[str, Policy],
    bundle_of: Callable[[str], ModelBundle],
    run_dir: Path,
) -> dict[str, Actor]:
    """Who speaks for the agents, by the names of `policy_of`.

    agents: those that learn; others: agents of other runs. Without training a pool has one
        version, the model as it came.
    bundle_of: an agent's
    """
    config: TeamConfig = run.algorithm
    actors: dict[str, Actor] = {**agents, **others}
    for name, kind in config.fixed_agents.items():
        if kind == "start" or (kind == "pool" and name not in others):
            # the model as it came: a policy's reference, if one shares it
            bundle = bundle_of(name)
            speaking = (one for one in (*agents.values(), *others.values()) if one.bundle is bundle)
            if found := next(speaking, None):
                start = found.reference(name)
            else:
                store_as_products(bundle.pretrained)
                model = ActorCriticModel(name, bundle.pretrained)
                start = Policy(bundle, model, None, run.hardware)
            actors[name] = start.as_member(run)
        elif kind == "endpoint":
            assert config.endpoint is not None  # settings without one were refused
            actors[name] = EndpointActor(name, Endpoint(config.endpoint, run_dir / REPLIES))
    return actors


@dataclass
class ReturnedOrScored(Reward):
    """The rewards that a play has returned; where it returns nothing, those of `reward=`."""

    reward: Reward
    said: str
    told: bool = False

    def score(self, episodes: list[Episode]) -> None:
        """As `Reward`; ConfigError where some plays have returned rewards and others have not."""
        unpaid = [e for e in episodes if any(turn.score is None for turn in e.turns)]
        source = "algorithm.play returns them"
        if unpaid:
            require(
                len(unpaid) == len(episodes),
                f"algorithm.play returned nothing about prompt {unpaid[0].prompt.id}, and rewards "
                f"about others: it must do one or the other",
            )
            source = f"{self.said} scores every utterance"
            super().score(episodes)
        if not self.told:
            distributed.note(f"rewards: {source}")
            self.told = True

    def scores(self, rows: Sequence[Row]) -> Sequence[float | None]:
        return self.reward.scores(rows)


def team_metrics(agents: Sequence[str], episodes: list[Episode]) -> Metrics:
    """What each agent is paid in an episode; `team`: over all agents."""
    paid = returns_of(
        agents, [[(t.speaker, float(t.score or 0)) for t in e.turns] for e in episodes]
    )
    return {f"rollout/return/{name}": mean(values) for name, values in paid.items()}
