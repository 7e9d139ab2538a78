"""What a run needs: arithmetic by hand, and what torch and the libraries really hold."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from cory import memory
from cory.config import Config
from cory.memory import (
    ALWAYS,
    LOADING,
    PASSES,
    SAMPLING,
    SCORING,
    STEP,
    Part,
    Shape,
    check,
    frozen_bytes,
    held,
    parts_of,
    peak,
)
from cory.models.bundle import load_frozen
from cory.models.loading import skeleton
from tests.support.building import SMALL, LetterShare, build
from tests.support.composing import ConfigOf, parsed
from tests.support.refusals import refusal

# GPT-2 with 2 layers of width 8, vocabulary 100, 64 positions
LAYER_MATRICES = [(8, 24), (8, 8), (8, 32), (32, 8)]
LAYER = 2 * 16 + sum(i * o + o for i, o in LAYER_MATRICES)
MODEL = 100 * 8 + 64 * 8 + 2 * LAYER + 16  # 3,072
COPY = MODEL + 8 + 1  # with its value head
Sizes = Callable[..., dict[tuple[str, tuple[str, ...]], int]]


@pytest.fixture
def sizes(described: Path) -> Sizes:
    """Bytes by name and phases, for CORY with short prompts and the given settings."""

    def call(*words: str) -> dict[tuple[str, tuple[str, ...]], int]:
        parts = parts_of(small(described, *words))
        found = {(part.what, part.when): part.bytes for part in parts}
        assert len(found) == len(parts)
        return found

    return call


def small(folder: Path, *words: str) -> Config:
    """CORY with prompts of 4 tokens and responses of 6, to reckon with by hand."""
    return parsed(*SMALL, f"model.path={folder}", *words)


def test_copies_by_hand(sizes: Sizes) -> None:
    found = sizes()
    assert found["reference", ALWAYS] == 4 * MODEL == 4 * 3072
    assert found["gradients", (PASSES, STEP)] == 4 * COPY  # one agent updates at a time
    assert found["buffers of the update", (STEP,)] == 4 * COPY
    assert found["AdamW's intermediate results", (STEP,)] == 4 * COPY
    # without GAE no value head is held
    group = sizes("advantages=group", "algorithm.samples_per_prompt=2")
    assert ("KV cache", (SAMPLING, SCORING)) in group  # of the prompts that are read once
    assert group["weights that train", ALWAYS] == 2 * 4 * MODEL


def test_stages_split_what_they_say(sizes: Sizes) -> None:
    part = -(-COPY // 2)
    two = ("algorithm=ppo", "hardware.processes=2")
    one, second, third = (sizes(*two, f"hardware.zero_stage={stage}") for stage in (1, 2, 3))
    for found in (one, second, third):
        assert found["float32 copy of the weights", ALWAYS] == 4 * part
        assert found["Adam's two moments", ALWAYS] == 8 * part
        assert found["gradients in float32", (STEP,)] == 4 * part
        assert found["AdamW's intermediate results", (STEP,)] == 4 * part
        assert found["buffers of the update", (STEP,)] == 4 * COPY
        assert found["reference", ALWAYS] == 4 * MODEL  # never split
    assert one["weights that train", ALWAYS] == second["weights that train", ALWAYS] == 4 * COPY
    assert one["gradients", (PASSES, STEP)] == 4 * COPY
    assert second["gradients", (PASSES, STEP)] == 4 * part
    assert third["weights that train", ALWAYS] == 4 * part
    assert third["gradients", ALWAYS] == 4 * part
    assert third["weights put together", (SAMPLING, SCORING)] == 4 * COPY
    assert third["weights put together", (PASSES,)] == 4 * COPY


def test_adapters_by_hand(sizes: Sizes) -> None:
    # PEFT's choice for GPT-2 is c_attn: (4, 8) and (24, 4) in each of two layers
    own = 2 * 4 * (8 + 24) + 8 + 1
    words = ("model.sharing=adapters", "model.adapter.rank=4", "algorithm.agents=5")
    found = sizes(*words)
    assert found["base, frozen", ALWAYS] == 4 * MODEL
    assert found["weights that train", ALWAYS] == 5 * 4 * own
    assert ("reference", ALWAYS) not in found
    split = sizes(*words, "hardware.zero_stage=3", "hardware.processes=2")
    assert split["base, frozen", ALWAYS] == 2 * MODEL
    assert split["weights put together", (SAMPLING, SCORING)] == 4 * (MODEL + own)


@pytest.mark.parametrize("double", [True, False])
def test_four_bits_are_what_the_library_holds(tmp_path: Path, double: bool) -> None:
    wide = GPT2Config(vocab_size=100, n_positions=64, n_embd=128, n_layer=2, n_head=2)
    GPT2LMHeadModel(wide).save_pretrained(tmp_path)
    words = ("model.sharing=adapters", "model.quantisation=nf4")
    config = small(tmp_path, *words, f"model.double_quantisation={double}")
    lm = load_frozen(config.model, str(tmp_path), "model.path", torch.device("cpu"))
    bytes_held = sum(p.numel() * p.element_size() for p in lm.parameters())
    for p in lm.parameters():
        state = getattr(p, "quant_state", None)
        if state is not None:
            scales = [state.absmax, *([state.state2.absmax] if double else [])]
            bytes_held += sum(t.numel() * t.element_size() for t in scales)
    shape = Shape(skeleton(str(tmp_path), "model.path", None))
    assert frozen_bytes(shape, config.model) == bytes_held


@pytest.mark.parametrize("sharing", ["copies", "adapters"])
@pytest.mark.parametrize("stage", [0, 2, 3])
def test_torch_holds_what_is_estimated(config_of: ConfigOf, sharing: str, stage: int) -> None:
    """Weights, gradients and moments of two agents of the tiny model that have made an update."""
    config = config_of(f"model.sharing={sharing}", f"hardware.zero_stage={stage}")
    sizes = {part.what: part.bytes for part in parts_of(config)}
    torch.manual_seed(0)
    trainer = build(config, reward=LetterShare())
    trainer.step(0)
    engines = [policy.engine for policy in trainer.agents.values()]
    weights = [weight for engine in engines for weight in engine.trainable.values()]
    elements = sum(getattr(weight, "ds_numel", weight.numel()) for weight in weights)
    assert sizes["weights that train"] == 4 * elements
    assert sizes["gradients"] == 4 * elements // (1 if stage == 3 else 2)  # one updates at a time
    # DeepSpeed fills the tensor of stage 1 or 2 up to a multiple of four elements
    padding = sum(map(bytes_of_moments, engines)) - sizes["Adam's two moments"]
    assert 0 <= padding < 8 * 4 * len(engines) and (padding == 0 or stage == 2)
    assert sizes.get("float32 copy of the weights", 0) == (4 * elements if stage else 0)


def bytes_of_moments(engine: object) -> int:
    """Of AdamW, which DeepSpeed's optimiser of stages 1 to 3 wraps."""
    optimiser = engine._optimizer  # type: ignore[attr-defined]
    state = getattr(optimiser, "optimizer", optimiser).state
    names = ("exp_avg", "exp_avg_sq")
    return sum(4 * one[name].numel() for one in state.values() for name in names)


