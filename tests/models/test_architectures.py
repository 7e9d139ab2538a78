"""Architectures: what is sampled and what is learnt has the log-probabilities of a plain pass.

Random models, 32 wide, of two layers, with windows of attention that are shorter than the contexts.
"""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from cory.config import ConfigError
from cory.functional import logprobs
from cory.functional.logprobs import pad_turns
from cory.models import bundle as bundle_module
from cory.models.actor_critic import ActorCriticModel, output_head, response_states
from cory.models.bundle import ModelBundle
from cory.models.generation import generate
from cory.models.loading import load_language_model
from cory.models.passes import states_read_once
from cory.models.policy import Policy
from tests.models.test_generation import PLAIN
from tests.support.building import plain_logprobs
from tests.support.chat_models import varied
from tests.support.close import assert_close
from tests.support.composing import ConfigOf

VOCABULARY, LIMIT, EOS = 64, 12, 2
SIZES = {
    **{"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64},
    **{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"head_dim": 8, "max_position_embeddings": 128, "pad_token_id": 0, "eos_token_id": EOS},
}
WINDOW = {"sliding_window": 8}
MIXED = {**WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
GPT = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
# kind -> its settings; those of a few models have other names
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "bloom": {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "cohere": {"logit_scale": 0.3},
    "cohere2": {**MIXED, "logit_scale": 0.3},
    "falcon": {"alibi": True, "new_decoder_architecture": False},
    "gemma2": {**MIXED, "final_logit_softcapping": 1.5},
    "gemma3_text": {**MIXED, "final_logit_softcapping": 1.5},
    "gemma4_text": {**MIXED, "global_head_dim": 16, "vocab_size_per_layer_input": VOCABULARY,
                    "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 0},
    "gpt2": GPT,
    "gpt_neo": {"num_layers": 2, "num_heads": 4, "window_size": 8,
                "attention_types": [[["global", "local"], 1]]},
    "gpt_neox": {},
    "gpt_oss": {**MIXED, "num_local_experts": 4, "num_experts_per_tok": 2},
    "granite": {"logits_scaling": 3.0},
    "mistral": WINDOW,
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 16},
    "qwen2": {**WINDOW, "use_sliding_window": True, "max_window_layers": 1},
    "qwen3": {},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
}  # fmt: skip
QUICK = ("gemma3_text", "gpt2", "mistral")
# what stands behind the output layer: a cap, or a scale
HEADS = ("cohere", "cohere2", "gemma2", "gemma3_text", "granite")
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    # positions that count padding
    "bart": ({"is_encoder_decoder": False, "d_model": 32, "decoder_layers": 2,
              "decoder_attention_heads": 4}, "a row depends on the padding around it"),
    "mamba": ({}, "cannot run this model"),
    "roberta": ({"is_decoder": True}, "a row depends on the padding around it"),
}  # fmt: skip


def random_model(kind: str, settings: dict[str, Any]) -> PreTrainedModel:
    known = AutoConfig.for_model(kind)
    sizes = {key: value for key, value in SIZES.items() if key in known.to_dict()}
    return varied(AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes | settings)))


def save(model: PreTrainedModel, folder: Path) -> str:
    words = {f"w{number}": number for number in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    named = {"pad_token": "w0", "bos_token": "w1", "eos_token": "w2"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named).save_pretrained(folder)
    model.save_pretrained(folder)
    return str(folder)


def contexts(beginning: int, *lengths: int) -> list[list[int]]:
    """Contexts of so many tokens behind a common beginning."""
    numbers = torch.Generator().manual_seed(3)
    first, *rest = (
        torch.randint(3, VOCABULARY, (n,), generator=numbers).tolist()
        for n in (beginning, *lengths)
    )
    return [[*first, *row] for row in rest]


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in ARCHITECTURES],
)
@torch.no_grad()
def test_samplers_and_trainers_passes_are_those_of_plain_ones(kind, config_of, tmp_path) -> None:
    model = random_model(kind, ARCHITECTURES[kind])
    config = config_of().model.replace(path=save(model, tmp_path))
    bundle = ModelBundle(config, torch.device("cpu"))
    (agent,) = bundle.new_models(["agent_0"], torch.Generator(), value_head=False)
    for rows in (contexts(18, 2, 11, 1, 5), contexts(0, 3, 25, 1, 12)):
        uniforms = torch.rand(4, LIMIT, dtype=torch.float64, generator=torch.manual_seed(1))
        for graphs in (False, kind != "gpt_neo"):  # see below
            said = generate(agent.lm, rows, LIMIT, PLAIN, uniforms, 0, {EOS}, graphs)
            turns = pad_turns(rows, [response.ids for response in said], 0)
            learnt = agent.eval()(*turns).logprobs
            told = [response.ids for response in said]
            once = states_read_once(agent.lm, [*rows, *rows], [*told, *told], 0)
            assert_close(once, response_states(agent.lm, *turns).repeat(2, 1), 2e-3)
            for row, response, found in zip(rows, said, learnt, strict=True):
                wanted = plain_logprobs(model, row, response.ids)
                off = torch.tensor(response.sampler_logprobs) - wanted
                assert off.abs().max() < 1e-5
                assert (found[: len(wanted)] - wanted).abs().max() < 1e-5


