"""Half precision: weights are rounded, the frequencies of rotary positions are not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cory.models.team import Team
from tests.support.composing import parsed
from tests.support.llama import save_llama

HALF = "model.precision=bf16"


@pytest.mark.parametrize("sharing", ["copies", "adapters"])
def test_a_policy_keeps_the_frequencies_of_its_model(tmp_path: Path, sharing: str) -> None:
    """Rounded ones are off by whole radians after some hundred tokens."""
    settings = (f"model.path={save_llama(tmp_path)}", HALF, f"model.sharing={sharing}")
    team = Team(parsed(*settings).model, torch.device("cpu"))
    buffers = dict(team.pretrained.named_buffers())
    loaded = {name: buffer.clone() for name, buffer in buffers.items() if "inv_freq" in name}
    (model,) = team.new_models(["agent_0"], torch.Generator())
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    kept = {name: buffer for name, buffer in model.named_buffers() if "inv_freq" in name}
    assert loaded and len(kept) == len(loaded)
    for name, buffer in kept.items():
        wanted = next(value for key, value in loaded.items() if name.endswith(key.split(".")[-1]))
        assert buffer.dtype == torch.float32
        assert torch.equal(buffer, wanted)


def test_a_new_copy_is_its_reference_to_the_last_bit(tmp_path: Path) -> None:
    settings = (f"model.path={save_llama(tmp_path)}", HALF)
    team = Team(parsed(*settings).model, torch.device("cpu"))
    (model,) = team.new_models(["agent_0"], torch.Generator())
    ids = torch.randint(3, 300, (2, 200), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, 200, dtype=torch.bool)
    statistics, _ = team.statistics(model.eval(), ids, mask, mask[:, :20])
    assert torch.equal(statistics.logprobs, statistics.ref_logprobs)
    assert statistics.full_kl.abs().max() < 1e-6
