"""Which untrained policies say the same, so that one of them is asked for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from cory.models.fingerprint import alike

TEAM = object()


class Agent:
    def __init__(self, name: str, team: object = TEAM, **weights: float) -> None:
        self.name, self.team = name, team
        named = {key.replace("__", "."): torch.full((2,), v) for key, v in weights.items()}
        self.model = SimpleNamespace(trainable=lambda: named)

    @contextmanager
    def whole(self) -> Iterator[None]:
        yield


def found(*agents: Agent) -> dict[str, str]:
    policies: Mapping[str, Any] = {agent.name: agent for agent in agents}
    return alike(policies)


def test_copies_of_a_model_but_for_value_heads() -> None:
    agents = [Agent("a", w=1.0, value_head__w=1.0), Agent("b", w=1.0, value_head__w=2.0)]
    assert found(*agents) == {"a": "a", "b": "a"}
    assert found(*agents, Agent("c", w=2.0), Agent("d", v=1.0)) == {
        "a": "a", "b": "a", "c": "c", "d": "d"
    }  # fmt: skip


def test_not_across_models() -> None:
    assert found(Agent("a", w=1.0), Agent("b", object(), w=1.0)) == {"a": "a", "b": "b"}


def test_adapters_that_add_nothing_yet() -> None:
    one = {"x__lora_A__w": 1.0, "x__lora_B__w": 0.0, "y__w": 1.0}
    other = one | {"x__lora_A__w": 2.0}
    assert found(Agent("a", **one), Agent("b", **other)) == {"a": "a", "b": "a"}
    trained = other | {"x__lora_B__w": 1.0}
    assert found(Agent("a", **one), Agent("b", **trained)) == {"a": "a", "b": "b"}
