"""The parts that every algorithm is put together from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cory.config import BatchPlan, Config
from cory.models.engine import Engine
from cory.models.policy import Policy
from cory.models.ppo_policy import PPOPolicy
from cory.models.team import ActorCriticModel, Team
from cory.rewards import Reward
from cory.runs.export import agent_folders, load_agent, start_from
from cory.runs.stop import StopRequest
from cory.seeding import Streams
from cory.tasks import Task


@dataclass(frozen=True)
class Parts:
    """What a builder arranges."""

    config: Config
    plan: BatchPlan
    team: Team
    partner: Team | None  # of the second model, where there is one
    task: Task
    reward: Reward
    streams: Streams

    @property
    def stop(self) -> StopRequest:
        """Asks the run to stop while data are collected."""
        return StopRequest(Path(self.config.run_dir))

    def new_ppo_policies(
        self, names: Sequence[str], team: Team | None = None
    ) -> dict[str, PPOPolicy]:
        """Policies that learn by PPO, starting from the pretrained model or `init_from`.

        team: whose models they are; None: the first one's
        """
        team = team or self.team
        config = self.config
        return {
            model.name: PPOPolicy(
                team,
                model,
                engine,
                config.algorithm,
                config.hardware,
                from_reference=config.init_from is None,
            )
            for model, engine in self._trainable(names, team)
        }

    def new_policies(self, names: Sequence[str], team: Team | None = None) -> dict[str, Policy]:
        """Policies that learn otherwise, from the same start.

        team: as for `new_ppo_policies`
        """
        team, hardware = team or self.team, self.config.hardware
        return {
            model.name: Policy(team, model, engine, hardware)
            for model, engine in self._trainable(names, team)
        }

    def new_players(
        self, name: str, others: Mapping[str, Path]
    ) -> tuple[Policy, dict[str, Policy]]:
        """A policy that learns, and the agents of other runs, which never do.

        others: name -> directory of a finished run with one agent
        """
        team, hardware = self.team, self.config.hardware
        models: list[ActorCriticModel] = []
        # first of all: under ZeRO-3 the learner's engine splits the base with all of its adapters
        for model in team.new_models([name, *others], self.streams.init):
            if models:
                setting = f"algorithm.opponents.{model.name}"
                start_from(others[model.name], [model], team.config, "model", setting)
                if model.base is None:
                    model.requires_grad_(False).to("cpu")  # on the device only while it plays
            models.append(model)
        learners = self._started(models[:1], [name], team)
        (learner,) = (Policy(team, *pair, hardware) for pair in self._learning(learners, team))
        # an adapter lies on the base that the learner's engine keeps
        still = {
            model.name: Policy(
                team, model, None if model.base is None else learner.engine, hardware
            )
            for model in models[1:]
        }
        return learner, still

    def _trainable(
        self, names: Sequence[str], team: Team
    ) -> Iterator[tuple[ActorCriticModel, Engine]]:
        models = self._started(team.new_models(list(names), self.streams.init), names, team)
        # of copies one is whole at a time; under ZeRO-3 the first engine of those that share a base
        # splits it with all of its adapters
        return self._learning(list(models) if team.config.sharing == "adapters" else models, team)

    def _started(
        self, models: Iterable[ActorCriticModel], names: Sequence[str], team: Team
    ) -> Iterator[ActorCriticModel]:
        """Models as this run starts with them: as they come, or with the weights of `init_from`."""
        run_dir = self.config.init_from
        group = "model" if team is self.team else "partner"
        folders = (
            {}
            if run_dir is None
            else agent_folders(Path(run_dir), names, team.config, group, "init_from")
        )
        for model in models:
            if model.name in folders:
                load_agent(model, folders[model.name], team.config, "init_from")
            yield model

    def _learning(
        self, models: Iterable[ActorCriticModel], team: Team
    ) -> Iterator[tuple[ActorCriticModel, Engine]]:
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