@pytest.mark.parametrize("slab", [None, 5 * 4 * VOCABULARY])  # backward passes again by five tokens
@pytest.mark.parametrize("kind", HEADS)
def test_logprobs_and_exact_kl_have_the_gradients_of_plain_passes(kind, slab, monkeypatch) -> None:
    if slab is not None:
        monkeypatch.setattr(logprobs, "SLAB_BYTES", slab)
    lm, rows = random_model(kind, ARCHITECTURES[kind]), contexts(0, 6, 9)
    reference = copy.deepcopy(lm)
    for number, parameter in enumerate(lm.parameters()):
        parameter.data += 0.03 * torch.randn(parameter.shape, generator=torch.manual_seed(number))
    turns = pad_turns([row[:4] for row in rows], [row[4:] for row in rows], 0)
    agent = ActorCriticModel("agent_0", lm)
    states = response_states(reference, *turns).detach()
    found, _, _, kl = agent(*turns, states, output_head(reference))
    (found.sum() + kl.square().sum()).backward()
    own = {name: weight.grad for name, weight in lm.named_parameters()}
    lm.zero_grad()
    for row, said, exact in zip(rows, found, kl, strict=True):
        ids = torch.tensor([row])
        logp, ref = (
            model(input_ids=ids, use_cache=False).logits[0, 3:-1].log_softmax(-1)
            for model in (lm, reference)
        )
        wanted = logp.gather(1, ids[0, 4:, None]).squeeze(1)
        divergence = (logp.exp() * (logp - ref.detach())).sum(-1)
        torch.testing.assert_close(said[: len(wanted)], wanted)
        torch.testing.assert_close(exact[: len(wanted)], divergence, rtol=1e-4, atol=1e-6)
        (wanted.sum() + divergence.square().sum()).backward()
    assert kl.max() > 1e-3
    for name, weight in lm.named_parameters():
        torch.testing.assert_close(own[name], weight.grad, rtol=1e-3, atol=1e-4)


def test_a_head_that_leaves_the_cap_out_is_refused(config_of, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(bundle_module, "output_head", lambda lm: lm.get_output_embeddings())
    path = save(random_model("gemma2", ARCHITECTURES["gemma2"]), tmp_path)
    with pytest.raises(ConfigError, match=r"^model\.path=.*\(gemma2\) are not what its forward"):
        _ = ModelBundle(config_of().model.replace(path=path), torch.device("cpu")).pretrained


@pytest.mark.parametrize("kind", REFUSED)
def test_what_no_pass_is_right_for_is_refused_in_a_line(kind: str, config_of, tmp_path) -> None:
    settings, reason = REFUSED[kind]
    path = save(random_model(kind, settings), tmp_path)
    with pytest.raises(ConfigError, match=rf"^model\.path={path}: [^\n]*{reason}[^\n]*$"):
        _ = ModelBundle(config_of().model.replace(path=path), torch.device("cpu")).pretrained


def test_a_model_whose_masks_count_the_unwritten_cache_is_not_recorded(config_of, tmp_path) -> None:
    path = save(random_model("gpt_neo", ARCHITECTURES["gpt_neo"]), tmp_path)
    config = config_of("hardware.cuda_graphs=true", f"model.path={path}")
    bundle = ModelBundle(config.model, torch.device("cpu"))
    (agent,) = bundle.new_models(["agent_0"], torch.Generator(), value_head=False)
    with pytest.raises(
        ConfigError, match=r"^hardware\.cuda_graphs=true: model\.path=.* in the passes of sampling"
    ):
        Policy(bundle, agent, None, config.hardware)
    assert not Policy(bundle, agent, None, config.hardware.replace(cuda_graphs=False)).recorded


@pytest.mark.parametrize(("kind", "able"), [("qwen2", True), ("gpt_neo", False)])
def test_on_cuda_passes_are_recorded_where_they_can_be(
    kind: str, able: bool, config_of: ConfigOf, tmp_path: Path, capsys
) -> None:
    path = save(random_model(kind, ARCHITECTURES[kind]), tmp_path)
    config = config_of(f"model.path={path}")
    bundle = ModelBundle(config.model, torch.device("cpu"))
    agents = list(bundle.new_models(["a", "b"], torch.Generator(), value_head=False))
    assert not Policy(bundle, agents[0], None, config.hardware).recorded
    bundle.device = torch.device("cuda")  # what is tried stays on the CPU
    assert [Policy(bundle, one, None, config.hardware).recorded for one in agents] == [able] * 2
    assert capsys.readouterr().err.count("passes are not recorded") == (not able)
    bundle.config = config.model.replace(rollout_dropout=True)
    assert not Policy(bundle, agents[0], None, config.hardware).recorded


@torch.no_grad()
def test_of_a_model_that_sees_images_the_language_model_is_taken(tmp_path: Path) -> None:
    text = AutoConfig.for_model("gemma3_text", **SIZES | MIXED).to_dict()
    sight = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
             "num_attention_heads": 2, "image_size": 28, "patch_size": 14}  # fmt: skip
    config = AutoConfig.for_model(
        "gemma3", text_config=text, vision_config=sight, mm_tokens_per_image=4
    )
    whole = varied(AutoModelForImageTextToText.from_config(config))
    whole.save_pretrained(tmp_path)
    model = load_language_model(str(tmp_path), "model.path", keep_dropout=False)
    ids = torch.arange(3, 23)[None]
    assert torch.equal(model(input_ids=ids).logits, whole(input_ids=ids).logits)
    assert not [name for name, _ in model.named_parameters() if "vision" in name]
