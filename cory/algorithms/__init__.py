"""Algorithms: trainers assembled from components, one file per method. Read it beside its paper.

A new algorithm is a function from its settings and `Components` to an `Algorithm`, and a line in
the table ALGORITHMS of cory/config/experiment.py.
"""

from collections.abc import Mapping
from typing import Protocol

from cory.episode import Episode, Metrics
from cory.evaluation.evaluate import Evaluator
from cory.models.policy import Policy
from cory.trainers.steps import Stateful


class Algorithm(Stateful, Protocol):
    """A trainer, as the training loop uses it; nothing inherits from it."""

    @property
    def agents(self) -> Mapping[str, Policy]:
        """The policies that learn, by name."""

    episodes: list[Episode]  # of the last step

    def step(self, iteration: int) -> Metrics:
        """Roll out and update once.

        Stopped: the run was asked to stop while data were collected; all else is as before.
        """

    @property
    def evaluate(self) -> Evaluator:
        """Evaluates the agents on held-out prompts."""
