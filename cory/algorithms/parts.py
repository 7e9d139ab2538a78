"""The parts that every algorithm is put together from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cory.agent import Agent
from cory.config import BatchPlan, Config
from cory.engine import Engine
from cory.export import start_from
from cory.rewards import Reward
from cory.streams import Streams
from cory.tasks import Task
from cory.team import Team


@dataclass(frozen=True)
class Parts:
    """What a builder arranges."""

    config: Config
    plan: BatchPlan
    team: Team
    task: Task
    reward: Reward
    streams: Streams

    def new_agents(self, count: int) -> dict[str, Agent]:
        """`agent_0` to `agent_<count - 1>`, starting from the pretrained model or `init_from`."""
        config = self.config
        names = [f"agent_{number}" for number in range(count)]
        models = self.team.new_models(names, self.streams.init)
        if config.init_from is not None:
            start_from(Path(config.init_from), models, config.model)
        agents = {}
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
                siblings=shared if config.model.sharing == "adapters" else [],
            )
            agents[model.name] = Agent(
                self.team,
                model,
                engine,
                config.algorithm,
                config.hardware,
                from_reference=config.init_from is None,
            )
        return agents
