"""What a run will hold: arithmetic by hand, and what the libraries say of themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from cory.config import Config, batch_plan
from cory.memory import preflight
from cory.memory.architecture import base_bytes, shape_of
from cory.memory.estimate import (
    ALWAYS,
    BACKWARD,
    FORWARD,
    LOADING,
    REDUCE_ELEMENTS,
    SAMPLING,
    SCORING,
    STEP,
    Usage,
    peak,
    total,
)
from cory.models.engine import deepspeed_settings
from cory.models.loading import load_language_model, nf4, skeleton
from cory.models.lora import adapted_layers
from tests.support.composing import parsed
from tests.support.short_prompts import short_prompts

# GPT-2 with 2 layers of width 8, vocabulary 100, 64 positions
EMBEDDINGS = 100 * 8 + 64 * 8
LAYER_MATRICES = [(8, 24), (8, 8), (8, 32), (32, 8)]
LAYER = 2 * 16 + sum(i * o + o for i, o in LAYER_MATRICES)
MODEL = EMBEDDINGS + 2 * LAYER + 16  # 3,072
COPY = MODEL + 8 + 1  # with its value head
MATRICES = 2 * (192 + 64 + 256 + 256)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that holds config.json alone."""
    GPT2Config(vocab_size=100, n_positions=64, n_embd=8, n_layer=2, n_head=2).save_pretrained(
        tmp_path / "model"
    )
    return tmp_path / "model"


@pytest.fixture
def rows(folder: Path) -> Callable[..., dict[tuple[str, str], int]]:
    """Bytes by name and phase, for CORY with short prompts and the given settings."""

    def call(*words: str) -> dict[tuple[str, str], int]:
        found = preflight.rows_of(small(folder, *words))[0]
        sizes = {(row.what, row.when): row.bytes for row in found}
        assert len(sizes) == len(found)
        return sizes

    return call


def small(folder: Path, *words: str) -> Config:
    return short_prompts(f"model.path={folder}", *words)


def test_copies_by_hand(rows: Callable[..., dict[tuple[str, str], int]]) -> None:
    found = rows()
    assert MODEL == 3072
    assert found["reference", ALWAYS] == 4 * MODEL
    assert found["weights that train", ALWAYS] == 2 * 4 * COPY
    assert found["Adam's two moments", ALWAYS] == 2 * 8 * COPY
    assert ("float32 copy of the weights", ALWAYS) not in found
    # one agent updates at a time
    assert found["gradients", BACKWARD] == 4 * COPY
    assert found["copy of the gradients to exchange", BACKWARD] == 4 * COPY
    assert found["AdamW's intermediate results", STEP] == 8 * 800  # the embeddings are largest
    # when the second copy is made, the first has all that it ever holds
    loaded = found["copies so far, or the checkpoint's file", LOADING]
    assert loaded == (4 + 8) * COPY + 4 * COPY


def test_without_gae_no_value_head_is_held(
    rows: Callable[..., dict[tuple[str, str], int]],
) -> None:
    group = ("advantages=group", "algorithm.samples_per_prompt=2")
    found = rows(*group)
    assert found["weights that train", ALWAYS] == 2 * 4 * MODEL
    assert found["Adam's two moments", ALWAYS] == 2 * 8 * MODEL
    assert found["gradients", BACKWARD] == 4 * MODEL
    # all else is as with one response to each prompt: responses are what is counted
    other = rows("algorithm.samples_per_prompt=2")
    assert found.keys() == other.keys() and other == rows()
    assert {key: size for key, size in found.items() if key[1] in (SAMPLING, SCORING)} == {
        key: size for key, size in other.items() if key[1] in (SAMPLING, SCORING)
    }
    adapters = ("model.sharing=adapters", "model.adapter.rank=4", "algorithm.agents=5", *group)
    assert rows(*adapters)["weights that train", ALWAYS] == 5 * 4 * 2 * 4 * (8 + 24)


def test_half_precision_by_hand(rows: Callable[..., dict[tuple[str, str], int]]) -> None:
    found = rows("model.precision=bf16")
    assert found["reference", ALWAYS] == 2 * MODEL
    assert found["weights that train", ALWAYS] == 2 * 2 * COPY
    assert found["float32 copy of the weights", ALWAYS] == 2 * 4 * COPY
    assert found["Adam's two moments", ALWAYS] == 2 * 8 * COPY
    assert found["gradients", STEP] + found["gradients in float32", STEP] == (2 + 4) * COPY


