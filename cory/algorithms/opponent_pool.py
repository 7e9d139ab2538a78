"""Opponents for self-play: earlier versions of a policy that learns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cory.config import SamplingConfig
from cory.episode import Asked, Turn
from cory.models.policy import Policy
from cory.runs.export import load_agent
from cory.runs.run_dir import AGENTS
from cory.seeding import uniforms

POOL = "pool"  # folder of the run directory: a folder per version, each like a run's own


@dataclass
class OpponentPool:
    """An `Actor` that speaks, in each iteration, as one of the pool's versions of the learner.

    The first is the frozen reference; every `every` iterations the learner as it then is joins.
    Which one plays depends on seed and iteration alone. Every process calls each method.
    """

    name: str
    learner: Policy
    version: Policy  # gets the weights of the version that plays
    every: int
    seed: int
    run_dir: Path
    export: Callable[[Path, int], None]  # writes the learner after so many iterations
    present: int = field(init=False, default=0)  # iterations of the version that plays; 0: none

    def turns(
        self, asked: Sequence[Asked], limit: int, sampling: SamplingConfig | None
    ) -> Sequence[Turn]:
        """As `Actor`."""
        speaker = self.version if self.present else self.learner.reference(self.name)
        return speaker.turns(asked, limit, sampling)

    def after_step(self, iteration: int) -> None:
        """Let the learner join, where it is time to, and choose who plays in the next iteration."""
        done = iteration + 1
        if done % self.every == 0:
            self.export(self._place(done), done)
        drawn = float(uniforms((self.seed, POOL, done), 1))
        self._enter(self.every * int(drawn * (1 + done // self.every)))

    def _enter(self, version: int) -> None:
        if version not in (0, self.present):
            folder = self._place(version) / AGENTS / self.learner.name
            load_agent(self.version.model, folder, self.version.bundle.config, POOL)
        self.present = version

    def _place(self, done: int) -> Path:
        return self.run_dir / POOL / str(done)

    def state_dict(self) -> dict[str, Any]:
        """Which version plays."""
        return {"present": self.present}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let that version play which played when `state` was taken."""
        self._enter(state["present"])
