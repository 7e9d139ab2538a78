"""The components that algorithms are assembled from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from cory.config import BatchPlan, Config
from cory.models.actor_critic import ActorCriticModel
from cory.models.engine import Engine
from cory.models.policy import Policy
from cory.models.ppo_policy import PPOPolicy
from cory.models.precision import store_as_products
from cory.models.shared_engine import SharedEngine, StoredWeights
from cory.models.team import Team
from cory.models.visitor import Visitor
from cory.rewards import Reward
from cory.runs.export import agent_folders, load_agent, start_from
from cory.seeding import Streams
from cory.tasks import Task
from cory.trainers.state import Stateful


@dataclass(frozen=True)
class Parts:
    """The components an algorithm is assembled from."""

    config: Config
    plan: BatchPlan
    team: Team
    partner: Team | None  # of the second model, if any
    task: Task
    reward: Reward
    streams: Streams

    @property
    def carried(self) -> dict[str, Stateful]:
        """The components whose state a checkpoint keeps."""
        return {"task": self.task, "streams": self.streams}

    def new_ppo_policies(
        self, names: Sequence[str], team: Team | None = None
    ) -> dict[str, PPOPolicy]:
        """Policies trained by PPO, starting from the pretrained model or `init_from`.

        team: of their models; None: the first one
        """
        team = team or self.team
        config = self.config
        policies = {
            model.name: PPOPolicy(
                team,
                model,
                engine,
                config.algorithm,
                config.hardware,
                from_reference=config.init_from is None,
            )
            for model, engine in self._with_engines(names, team)
        }
        self._store(policies, team)
        return policies

    def new_policies(self, names: Sequence[str], team: Team | None = None) -> dict[str, Policy]:
        """Policies trained otherwise; all else as `new_ppo_policies`."""
        team, hardware = team or self.team, self.config.hardware
        if self.config.algorithm.one_engine(team.config.sharing):
            policies = self._sharing_an_engine(names, team)
        else:
            policies = {
                model.name: Policy(team, model, engine, hardware)
                for model, engine in self._with_engines(names, team)
            }
        self._store(policies, team)
        return policies

    def _sharing_an_engine(self, names: Sequence[str], team: Team) -> dict[str, Policy]:
        """Policies with full copies whose weights take turns in one engine."""
        models = self._initial_models(names, team)
        ((first, engine),) = self._engines(islice(models, 1), team)
        shared = SharedEngine(engine)
        stored = [StoredWeights(first.name, shared)]
        for model in models:
            engine.set_weights(model.trainable())
            stored.append(StoredWeights(model.name, shared))
        hardware = self.config.hardware
        return {own.name: Policy(team, first, engine, hardware, own) for own in stored}

    def new_players(
        self, name: str, others: Mapping[str, Path]
    ) -> tuple[Policy, Mapping[str, Policy | Visitor]]:
        """A policy to train, and the agents of other runs, which are never trained.

        Full copies among these are loaded when they play. A frozen reference is kept only where the
        settings say that it is read.

        others: name -> directory of a finished run with one agent
        """
        team, hardware = self.team, self.config.hardware
        if team.config.sharing == "copies":
            learner = self.new_policies([name])[name]
            if not self.config.algorithm.reads_reference():
                team.drop_reference()
            return learner, {other: self._visitor(other, others[other]) for other in others}
        models: list[ActorCriticModel] = []
        # first of all: under ZeRO-3 the learner's engine splits the base with all of its adapters
        head = self.config.algorithm.has_value_head()
        for model in team.new_models([name, *others], self.streams.init, head):
            if models:
                setting = f"algorithm.opponents.{model.name}"
                start_from(others[model.name], [model], team.config, "model", setting)
            models.append(model)
        learners = self._initialised(models[:1], [name], team)
        (learner,) = (Policy(team, *pair, hardware) for pair in self._engines(learners, team))
        # an adapter lies on the base that the learner's engine keeps
        frozen = {model.name: Policy(team, model, learner.engine, hardware) for model in models[1:]}
        self._store({name: learner, **frozen}, team)
        return learner, frozen

    def _visitor(self, name: str, run_dir: Path) -> Visitor:
        """The agent of another run; refused at once where the run does not fit."""
        team, setting = self.team, f"algorithm.opponents.{name}"
        folder = agent_folders(run_dir, [name], team.config, "model", setting)[name]

        def load() -> Policy:
            model = team.loaded(name, str(folder), setting)
            return Policy(team, model, None, self.config.hardware)

        return Visitor(name, load)

    def _store(self, policies: Mapping[str, Policy], team: Team) -> None:
        """Keep what never trains in the precision of its products, once all copies are made.

        policies: all that start from the team's model
        """
        share_base = team.config.sharing != "copies"
        for policy in policies.values():
            # a copy that trains keeps them exact; a shared base never trains, but ZeRO-3 splits it
            stays = self.config.hardware.zero_stage == 3 if share_base else policy.trains
            if not stays:
                store_as_products(policy.model.lm)
        if team.config.sharing == "copies":
            store_as_products(team.pretrained)

    def _with_engines(
        self, names: Sequence[str], team: Team
    ) -> Iterator[tuple[ActorCriticModel, Engine]]:
        models = self._initial_models(names, team)
        # of copies one is whole at a time; under ZeRO-3 the first engine of those that share a base
        # splits it with all of its adapters
        return self._engines(list(models) if team.config.sharing == "adapters" else models, team)

    def _initial_models(self, names: Sequence[str], team: Team) -> Iterator[ActorCriticModel]:
        head = self.config.algorithm.has_value_head()
        new = team.new_models(list(names), self.streams.init, head)
        return self._initialised(new, names, team)

    def _initialised(
        self, models: Iterable[ActorCriticModel], names: Sequence[str], team: Team
    ) -> Iterator[ActorCriticModel]:
        """The models with the weights that the run starts from: pretrained, or of `init_from`."""
        run_dir = self.config.init_from
        folders = (
            {}
            if run_dir is None
            else agent_folders(Path(run_dir), names, team.config, team.group, "init_from")
        )
        for model in models:
            if model.name in folders:
                load_agent(model, folders[model.name], team.config, "init_from")
            yield model

    def _engines(
        self, models: Iterable[ActorCriticModel], team: Team
    ) -> Iterator[tuple[ActorCriticModel, Engine]]:
        """Each model with its engine."""
        config = self.config
        shared: list[Engine] = []
        for model in models:
            if config.hardware.gradient_checkpointing:
                model.lm.gradient_checkpointing_enable({"use_reentrant": False})
            engine = Engine(
                model,
                config.algorithm,
                config.hardware,
                self.plan,
                config.model.precision,
                siblings=shared if team.config.sharing == "adapters" else [],
            )
            yield model, engine


def numbered(count: int) -> list[str]:
    """`agent_0` to `agent_<count - 1>`."""
    return [f"agent_{number}" for number in range(count)]
