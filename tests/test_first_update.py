"""A run stops when its first update moves nothing, or moves what it must not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cory.config import Config
from cory.engine import Engine
from cory.trainers.first_update import FirstUpdateError
from tests.building import LetterShare, build

ConfigOf = Callable[..., Config]


@pytest.mark.parametrize("sharing", ["copies", "adapters"])
def test_an_update_that_moves_nothing_stops_the_run(
    config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch, sharing: str
) -> None:
    """As with adapters that were loaded frozen."""
    trainer = build(config_of(f"model.sharing={sharing}"), reward=LetterShare())
    monkeypatch.setattr(Engine, "step", lambda engine: 1.0)
    with pytest.raises(FirstUpdateError, match="agent_0: its first update changed none"):
        trainer.step(0)


@pytest.mark.parametrize(
    ("sharing", "whose", "said"),
    [
        ("copies", "other", "agent_0: its first update also changed agent_1: lm."),
        ("copies", "reference", "agent_0: its first update also changed reference: "),
        ("adapters", "other", "agent_0: its first update also changed agent_"),
        ("adapters", "base", "agent_0: its first update also changed agent_"),
    ],
)
def test_an_update_that_moves_more_than_its_own_stops_the_run(
    config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch, sharing: str, whose: str, said: str
) -> None:
    trainer = build(config_of(f"model.sharing={sharing}"), reward=LetterShare())
    first, second = trainer.agents.values()
    own = {id(p) for agent in (first, second) for p in agent.model.trainable().values()}
    victims = {
        "other": next(iter(second.model.trainable().values())),
        "reference": next(first.team.pretrained.parameters()),
        "base": next((p for p in first.model.lm.parameters() if id(p) not in own), None),
    }
    victim = victims[whose]
    assert victim is not None
    step = Engine.step

    def step_and_nudge(engine: Engine) -> float | None:
        with torch.no_grad():
            victim.flatten()[0] += 1e-3
        return step(engine)

    monkeypatch.setattr(Engine, "step", step_and_nudge)
    with pytest.raises(FirstUpdateError) as error:
        trainer.step(0)
    assert str(error.value).startswith(said)


def test_a_healthy_first_update_passes(config_of: ConfigOf) -> None:
    for sharing in ("copies", "adapters", "adapter_copies"):
        build(config_of(f"model.sharing={sharing}"), reward=LetterShare()).step(0)
