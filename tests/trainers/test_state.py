"""What a checkpoint keeps of a trainer: the names under which older checkpoints keep it, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cory.algorithms.parts import Parts
from cory.trainers.offline import OfflineTrainer
from cory.trainers.ppo import PPOTrainer
from cory.trainers.supervised import SupervisedTrainer


class Component:
    """Has a state of one number."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number

    def state_dict(self) -> dict[str, Any]:
        return {self.name: self.number}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.number = state[self.name]


def trainer_of(kind: str, number: int) -> tuple[Any, list[Component]]:
    """A trainer whose components all have `number` as their state, and these."""
    parts: Any = SimpleNamespace(
        task=Component("task", number), streams=Component("streams", number)
    )
    assert isinstance(Parts.carried, property) and Parts.carried.fget is not None
    roles, agent = Component("roles", number), Component("agent_0", number)
    options: dict[str, Any] = {"carried": Parts.carried.fget(parts) | {"roles": roles}}
    none: Any = None
    options |= {"evaluate": none}
    if kind == "ppo":
        for name in (
            "interact",
            "actors",
            "assign_credit",
            "learners",
            "describe",
            "after_step",
            "estimate",
        ):
            options[name] = none
        agents: Any = {"agent_0": agent}
        return PPOTrainer(none, none, agents, none, none, none, **options), [
            *(parts.task, parts.streams, roles, agent)
        ]
    policy: Any = agent
    if kind == "offline":
        options |= dict.fromkeys(("collect", "instructions", "loss"))
        return OfflineTrainer(none, none, policy, none, **options), [
            *(parts.task, parts.streams, roles)
        ]
    names = ("collect", "finetune_plan", "loss", "statistics", "metric_name")
    options |= dict.fromkeys(names)
    return SupervisedTrainer(none, none, {"agent_0": policy}, none, **options), [
        *(parts.task, parts.streams, roles)
    ]


COMPONENTS = {name: {name: 1} for name in ("task", "streams", "roles")}
STATES = {
    "ppo": COMPONENTS | {"agent_0": {"agent_0": 1}},
    "supervised": COMPONENTS | {"updates": {"agent_0": 0}, "idle": {"agent_0": 0}, "begun": None},
    "offline": COMPONENTS | {"updates": 0, "digest": "", "order": [], "references": []},
}


@pytest.mark.parametrize("kind", STATES)
def test_the_state_has_a_name_for_each_component(kind: str) -> None:
    trainer, _ = trainer_of(kind, 1)
    assert trainer.state_dict() == STATES[kind]


@pytest.mark.parametrize("kind", STATES)
def test_every_component_goes_on_where_its_state_was_taken(kind: str) -> None:
    trainer, components = trainer_of(kind, 2)
    trainer.load_state_dict(STATES[kind])
    assert [component.number for component in components] == [1] * len(components)
