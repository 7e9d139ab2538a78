"""Minibatches of fewer rows than processes: absent ones make up the number."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cory import distributed
from cory.config import ConfigError, batch_plan
from cory.models.policy import Policy
from cory.trainers.minibatch import one_step
from cory.trainers.supervised import Example


class Engine:
    """Takes every pass for a whole step."""

    skipped = False

    def __call__(self, ids: torch.Tensor, attended: torch.Tensor, mask: torch.Tensor) -> Any:
        return torch.zeros(mask.shape), torch.zeros(mask.shape)

    def backward(self, loss: torch.Tensor) -> None:
        self.backwards = getattr(self, "backwards", 0) + 1

    def step(self) -> float:
        return 1.0


def voice() -> Any:
    tokenizer = SimpleNamespace(pad_token_id=0)
    return SimpleNamespace(
        engine=Engine(), team=SimpleNamespace(tokenizer=tokenizer, device=torch.device("cpu"))
    )


@pytest.mark.parametrize(("rows", "world"), [(1, 1), (1, 3), (2, 3), (3, 3)])
def test_every_process_has_as_many_rows(
    rows: int, world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = [Example([1], [5] * (number + 1), 1.0) for number in range(rows)]
    monkeypatch.setattr(distributed, "count", lambda: world)
    monkeypatch.setattr(distributed, "summed", lambda numbers: numbers)
    seen: list[Sequence[Example | None]] = []

    def objective(part: Sequence[Example | None], *tensors: torch.Tensor) -> Any:
        seen.append(part)
        return torch.zeros(()), {"tokens": tensors[-1].sum()}

    for rank in range(world):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        own: Policy = voice()
        stepped = one_step(own, examples, 1, objective)
        # an absent row has no token, and nobody waits for a process without one
        assert stepped.sums["tokens"] == sum(len(e.response_ids) for e in seen[-1] if e)
        assert own.engine.backwards == 1
    assert [row for part in seen for row in part] == [*examples, *[None] * (world - rows)]


def test_only_what_is_filled_up_may_be_smaller_than_the_processes() -> None:
    plan = batch_plan(1, 1, 1, 4, 8, fills=True)
    assert (plan.minibatches, plan.microbatch, plan.accumulation) == (1, 1, 1)
    with pytest.raises(ConfigError, match="must be a multiple of the number of processes"):
        batch_plan(1, 1, 1, 4, 8)
    with pytest.raises(ConfigError, match=r"\(12\) must be a multiple of the number of processes"):
        batch_plan(12, 12, 12, 4, 8, fills=True)
