"""Passes of one token, plain and recorded: the same tokens. No graph is recorded on a CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

from cory.config import Config
from cory.models.loading import load_language_model
from cory.models.precision import set_products
from cory.models.sampling import working_rows
from cory.models.sampling.cache import PreallocatedLayer
from cory.models.sampling.generation import Response, generate
from tests.models.sampling.test_generation import CONTEXTS, PLAIN, uniforms
from tests.support.building import LetterShare, build
from tests.support.close import assert_close


def grouped_heads(attention: str) -> PreTrainedModel:
    torch.manual_seed(0)
    sizes = {"vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = LlamaConfig(**sizes, **heads, attn_implementation=attention)
    return LlamaForCausalLM(config).eval()


MODELS = ("tiny", "tiny in mixed precision", "llama eager", "llama sdpa")


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest, tiny_model: str) -> PreTrainedModel:
    if request.param.startswith("llama"):
        return grouped_heads(request.param.removeprefix("llama "))
    lm = load_language_model(str(tiny_model), "model.path", keep_dropout=False)
    if request.param != "tiny":
        set_products(lm, torch.bfloat16)
    return lm


@pytest.mark.parametrize("ending", ["none ends", "most end early", "all end early"])
def test_a_recorded_pass_gives_the_same_tokens(
    model: PreTrainedModel, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts, noise = [*CONTEXTS, [77, 78]], uniforms(5, seed=1)
    sampling = PLAIN.replace(repetition_penalty=1.2)
    free = generate(model, contexts, 8, sampling, noise, 0, frozenset())
    ended = {"none ends": 0, "most end early": 4, "all end early": 5}[ending]
    stops = {response.ids[place] for place, response in enumerate(free[:ended], start=1)}
    passes: list[int] = []
    plain, recorded = working_rows.PlainPass.__call__, working_rows.RecordedPass.__call__

    def counted(self: object, ids: torch.Tensor) -> torch.Tensor:
        passes.append(len(ids))
        return recorded(self, ids)  # type: ignore[arg-type]

    monkeypatch.setattr(working_rows.RecordedPass, "__call__", counted)
    runs: list[list[Response]] = [
        generate(model, contexts, 8, sampling, noise, 0, stops, graphs) for graphs in (False, True)
    ]
    assert working_rows.PlainPass.__call__ is plain
    assert [r.ids for r in runs[1]] == [r.ids for r in runs[0]]
    for one, other in zip(*runs, strict=True):
        assert_close(one.sampler_logprobs, other.sampler_logprobs, 1e-2)
    assert passes[0] == 5
    assert (passes[-1] < 5) == (ending != "none ends")


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
@pytest.mark.parametrize("graphs", [False, True])
def test_settings_reach_the_passes(
    config_of: Callable[..., Config], graphs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight responses of each agent, three at once; turns are scored two at once."""
    used: list[tuple[str, int]] = []

    def noted(kind: str) -> Callable[..., None]:
        def start(self: object, model: object, mask: torch.Tensor, cache: object) -> None:
            used.append((kind, len(mask)))
            original[kind](self, model, mask, cache)  # type: ignore[arg-type]

        return start

    original = {
        "plain": working_rows.PlainPass.__init__,
        "recorded": working_rows.RecordedPass.__init__,
    }
    trainer = build(
        config_of(
            "algorithm=cory",
            "hardware.rollout_batch_size=2",
            "hardware.generation_batch_size=3",
            f"hardware.cuda_graphs={str(graphs).lower()}",
        ),
        reward=LetterShare(),
    )
    monkeypatch.setattr(working_rows.PlainPass, "__init__", noted("plain"))
    monkeypatch.setattr(working_rows.RecordedPass, "__init__", noted("recorded"))
    trainer.step(0)
    kind = "recorded" if graphs else "plain"
    assert {name for name, _ in used} == {kind} and used[0] == (kind, 3)
    assert max(rows for _, rows in used) == 3 and len(used) >= 6
