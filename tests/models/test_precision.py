"""Mixed precision: bfloat16 products, nothing else in bfloat16, and exact rotary frequencies.

Attention over a few rows at once has the same bits as over all of them; a CPU chooses products."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from cory import inference
from cory.config import parse_config
from cory.models import attention
from cory.models.actor_critic import (
    products,
    response_states,
    set_float32_products,
    set_products,
    store_as_products,
)
from cory.models.attention import BY_ROWS
from cory.models.bundle import ModelBundle
from cory.models.generation import generate
from cory.models.paths import CPU_HAS_BF16
from cory.runtime import worker as build_module
from tests.models.test_generation import PLAIN
from tests.support.building import LetterShare, build
from tests.support.composing import ConfigOf, compose_config, parsed
from tests.support.llama import save_llama

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
MIXED = "model.compute_precision=bf16"


@pytest.fixture
def lm() -> PreTrainedModel:
    torch.manual_seed(0)
    return gpt2().eval()


def states(lm: PreTrainedModel) -> Tensor:
    ids = torch.arange(24).view(2, 12)
    return response_states(lm, ids, torch.ones_like(ids), torch.ones(2, 6, dtype=torch.bool))


def inputs_of(lm: PreTrainedModel, *layers: str) -> dict[str, list[torch.dtype]]:
    """Fills with the types of the products' results, by layer, as passes are made."""
    found: dict[str, list[torch.dtype]] = {name: [] for name in layers}
    for name in layers:
        note = found[name].append
        lm.get_submodule(name).register_forward_hook(lambda m, i, out, note=note: note(out.dtype))
    return found


def test_products_are_rounded_and_what_lies_between_is_not(lm: PreTrainedModel) -> None:
    exact = states(lm)
    set_products(lm, torch.bfloat16)
    layers = ("transformer.h.0.mlp.c_fc", "transformer.h.1.ln_2", "transformer.ln_f")
    seen = inputs_of(lm, *layers)
    rounded = states(lm)
    assert [seen[name] for name in layers] == [[torch.bfloat16], [torch.float32], [torch.float32]]
    assert rounded.dtype == torch.float32
    off = (rounded - exact).abs().max()
    assert 1e-4 < off < 0.05  # 8 bits of mantissa, states of about 1
    rounded.square().sum().backward()
    for weight in lm.transformer.parameters():
        assert weight.dtype == torch.float32
        assert weight.grad is None or weight.grad.dtype == torch.float32
    assert lm.transformer.h[0].mlp.c_fc.weight.grad is not None


def said(lm: PreTrainedModel) -> list[list[float]]:
    uniforms = torch.rand(2, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = generate(lm, [[1, 2, 3], [4]], 8, PLAIN, uniforms, 0, frozenset())
    return [response.sampler_logprobs for response in found]


def test_the_head_is_float32_in_sampling_and_in_training(lm: PreTrainedModel) -> None:
    set_products(lm, torch.bfloat16)
    seen = inputs_of(lm, "lm_head", "transformer.h.1.attn.c_proj")
    with products(lm, computed=False):
        said(lm)
    assert set(seen["lm_head"]) == {torch.float32}
    assert set(seen["transformer.h.1.attn.c_proj"]) == {torch.bfloat16}


def layer_types(lm: PreTrainedModel) -> dict[str, torch.dtype]:
    """Of each weight, but those of adapters."""
    return {name: p.dtype for name, p in lm.named_parameters() if ".lora_" not in name}


def is_stored(lm: PreTrainedModel) -> bool:
    """Whether its linear layers, and nothing else, are in bfloat16; all else is in float32."""
    types = layer_types(lm)
    cast = {name for name, kind in types.items() if kind == torch.bfloat16}
    assert set(types.values()) <= {torch.bfloat16, torch.float32}
    layers = {name for name in types if ".attn.c_" in name or ".mlp.c_" in name}
    assert cast in (set(), layers) and len(layers) == 8 * lm.config.n_layer
    return bool(cast)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_stored_as_products_a_frozen_model_gives_the_same_bits(lm, kind: str) -> None:
    model = lm
    if kind == "llama":
        torch.manual_seed(0)
        model = llama().eval()
    model.requires_grad_(False)
    head = model.get_output_embeddings().weight.clone()
    store_as_products(model)  # its products are as its weights: nothing to do
    assert set(layer_types(model).values()) == {torch.float32}
    set_products(model, torch.bfloat16)
    before, spoken = states(model), said(model)
    store_as_products(model)
    types = layer_types(model)
    cast = {name for name, kind in types.items() if kind == torch.bfloat16}
    assert len(cast) == (16 if kind == "gpt2" else 14)
    assert not any("norm" in name or "ln_" in name or "emb" in name for name in cast)
    assert torch.equal(states(model), before) and said(model) == spoken
    assert torch.equal(model.get_output_embeddings().weight, head)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "stored"),
    [
        (["model.sharing=copies"], True),
        (["model.sharing=adapters"], True),
        (["model.sharing=adapters", "hardware.zero_stage=3"], False),  # which needs one precision
    ],
)
def test_what_never_trains_is_stored_in_the_precision_of_its_products(
    config_of: ConfigOf, words: list[str], stored: bool
) -> None:
    for agent in build(config_of(MIXED, *words), reward=LetterShare()).agents.values():
        with agent.engine.whole():
            frozen = agent.bundle.pretrained if agent.model.base is None else agent.model.lm
            assert is_stored(frozen) == stored
            assert agent.model.base is not None or not is_stored(agent.model.lm)


