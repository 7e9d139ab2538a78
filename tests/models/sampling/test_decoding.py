"""Passes of one token, plain and recorded: the same tokens. No graph is recorded on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cory.config import Config
from cory.models.loading import load_language_model
from cory.models.precision import set_products
from cory.models.sampling import working_rows
from cory.models.sampling.cache import PreallocatedLayer
from cory.models.sampling.generation import generate
from tests.models.sampling.test_generation import CONTEXTS, PENALTY, uniforms
from tests.support.building import LetterShare, build
from tests.support.close import assert_close


@pytest.mark.parametrize("ending", ["none ends", "most end early"])
def test_a_recorded_pass_in_mixed_precision_gives_the_same_tokens(
    ending: str, tiny_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_language_model(tiny_model, "model.path", keep_dropout=False)
    set_products(model, torch.bfloat16)
    contexts, noise = [*CONTEXTS, [77, 78]], uniforms(5, seed=1)
    free = generate(model, contexts, 8, PENALTY, noise, 0, frozenset())
    ended = 0 if ending == "none ends" else 4
    stops = {response.ids[place] for place, response in enumerate(free[:ended], start=1)}
    rows: list[int] = []
    recorded = working_rows.RecordedPass.__call__
    monkeypatch.setattr(
        working_rows.RecordedPass,
        "__call__",
        lambda self, ids: (rows.append(len(ids)), recorded(self, ids))[1],
    )
    plain, found = (
        generate(model, contexts, 8, PENALTY, noise, 0, stops, graphs) for graphs in (False, True)
    )
    assert [r.ids for r in found] == [r.ids for r in plain]
    for one, other in zip(found, plain, strict=True):
        assert_close(one.sampler_logprobs, other.sampler_logprobs, 1e-2)
    assert rows[0] == 5 and (rows[-1] < 5) == (ending != "none ends")


def test_what_lies_in_unwritten_memory_does_not_matter() -> None:
    keys, values = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    layer = PreallocatedLayer(7)
    layer.update(keys[:, :, :3], values[:, :, :3])
    for memory in layer._memory:
        memory[:, :, 3:] = torch.nan
    place = torch.tensor([3])
    layer.fix(place)
    assert layer.get_seq_length() == 3 and layer.get_mask_sizes(1) == (7, 0)
    found = layer.update(keys[:, :, 3:], values[:, :, 3:])
    for one, whole in zip(found, (keys, values), strict=True):
        assert one.shape == (2, 3, 7, 5)
        assert torch.equal(one[:, :, :4], whole) and not one[:, :, 4:].any()
    place += 1
    assert layer.get_seq_length() == 4
    layer.batch_select_indices(torch.tensor([1, 1]))
    assert torch.equal(layer.keys[:, :, :4], keys[[1, 1]])


@pytest.mark.slow
def test_settings_reach_the_passes(
    config_of: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight responses of each agent, three at once; turns are scored two at once."""
    words = ["hardware.rollout_batch_size=2", "hardware.generation_batch_size=3"]
    words.append("hardware.cuda_graphs=true")
    trainer = build(config_of("algorithm=cory", *words), reward=LetterShare())
    used: set[tuple[str, int]] = set()
    for kind in (working_rows.PlainPass, working_rows.RecordedPass):

        def start(
            self: object, *given: Any, kind: type = kind, own: Callable[..., None] = kind.__init__
        ) -> None:
            used.add((kind.__name__, len(given[1])))  # model, mask and cache
            own(self, *given)

        monkeypatch.setattr(kind, "__init__", start)
    trainer.step(0)
    assert {name for name, _ in used} == {"RecordedPass"}
    assert max(rows for _, rows in used) == 3
