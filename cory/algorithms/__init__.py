"""Algorithms: trainers assembled from components, one file per method. Read it beside its paper."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from cory.algorithms.cory import build_cory
from cory.algorithms.maft import build_maft
from cory.algorithms.maporl import build_maporl
from cory.algorithms.parts import Parts
from cory.algorithms.ppo import build_ppo
from cory.algorithms.sft import build_sft
from cory.algorithms.spag import build_imitation, build_spag
from cory.algorithms.verifier import build_verifier
from cory.episode import Episode, Metrics
from cory.evaluation.evaluate import Evaluator
from cory.models.policy import Policy
from cory.runs.stop import StopPoint, never_stop
from cory.trainers.state import Stateful


class Algorithm(Stateful, Protocol):
    """A trainer, as the training loop uses it; nothing inherits from it."""

    @property
    def agents(self) -> Mapping[str, Policy]:
        """The policies that learn, by name."""
        ...

    episodes: list[Episode]  # of the last step

    def step(self, iteration: int, stop_point: StopPoint = never_stop) -> Metrics:
        """Roll out and update once; `stop_point` is called where the iteration can be interrupted.

        Stopped: the run was asked to stop within the iteration, which the next start goes on with.
        """
        ...

    @property
    def evaluate(self) -> Evaluator:
        """Evaluates the agents on held-out prompts."""
        ...


# algorithm.name -> builder
ALGORITHMS: Mapping[str, Callable[[Any, Parts], Algorithm]] = {
    "ppo": build_ppo,
    "cory": build_cory,
    "maporl": build_maporl,
    "verifier": build_verifier,
    "sft": build_sft,
    "imitation": build_imitation,
    "spag": build_spag,
    "maft": build_maft,
}
