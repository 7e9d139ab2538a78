"""Sampling: what a response depends on; contexts are read once, several adapters together."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from cory.config import AdapterConfig, SamplingConfig
from cory.models import generation
from cory.models.actor_critic import set_products
from cory.models.generation import Response, generate, inverse_cdf, warp
from cory.models.lora import SharedBase
from cory.models.passes import RoomyLayer, Route, cache_for, prefill
from tests.support.building import LetterShare, build
from tests.support.close import assert_close
from tests.support.composing import ConfigOf

PLAIN = SamplingConfig(
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    repetition_penalty=1.0,
    min_response_tokens=1,
    max_response_tokens=8,
)
PENALTY = PLAIN.replace(repetition_penalty=1.5)
CONTEXTS = [[5, 9, 40], [7], [11, 12, 13, 14, 15, 16, 17], [200, 3]]


def respond(
    model: PreTrainedModel,
    contexts: list[list[int]],
    sampling: SamplingConfig | None,
    uniforms: torch.Tensor | None,
) -> list[Response]:
    return generate(model, contexts, 8, sampling, uniforms, 0, set())


def uniforms(rows: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(rows, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("sampling", "every", "graphs"),
    [(None, 1, False), (None, 3, True), (PENALTY, 1, True), (PENALTY, 99, False)],
)
def test_rows_that_have_ended_are_dropped_and_the_others_do_not_notice(
    model: PreTrainedModel, sampling: SamplingConfig | None, every: int, graphs: bool, monkeypatch
) -> None:
    """Of five rows four end at the second to fifth token, one never."""
    contexts = [*CONTEXTS, [77, 78]]
    noise = uniforms(len(contexts), seed=1)
    free = respond(model, contexts, sampling, noise)
    stops = {response.ids[place] for place, response in enumerate(free[:4], start=1)}
    ends = [next((n for n, token in enumerate(r.ids, start=1) if token in stops), 8) for r in free]
    monkeypatch.setattr(generation, "may_look", lambda passes, device: passes % every == 0)
    sizes: list[int] = []
    note = lambda module, args, kwargs: sizes.append(len(kwargs["input_ids"]))  # noqa: E731
    handle = model.base_model.register_forward_pre_hook(note, with_kwargs=True)
    found = generate(model, contexts, 8, sampling, noise, 0, stops, graphs)
    handle.remove()
    assert [r.ids for r in found] == [r.ids[:n] for r, n in zip(free, ends, strict=True)]
    for ours, theirs in zip(found, free, strict=True):
        assert_close(ours.sampler_logprobs, theirs.sampler_logprobs[: len(ours.ids)])
    assert (min(sizes) <= 2) == (every < 8) and sizes[0] == 5


def test_inverse_cdf_by_hand() -> None:
    """Never a token without probability, even at 0."""
    logp = torch.tensor([[0.0, 0.5, 0.0, 0.25, 0.25]]).log().repeat(4, 1)
    places = torch.tensor([0.0, 0.49, 0.51, 0.99], dtype=torch.float64)
    assert inverse_cdf(logp, places).tolist() == [1, 1, 3, 4]


def test_warp_by_hand() -> None:
    logits = torch.tensor([[2.0, -1.0, 0.5]])
    seen = torch.tensor([[True, True, False]])
    cases = [
        (PLAIN.replace(repetition_penalty=2.0), [1.0, -2.0, 0.5]),
        (PLAIN.replace(temperature=0.5), [4.0, -2.0, 1.0]),
        (PLAIN.replace(top_k=2), [2.0, -torch.inf, 0.5]),
        # probabilities 0.786, 0.039, 0.175: the first alone passes 0.5
        (PLAIN.replace(top_p=0.5), [2.0, -torch.inf, -torch.inf]),
    ]
    for sampling, expected in cases:
        assert_close(warp(logits, seen, sampling)[0], torch.tensor(expected))


def test_what_was_said_before_is_penalised_too(model: PreTrainedModel) -> None:
    context, penalty = CONTEXTS[0], 3.0
    sampling = PLAIN.replace(repetition_penalty=penalty)
    (response,) = respond(model, [context], sampling, uniforms(1))
    ids = list(context)
    for token, logprob in zip(response.ids, response.sampler_logprobs, strict=True):
        logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
        for seen in set(ids):
            logits[seen] = logits[seen] * penalty if logits[seen] < 0 else logits[seen] / penalty
        assert_close(logprob, logits.log_softmax(-1)[token].item())
        ids.append(token)


# passes of one token, plain and recorded; no graph is recorded on a CPU


@pytest.mark.slow
def test_settings_reach_the_passes(config_of: ConfigOf, monkeypatch) -> None:
    """Eight responses of each agent, three at once; turns are scored two at once."""
    words = ["hardware.rollout_batch_size=2", "hardware.generation_batch_size=3"]
    words.append("hardware.cuda_graphs=true")
    trainer = build(config_of("algorithm=cory", *words), reward=LetterShare())
    recorded, rows = generation.RecordedPass, set()

    def start(model: Any, mask: torch.Tensor, cache: Any) -> object:
        rows.add(len(mask))
        return recorded(model, mask, cache)

    monkeypatch.setattr(generation, "RecordedPass", start)
    monkeypatch.setattr(generation, "PlainPass", None)  # cannot be called
    trainer.step(0)
    assert max(rows) == 3


RULES = list(range(100, 120))  # 20 tokens
CASES = {
    # contexts -> (rows, tokens) of each pass
    "all differ": ([[5, 9, 40], [7], [11, 12]], [(3, 3)]),
    "all equal": ([[5, 9]] * 4, [(1, 2)]),
    "both": ([[*RULES, 5], [*RULES, 7, 8], [*RULES, 5]], [(2, 22)]),
}


@pytest.mark.parametrize("case", CASES)
def test_each_context_is_read_once_and_gives_what_it_gives_alone(model, case: str) -> None:
    contexts, expected = CASES[case]
    passes: list[tuple[int, ...]] = []
    note = lambda module, args, kwargs: passes.append(tuple(kwargs["input_ids"].shape))  # noqa: E731
    handle = model.base_model.register_forward_pre_hook(note, with_kwargs=True)
    cache = cache_for(model, 30)
    with torch.no_grad():
        states, mask = prefill(model, contexts, cache, 0, Route([""] * len(contexts)))
    handle.remove()
    assert passes == expected
    assert mask.sum(1).tolist() == [len(row) for row in contexts] and mask[:, -1].all()
    assert cache.get_seq_length() == mask.shape[1]
    for row, context in enumerate(contexts):
        with torch.no_grad():
            alone = model.base_model(torch.tensor([context]), use_cache=True)
        assert_close(states[row, 0], alone.last_hidden_state[0, -1], 1e-4)
        for layer, own in zip(cache.layers, alone.past_key_values.layers, strict=True):
            assert_close(layer.keys[row][:, mask[row]], own.keys[0], 1e-4)
            assert_close(layer.values[row][:, mask[row]], own.values[0], 1e-4)


def states(rows: int, tokens: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(rows, 3, tokens, 4, generator=generator)
    return keys, torch.randn(rows, 3, tokens, 5, generator=generator)


def test_the_cache_is_the_librarys_without_copies() -> None:
    """In bfloat16, whose keys lie across."""
    ours, theirs = RoomyLayer(8, across=True), DynamicCache().layer_class_to_replicate()
    memory = set()
    for seed, tokens in enumerate((3, 1, 2)):
        new = tuple(t.bfloat16() for t in states(4, tokens, seed))
        assert all(map(torch.equal, ours.update(*new), theirs.update(*new)))
        assert ours.get_seq_length() == theirs.get_seq_length()
        assert ours.get_mask_sizes(1) == theirs.get_mask_sizes(1)
        memory |= {ours.keys.data_ptr(), ours.values.data_ptr()}
    assert len(memory) == 2
    for layer in (ours, theirs):
        layer.batch_select_indices(torch.tensor([2, 0]))
    assert ours.keys.stride(2) == 1
    new = tuple(t.bfloat16() for t in states(2, 2, 9))
    found = ours.update(*new)
    assert all(map(torch.equal, found, theirs.update(*new)))
    assert found[0].stride(3) == 1  # many queries read them token by token
    assert ours.keys.shape == (2, 3, 8, 4) and ours.keys.stride(2) == 1


BEGINNING = list(range(100, 120))
# of each adapter: one has a lower rank, one lies on other layers
OF_ADAPTERS = {
    "x": [[*BEGINNING, 5], [*BEGINNING, 7, 8], [*BEGINNING, 5], [*BEGINNING, 9]],
    "y": [[*BEGINNING, 5], [*BEGINNING, 7, 8], [*BEGINNING, 5], [*BEGINNING, 9]],
    "z": [[30, *BEGINNING[2:], 5], [30, *BEGINNING[2:], 7, 8]],
    "": [[*BEGINNING, 5]],
}
ROWS = [(name, row) for row in range(4) for name in OF_ADAPTERS if row < len(OF_ADAPTERS[name])]
OF, TOKENS = [name for name, _ in ROWS], [OF_ADAPTERS[name][row] for name, row in ROWS]


@pytest.fixture(scope="module")
def base(model: PreTrainedModel) -> SharedBase:
    settings = {
        name: AdapterConfig(rank=rank, alpha=8, dropout=0.5, targets=targets)
        for name, rank, targets in (
            ("x", 4, ["c_attn"]),
            ("y", 2, ["c_attn"]),
            ("z", 4, ["c_attn", "c_fc"]),
        )
    }
    base = SharedBase(copy.deepcopy(model), settings, {"x": 0, "y": 1, "z": 2})
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in base.lm.named_parameters():
            if "lora_B" in name:
                weight.copy_(torch.randn(weight.shape, generator=noise))
    base.lm.eval()
    return base


@pytest.fixture
def noise() -> torch.Tensor:
    return uniforms(len(ROWS), seed=3)


def alone(base: SharedBase, name: str, noise: torch.Tensor, stops: set[int]) -> list[Response]:
    """What an adapter says by itself."""
    own = [row for row, of in enumerate(OF) if of == name]
    contexts = [TOKENS[row] for row in own]
    base.peft.set_adapter(name or "x")
    if not name:
        with base.reference("x"):
            return generate(base.lm, contexts, 8, PLAIN, noise[own], 0, stops)
    return generate(base.lm, contexts, 8, PLAIN, noise[own], 0, stops)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_row_says_what_its_adapter_says_alone(base, noise, recorded: bool) -> None:
    """Also where rows end early and are dropped; each adapter reads its own contexts once."""
    free = [response for name in "xyz" for response in alone(base, name, noise, set())[:2]]
    stops = {response.ids[3] for response in free}
    expected = {name: iter(alone(base, name, noise, stops)) for name in OF_ADAPTERS}
    sizes: list[tuple[int, ...]] = []
    note = lambda module, args, kwargs: sizes.append(tuple(kwargs["input_ids"].shape))  # noqa: E731
    handle = base.lm.base_model.register_forward_pre_hook(note, with_kwargs=True)
    base.peft.set_adapter("y")
    with base.routed(OF) as route:
        found = generate(base.lm, TOKENS, 8, PLAIN, noise, 0, stops, recorded, route)
    handle.remove()
    # three rows of x and of y, two of z and one of none
    assert sizes[:2] == [(9, 22), (11, 1)] and sizes[-1][0] < 6
    for name, response in zip(OF, found, strict=True):
        own = next(expected[name])
        assert response.ids == own.ids, name
        assert_close(response.sampler_logprobs, own.sampler_logprobs)
    again = alone(base, "y", noise, stops)  # the layers are as they were
    assert [r.ids for r in again] == [
        r.ids for name, r in zip(OF, found, strict=True) if name == "y"
    ]


def test_the_adapters_of_this_test_disagree(base: SharedBase, noise: torch.Tensor) -> None:
    """Else rows could be routed wrongly."""
    noise = noise[:1].expand(len(ROWS), -1)
    said = [alone(base, name, noise, set())[0].ids for name in ("x", "y", "")]
    assert len({*map(tuple, said)}) == 3


def test_in_mixed_precision_the_bits_are_those_of_the_adapter_alone(base, noise) -> None:
    rounded = copy.deepcopy(base)
    set_products(rounded.lm, torch.bfloat16)
    own = [row for row, of in enumerate(OF) if of == "y"]
    with rounded.routed([OF[row] for row in own]) as route:
        layer: Any = rounded.lm.transformer.h[0].attn.c_attn
        assert {factor.dtype for factor in layer.forward.args[1:3]} == {torch.bfloat16}
        contexts = [TOKENS[row] for row in own]
        found = generate(rounded.lm, contexts, 8, PLAIN, noise[own], 0, set(), False, route)
    assert found == alone(rounded, "y", noise, set())
