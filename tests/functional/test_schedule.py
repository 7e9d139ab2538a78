"""Learning rates over a stage."""

from __future__ import annotations

import pytest
import torch
from transformers import get_scheduler

from cory.functional.losses import share_of_peak


def test_linear_falls_to_a_share() -> None:
    found = [share_of_peak(p, "linear", 0.2, 0.1) for p in (0.1, 0.2, 0.4, 0.6, 1.0)]
    assert found == pytest.approx([0.5, 1.0, 0.775, 0.55, 0.1])
    assert share_of_peak(0.0, "constant", 0.0) == 1


@pytest.mark.parametrize(
    ("schedule", "theirs", "final"),
    [
        ("constant", "constant_with_warmup", 0.0),
        ("linear", "linear", 0.0),
        ("cosine", "cosine", 0.0),
        ("cosine", "cosine_with_min_lr", 0.3),
    ],
)
def test_schedules_are_those_of_transformers(schedule: str, theirs: str, final: float) -> None:
    """Theirs begins each step's rate at its beginning, so that the first rate is 0."""
    steps, warmup = 40, 8
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    own = {"min_lr_rate": final} if final else None
    scheduler = get_scheduler(theirs, optimiser, warmup, steps, scheduler_specific_kwargs=own)
    for step in range(steps):
        found = share_of_peak(step / steps, schedule, warmup / steps, final)
        assert found == pytest.approx(scheduler.get_last_lr()[0], abs=1e-12), step
        optimiser.step()
        scheduler.step()
