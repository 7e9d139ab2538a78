"""The parts that every algorithm is put together from."""

from __future__ import annotations

from dataclasses import dataclass

from cory.agent import Agent
from cory.config import BatchPlan, Config
from cory.engine import Engine
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

    def new_agent(self, number: int) -> Agent:
        """Agent `agent_<number>`, starting from the pretrained model."""
        config = self.config
        model = self.team.new_model(self.streams.init)
        engine = Engine(model, config.algorithm, config.hardware, self.plan, config.model.precision)
        return Agent(
            f"agent_{number}",
            self.team,
            model,
            engine,
            config.algorithm,
            config.hardware.rollout_batch_size,
        )