@pytest.mark.parametrize("sharing", ["copies", "adapters"])
def test_a_policy_keeps_the_frequencies_of_its_model(tmp_path: Path, sharing: str) -> None:
    """Rounded ones are off by whole radians after some hundred tokens."""
    settings = (f"model.path={save_llama(tmp_path)}", f"model.sharing={sharing}")
    bundle = ModelBundle(parsed(*settings, "model.precision=bf16").model, torch.device("cpu"))
    buffers = dict(bundle.pretrained.named_buffers())
    loaded = {name: buffer.clone() for name, buffer in buffers.items() if "inv_freq" in name}
    (model,) = bundle.new_models(["agent_0"], torch.Generator())
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    kept = {name: buffer for name, buffer in model.named_buffers() if "inv_freq" in name}
    assert loaded and len(kept) == len(loaded)
    for name, buffer in kept.items():
        wanted = next(value for key, value in loaded.items() if name.endswith(key.split(".")[-1]))
        assert buffer.dtype == torch.float32
        assert torch.equal(buffer, wanted)


# TF32: a switch of the whole process, on only where it is asked for and there

TF32 = ("hardware=gpu1", "model.compute_precision=tf32")


@pytest.fixture(autouse=True)
def _switch_as_before() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def tf32_state() -> str:
    return str(torch.backends.cuda.matmul.fp32_precision)


def test_tf32_is_on_where_asked_for_and_off_elsewhere() -> None:
    set_float32_products({"model": "bf16", "reward": "tf32"}, CUDA)
    assert tf32_state() == "tf32" and torch.backends.cuda.matmul.allow_tf32
    set_float32_products({"model": "fp32"}, CUDA)  # whatever the environment made torch's default
    assert tf32_state() == "ieee" and not torch.backends.cuda.matmul.allow_tf32
    set_float32_products({"model": "tf32"}, CPU)  # where agents of a run on a GPU may debate
    assert tf32_state() == "ieee"


class Enough(Exception):
    """What the test wants has happened."""


def test_a_run_and_a_debate_set_tf32(monkeypatch) -> None:
    """Before any model is loaded: what a process is asked for, reaches torch."""
    asked: list[dict[str, str]] = []

    def loaded(*_: object) -> None:
        raise Enough

    for module in (build_module, inference):
        monkeypatch.setattr(module, "set_float32_products", lambda chosen, _: asked.append(chosen))
        monkeypatch.setattr(module, "ModelBundle", loaded)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    with pytest.raises(Enough):
        build_module.build_components(parsed(*TF32, "reward.compute_precision=tf32"))
    config = parsed("experiment=maft/maft", "scale=small", *TF32)
    with pytest.raises(Enough):
        inference.TrainedTeam(Path("unused"), config, "cuda")
    assert [{*chosen.values()} for chosen in asked] == [{"tf32"}, {"tf32"}]