def test_what_passes_through(sizes: Sizes) -> None:
    # 8 rows; the observer sees query, answer and query again, and ": ": 4 + 4 + 6 + 0, then 6 more
    found = sizes()
    cache_per_token = 2 * 2 * 8
    assert found["KV cache", (SAMPLING,)] == 4 * 8 * 20 * (cache_per_token + 8)
    assert found["logits", (SAMPLING,)] == 23 * 8 * 100  # of one token for each row
    assert found["logits", (SCORING,)] == 8 * 6 * 100 * 6 * 4
    assert found["activations of a layer", (SCORING,)] == 4 * 8 * 20 * (3 * 32 + 4 * 8)
    assert found["logits", (PASSES,)] == 8 * 6 * 100 * 14
    # in and out of every matrix, two norms, and three more of the MLP's width (gelu_new)
    saved = 2 * (sum(i + o for i, o in LAYER_MATRICES) + 2 * 8 + 3 * 32)
    assert found["activations", (PASSES,)] == 4 * 8 * 20 * saved
    adapted = sizes("model.sharing=adapters")["activations", (PASSES,)]
    assert adapted == 4 * 8 * 20 * (saved - 2 * (8 + 8 + 32))  # c_attn trains, the others do not
    less = sizes("hardware.gradient_checkpointing=true")
    assert less["activations", (PASSES,)] == 4 * 8 * 20 * (2 * 8 + saved // 2)
    twice = sizes("algorithm.critic=central")["activations", (PASSES,)]  # in passes of their own
    assert twice == 2 * found["activations", (PASSES,)]
    alone = sizes("algorithm.critic=central", "model.value_detached=true")
    assert alone["activations", (PASSES,)] == found["activations", (PASSES,)]
    eager = sizes("model.attention=eager")["activations", (PASSES,)]
    assert eager - found["activations", (PASSES,)] == 2 * 4 * 8 * 2 * 2 * 20 * 20  # 2 layers, heads


def test_offloading_moves_to_main_memory(described: Path) -> None:
    config = small(described, "hardware=gpu8_zero3_offload")
    away = {part.what: part.bytes for part in parts_of(config) if part.beside}
    share = -(-COPY // 8)
    assert away["weights that train"] == away["float32 copy of the weights"] == 2 * 4 * share
    assert away["Adam's two moments"] == 2 * 8 * share
    assert away["gradients in float32"] == away["gradients"] == 2 * 4 * share
    on_cpu = config.replace(hardware=config.hardware.replace(device="cpu"))
    assert not any(part.beside for part in parts_of(on_cpu))


def test_the_peak_is_the_largest_phase() -> None:
    parts = [Part("a", 10), Part("b", 5, (SAMPLING,)), Part("c", 3, (PASSES, STEP))]
    parts += [Part("d", 3, (STEP,)), Part("e", 99, beside=True)]
    assert peak(parts) == (STEP, 16) and held(parts) == 10
    assert peak([*parts, Part("f", 17, (LOADING,))]) == (LOADING, 17)
    assert peak(parts, beside=True)[1] == 99


def test_a_run_that_cannot_fit_is_refused_and_one_that_hardly_will_is_warned_of(
    described: Path, monkeypatch
) -> None:
    config = small(described)
    parts = parts_of(config)
    always, (_, most) = held(parts), peak(parts)
    monkeypatch.setattr(memory, "main_memory", lambda: 2 * most)
    assert check(config) == "memory: about 0.00 GiB per process at most"
    monkeypatch.setattr(memory, "main_memory", lambda: most)  # above 90 %
    assert check(config).startswith("warning: memory: about ") and "may end" in check(config)
    monkeypatch.setattr(memory, "main_memory", lambda: always)
    check(config)
    monkeypatch.setattr(memory, "main_memory", lambda: always - 1)
    said = refusal(lambda: check(config))
    assert said.startswith(f"model={described.name} with hardware=cpu needs ")