def test_stages_split_what_they_say(rows: Callable[..., dict[tuple[str, str], int]]) -> None:
    part = -(-COPY // 2)
    two = ("algorithm=ppo", "hardware.processes=2")
    one, second, third = (rows(*two, f"hardware.zero_stage={stage}") for stage in (1, 2, 3))
    for found in (one, second, third):
        assert found["float32 copy of the weights", ALWAYS] == 4 * part
        assert found["Adam's two moments", ALWAYS] == 8 * part
        assert found["gradients in float32", STEP] == 4 * part
        assert found["AdamW's intermediate results", STEP] == 8 * part
        assert found["reference", ALWAYS] == 4 * MODEL  # never split
    assert one["weights that train", ALWAYS] == second["weights that train", ALWAYS] == 4 * COPY
    assert one["gradients", BACKWARD] == 4 * COPY
    assert second["gradients, a share", BACKWARD] == 4 * part
    assert third["weights that train, a share", ALWAYS] == 4 * part
    assert third["gradients, a share", ALWAYS] == 4 * part
    assert third["weights put together", SAMPLING] == 4 * COPY
    assert third["weights put together", SCORING] == 4 * COPY
    assert third["weights put together", FORWARD] == 4 * 2 * COPY


def test_gradients_wait_between_microbatches(
    rows: Callable[..., dict[tuple[str, str], int]],
) -> None:
    found = rows("hardware.microbatch_size=2")
    assert found["gradients of earlier microbatches", FORWARD] == 4 * COPY
    assert ("gradients of earlier microbatches", FORWARD) not in rows()


def test_adapters_by_hand(rows: Callable[..., dict[tuple[str, str], int]]) -> None:
    # PEFT's choice for GPT-2 is c_attn: (4, 8) and (24, 4) in each of two layers
    own = 2 * 4 * (8 + 24) + 8 + 1
    words = ("model.sharing=adapters", "model.adapter.rank=4", "algorithm.agents=5")
    found = rows(*words)
    assert found["base of all agents, frozen", ALWAYS] == 4 * MODEL
    assert found["weights that train", ALWAYS] == 5 * 4 * own
    assert found["Adam's two moments", ALWAYS] == 5 * 8 * own
    assert found["gradients", BACKWARD] == 4 * own
    assert ("reference", ALWAYS) not in found
    split = rows(*words, "hardware.zero_stage=3", "hardware.processes=2")
    assert split["base of all agents, frozen", ALWAYS] == 2 * MODEL
    assert split["weights put together", SAMPLING] == 4 * (MODEL + own)
    apart = rows(*words, "model.sharing=adapter_copies")
    assert apart["bases, frozen", ALWAYS] == 5 * 4 * MODEL
    assert apart["weights that train", ALWAYS] == found["weights that train", ALWAYS]


@pytest.mark.parametrize("double", [False, True])
def test_four_bits_by_hand(rows: Callable[..., dict[tuple[str, str], int]], double: bool) -> None:
    words = ("model.sharing=adapters", "model.quantisation=nf4", "model.precision=bf16")
    found = rows(*words, f"model.double_quantisation={double}")
    scales = 2 * (3 + 1 + 4 + 4)  # one per 64 weights
    # a byte each and a float for up to 256 of them in each of 8 layers, or a float each
    kept = scales + 8 * 4 if double else 4 * scales
    packed = MATRICES // 2 + kept + 2 * (MODEL - MATRICES)
    assert found["base of all agents, frozen", ALWAYS] == packed
    assert found["one layer unpacked from 4 bits", SAMPLING] == 2 * 256


def test_four_bits_are_what_the_library_holds(tmp_path: Path) -> None:
    sizes = GPT2Config(vocab_size=100, n_positions=64, n_embd=128, n_layer=2, n_head=2)
    GPT2LMHeadModel(sizes).save_pretrained(tmp_path)
    config = small(tmp_path, "model.sharing=adapters", "model.quantisation=nf4")
    lm = load_language_model(
        str(tmp_path),
        "model.path",
        False,
        torch.float32,
        nf4(True, torch.float32, torch.float32),
        torch.device("cpu"),
    )
    held = sum(p.numel() * p.element_size() for p in lm.parameters())
    for p in lm.parameters():
        state = getattr(p, "quant_state", None)
        if state is not None:
            scales = state.absmax, state.state2.absmax
            held += sum(t.numel() * t.element_size() for t in scales)
    shape = shape_of(skeleton(str(tmp_path), "model.path", None))
    assert base_bytes(shape, config.model) == held


def test_what_passes_through(rows: Callable[..., dict[tuple[str, str], int]]) -> None:
    # 8 rows; the observer sees query, answer and query again, and ": ": 4 + 4 + 6 + 0, then 6 more
    found = rows()
    cache_per_token = 2 * 2 * 8
    assert found["KV cache", SAMPLING] == 4 * 8 * 20 * (cache_per_token + 8)
    assert found["slabs of logits, policy and reference", SCORING] == 8 * 6 * 100 * 6 * 4
    assert found["slab of logits", FORWARD] == 8 * 6 * 100 * 3 * 4
    # in and out of every matrix, two norms, and three more of the MLP's width (gelu_new)
    saved = 2 * (sum(i + o for i, o in LAYER_MATRICES) + 2 * 8 + 3 * 32)
    assert found["activations", FORWARD] == 4 * 8 * 20 * saved
    adapted = rows("model.sharing=adapters")["activations", FORWARD]
    assert adapted == 4 * 8 * 20 * (saved - 2 * (8 + 8 + 32))  # c_attn trains, the others do not
    less = rows("hardware.gradient_checkpointing=true")
    assert less["activations", FORWARD] == 4 * 8 * 20 * (2 * 8 + saved // 2)


@pytest.mark.slow
def test_mixed_precision_by_hand(rows: Callable[..., dict[tuple[str, str], int]]) -> None:
    exact, mixed = rows(), rows("model.compute_precision=bf16")
    assert mixed["weights that train", ALWAYS] == exact["weights that train", ALWAYS]
    assert mixed["KV cache", SAMPLING] == exact["KV cache", SAMPLING] // 2
    casts = {when for what, when in mixed if what == "weights cast for products"}
    assert casts == {SAMPLING, SCORING, FORWARD, BACKWARD}
    assert mixed["weights cast for products", FORWARD] == 2 * MATRICES
    # 2 layers of 2 heads, 8 rows of 20 tokens; a float and its rounded copy
    assert mixed["attention weights", FORWARD] == 6 * 2 * 2 * 8 * 20 * 20
    assert ("attention weights", FORWARD) not in exact
    sdpa = rows("model.compute_precision=bf16", "model.attention=sdpa")
    assert ("attention weights", FORWARD) not in sdpa
    less = rows("model.attention=eager", "hardware.gradient_checkpointing=true")
    assert less["attention weights", FORWARD] == 8 * 2 * 8 * 20 * 20  # of one layer, twice a float
    # what never trains is kept in bfloat16, once copies are made of it
    assert mixed["reference", LOADING] == exact["reference", LOADING] == 4 * MODEL
    assert mixed["reference", ALWAYS] == 4 * MODEL - 2 * MATRICES
    frozen = rows("model.compute_precision=bf16", "model.sharing=adapters")
    assert "weights cast for products" not in {what for what, _ in frozen}
    assert frozen["base of all agents, frozen", ALWAYS] == 4 * MODEL - 2 * MATRICES
    split = rows("model.compute_precision=bf16", "model.sharing=adapters", "hardware.zero_stage=3")
    assert {w for what, w in split if what == "weights cast for products"} == {FORWARD, BACKWARD}
    assert split["base of all agents, frozen", ALWAYS] == 4 * MODEL


def test_tf32_takes_no_memory(rows: Callable[..., dict[tuple[str, str], int]]) -> None:
    """It is what CUDA makes of float32 numbers inside a product: nothing is cast."""
    gpu = "hardware=gpu1"
    both = ("model.compute_precision=tf32", "reward.compute_precision=tf32")
    assert rows(gpu, *both) == rows(gpu)


@pytest.mark.slow
def test_an_evaluation_takes_what_its_longest_turn_and_its_batches_take(
    rows: Callable[..., dict[tuple[str, str], int]],
) -> None:
    each = 4 * (2 * 2 * 8 + 8)  # bytes of a token, as above
    alone, team = 4 + 6, 20  # query and response; the observer's as in training

    def cache(*words: str) -> int:
        return rows("hardware.rollout_batch_size=40", *words)["KV cache", SAMPLING]

    assert cache("evaluation.samples=4") == 32 * alone * each
    assert cache("evaluation.samples=4", "evaluation.team=true") == 32 * team * each
    assert cache("evaluation.samples=9") == 40 * alone * each  # as many as a batch holds
    assert cache("evaluation.prompts=null") == 40 * alone * each
    own = "hardware.generation_batch_size=20"
    assert cache("evaluation.samples=9", own) == cache("evaluation.prompts=null", own)
    assert cache("evaluation.prompts=null", own) == 20 * alone * each
    few = ("evaluation.prompts=1", "hardware.generation_batch_size=3")
    assert cache(*few) == 3 * team * each  # the observer's turns in training


def test_logits_of_scoring_are_bounded(rows: Callable[..., dict[tuple[str, str], int]]) -> None:
    words = ("algorithm.sampling.max_response_tokens=40", "algorithm.prompts_per_iteration=2048")
    words += ("algorithm.minibatch_size=2048", "hardware.rollout_batch_size=100000")
    many = rows(*words)["slabs of logits, policy and reference", SCORING]
    # 2048 x 40 x 100 logits are 31 MiB: under the bound of a slab
    assert many == 2048 * 40 * 100 * 24
    more = [word.replace("2048", "65536") for word in words]
    bounded = rows(*more)["slabs of logits, policy and reference", SCORING]
    assert bounded <= 6 * 256 * 2**20 < 65536 * 40 * 100 * 24


def test_offloading_moves_to_main_memory(folder: Path) -> None:
    config = small(folder, "hardware=gpu8_zero3_offload")
    found, _ = preflight.rows_of(config)
    away = {row.what for row in found if row.offloaded}
    assert {"Adam's two moments", "float32 copy of the weights"} <= away
    assert "weights that train, a share" in away
    on_cpu, _ = preflight.rows_of(replace(config, hardware=replace(config.hardware, device="cpu")))
    assert not any(row.offloaded for row in on_cpu)


@pytest.mark.slow
def test_copies_are_split_one_after_the_other(folder: Path) -> None:
    """On each of eight GPUs: the reference, a whole copy, and what was split before it."""
    words = ("hardware=gpu8_zero3_offload", "model.precision=bf16", "hardware.keep_whole_below=0")

    def loading(agents: int) -> int:
        config = small(folder, *words, "algorithm=cory", f"algorithm.agents={agents}")
        return total(preflight.rows_of(config)[0], LOADING)

    buffer = 2 * 50_000_000  # of gradients; all else is offloaded
    assert loading(2) == 2 * (MODEL + COPY) + buffer
    assert loading(6) == 2 * (MODEL + COPY) + 5 * buffer


@pytest.mark.slow
@pytest.mark.parametrize("stage", [0, 3])
def test_agents_that_share_an_engine_by_hand(folder: Path, stage: int) -> None:
    """One holds all that a training needs, each a copy: in float32 if it is trained again."""
    words = (
        "experiment=maft/phi3_arithmetic_maft",
        f"model.path={folder}",
        "model.chat=false",
        "model.architecture=null",
        "algorithm.summary=false",
        "hardware=cpu",
        f"hardware.zero_stage={stage}",
        "hardware.keep_whole_below=0",
    )

    def found(*more: str) -> dict[tuple[str, str], int]:
        rows, _ = preflight.rows_of(parsed(*words, *more))
        return {(row.what, row.when): row.bytes for row in rows}

    once, twice = found(), found("algorithm.iterations=2")
    weights = "weights that train" if stage == 0 else "weights that train, a share"
    assert once[weights, ALWAYS] == 2 * MODEL  # without a value head, as no method but PPO has one
    assert once["float32 copy of the weights", ALWAYS] == 4 * MODEL
    assert once["Adam's two moments", ALWAYS] == 8 * MODEL
    assert once["weights of all policies", ALWAYS] == 6 * 2 * MODEL
    assert twice["weights of all policies", ALWAYS] == 6 * 4 * MODEL
    again = found("algorithm.iterations=2", "algorithm.start=base")
    assert again["weights of all policies", ALWAYS] == 6 * 2 * MODEL
    # the last copy is made when the engine and five others are there
    loaded = once["copies so far, or the checkpoint's file", LOADING]
    held = sum(
        size for (what, when), size in once.items() if when == ALWAYS and what != "reference"
    )
    assert loaded == held
    single = found("algorithm.policies=single")
    assert ("weights of all policies", ALWAYS) not in single
    adapters = found("model.sharing=adapters", "model.adapter.targets=[c_attn]")
    assert ("weights of all policies", ALWAYS) not in adapters


def test_weights_of_agents_that_share_an_engine_are_in_main_memory(folder: Path) -> None:
    config = parsed("experiment=maft/phi3_arithmetic_maft")
    rows, _ = preflight.rows_of(config)
    (stored,) = [row for row in rows if row.what == "weights of all policies"]
    assert stored.offloaded and stored.bytes == pytest.approx(6 * 2 * 3.821e9 / 8, rel=1e-3)


def test_peak_is_the_largest_phase() -> None:
    found = [
        Usage("a", 10, ALWAYS),
        Usage("b", 5, SAMPLING),
        Usage("c", 3, STEP),
        Usage("d", 3, STEP),
    ]
    assert peak(found) == (STEP, 16)
    assert peak([*found, Usage("e", 17, LOADING)]) == (LOADING, 17)
    assert total(found, ALWAYS) == 10


def test_buffers_are_as_the_engine_asks() -> None:
    for stage in (1, 2, 3):
        hardware = parsed("hardware=cpu", f"hardware.zero_stage={stage}").hardware
        zero = deepspeed_settings(hardware, batch_plan(8, 8, 8, 8, 1), "fp32", None)
        size = zero["zero_optimization"]["reduce_bucket_size"]
        assert size == REDUCE_ELEMENTS


def test_architecture_stands_in_for_config_json() -> None:
    config = parsed("experiment=cory/gsm8k_cory").model
    lm = skeleton(config.path, "model.path", config.described)
    shape = shape_of(lm)
    assert shape.parameters == 6_738_415_616
    assert shape.cache == 2 * 32 * 4096
    assert adapted_layers(lm, None) == ["q_proj", "v_proj"]


def test_grouped_keys_make_a_smaller_cache() -> None:
    sizes = {"num_attention_heads": 8, "num_key_value_heads": 2, "num_hidden_layers": 3}
    architecture = {"model_type": "llama", "hidden_size": 64, "vocab_size": 50, **sizes}
    assert shape_of(skeleton("no/where", "model.path", architecture)).cache == 2 * 3 * 16


def test_moments_in_eight_bits_by_hand(folder: Path) -> None:
    config = small(folder)
    algorithm = replace(config.algorithm, optimizer="adamw_8bit")
    config = replace(config, algorithm=algorithm)

    def moments(**hardware: object) -> int:
        changed = replace(config.hardware, **hardware)  # type: ignore[arg-type]  # by name
        rows = preflight.rows_of(replace(config, hardware=changed))[0]
        assert "AdamW's intermediate results" not in {row.what for row in rows}
        (held,) = (row.bytes for row in rows if row.what == "Adam's two moments")
        return held

    # every weight of this model has fewer than 4,096 elements; they add up to fewer, too
    assert moments() == moments(zero_stage=1) == 2 * 8 * COPY
    wide = {"n_embd": 64, "n_layer": 1, "n_head": 2, "vocab_size": 100, "n_positions": 64}
    GPT2Config(**wide).save_pretrained(folder)
    large = [6400, 4096, 64 * 192, 64 * 64, 64 * 256, 256 * 64]
    small_ones = 64 * 4 + 64 * 2 + 192 + 64 + 256 + 64 + 64 + 1
    scales = sum(-(-size // 256) for size in large)
    assert moments() == 2 * (2 * sum(large) + 8 * scales + 8 * small_ones)
    # one flat tensor, of which a process has its share
    share = -(-(sum(large) + small_ones) // 2)
    split = moments(zero_stage=2, processes=2)
    assert split == 2 * (2 * share + 8 * -(-share // 256))


@pytest.mark.slow
def test_word_games_hold_the_reference_where_it_plays_and_one_opponent_at_a_time(
    folder: Path,
) -> None:
    def rows(*words: str) -> dict[tuple[str, str], int]:
        config = parsed(
            *("experiment=spag/llama2_spag_1", "init_from=null", "hardware=cpu"),
            *(f"model.path={folder}", "model.precision=fp32", "model.architecture=null"),
            *("task.max_prompt_tokens=16", "algorithm.opponents.im=null"),
            *(
                "algorithm.sampling.min_response_tokens=8",
                "algorithm.sampling.max_response_tokens=8",
            ),
            *("algorithm.instructions.max_tokens=24", *words),
        )
        return {(row.what, row.when): row.bytes for row in preflight.rows_of(config)[0]}

    alone = rows()
    assert ("reference", ALWAYS) not in alone and alone["reference", LOADING] == 4 * MODEL
    assert ("the opponent that plays", SAMPLING) not in alone
    assert rows("algorithm.opponents.start=start")["reference", ALWAYS] == 4 * MODEL
    many = rows("algorithm.opponents.im=a/run", "+algorithm.opponents.spag_1=another/run")
    assert many["the opponent that plays", SAMPLING] == 4 * MODEL
    assert not [what for what, when in many if what.startswith("opponents")]