IDS = torch.arange(5 * 12).view(5, 12) % 50
PAIRS = 4 * 4 * 11 * 11  # bytes of a row: 4 heads, 11 tokens; the last one is not read


def gpt2(dropout: float = 0.0) -> PreTrainedModel:
    sizes = {"vocab_size": 50, "n_positions": 32, "n_embd": 64, "n_layer": 2, "n_head": 4}
    rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": dropout}
    return GPT2LMHeadModel(GPT2Config(**sizes, **rates, attn_implementation="eager"))


def llama(attention: str = "eager") -> PreTrainedModel:
    sizes = {"vocab_size": 50, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, attn_implementation=attention))


def passed(lm: PreTrainedModel) -> list[Tensor]:
    """States of a pass, and the gradients of the weights; the rows have 12, 11 ... 8 tokens."""
    mask = torch.ones_like(IDS, dtype=torch.bool)
    for row in range(len(IDS)):
        mask[row, :row] = False
    states = response_states(lm, IDS, mask, torch.ones(5, 6, dtype=torch.bool))
    lm.zero_grad()
    states.square().sum().backward()
    return [states.detach(), *(p.grad.clone() for p in lm.base_model.parameters())]


@pytest.mark.parametrize("make", [gpt2, llama])
@pytest.mark.parametrize(("at_once", "parts"), [(2, 3), (5, 1)])
def test_parts_give_the_bits_of_the_whole(make, at_once: int, parts, monkeypatch) -> None:
    torch.manual_seed(0)
    lm = make().eval()
    lm.product_dtype = torch.bfloat16
    whole = passed(lm)
    set_products(lm, torch.bfloat16)
    assert lm.config._attn_implementation == BY_ROWS
    calls: list[int] = []
    module = sys.modules[type(lm).__module__]
    own = module.eager_attention_forward

    def counted(module: object, query: Tensor, *more: object, **named: object) -> object:
        calls.append(len(query))
        return own(module, query, *more, **named)

    monkeypatch.setattr(module, "eager_attention_forward", counted)
    monkeypatch.setattr(attention, "PART_BYTES", at_once * PAIRS)
    assert all(map(torch.equal, passed(lm), whole))
    assert len(calls) == 2 * parts and sum(calls) == 2 * 5 and max(calls) == at_once


def test_dropout_is_drawn_for_all_rows_at_once(monkeypatch) -> None:
    torch.manual_seed(0)
    lm = gpt2(dropout=0.5).train()
    torch.manual_seed(1)
    whole = passed(lm)
    lm.set_attn_implementation(BY_ROWS)
    monkeypatch.setattr(attention, "PART_BYTES", PAIRS)
    torch.manual_seed(1)
    assert all(map(torch.equal, passed(lm), whole))


FIG3 = ("experiment=cory/imdb_cory", "scale=small")
HETERO = ("experiment=maporl/gsm8k_hetero_llama", "scale=small", "reward=verifier", "reward.path=x")


@pytest.mark.parametrize(
    ("words", "with_instructions", "without"),
    [
        ((), "bf16", "fp32"),  # the quickstart
        (FIG3, "bf16", "fp32"),  # a tiny model in place of GPT-2
        (("experiment=cory/imdb_cory",), "fp32", "fp32"),  # a run of the paper's own
        (("model.precision=bf16",), "bf16", "bf16"),  # as the weights
        (("hardware=gpu1",), "fp32", "fp32"),
        (("hardware.nodes=2", "hardware.rendezvous=here:1"), "fp32", "fp32"),  # two CPUs
        (HETERO, "bf16", "fp32"),  # every model of a run alike
        ((*HETERO, "model.compute_precision=fp32"), "fp32", "fp32"),
    ],
)
def test_the_cpu_chooses_the_products_of_small_runs(
    words: tuple[str, ...], with_instructions: str, without: str, monkeypatch
) -> None:
    for has, expected in (("1", with_instructions), ("0", without)):
        monkeypatch.setenv(CPU_HAS_BF16, has)
        config = parse_config(compose_config(*words))
        models = [config.model, *(member.model for member in config.members.values())]
        models += [config.reward] if config.members else []
        assert {own.compute_precision for own in models} == {expected}
