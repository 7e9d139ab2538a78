"""Models from elsewhere: nothing that they hold is run, and a line says so; one is unpacked."""

import ast
import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import cory
from cory.config import ConfigError
from cory.models.loading import (
    load_classifier,
    load_encoder,
    load_language_model,
    load_plain,
    load_tokenizer,
    longest_text,
    skeleton,
)
from cory.models.lora import load_adapter
from scripts.unpack_smollm2 import unpack
from tests.support.close import assert_close
from tests.support.fixtures import END, make_tokenizer

ROOT = Path(cory.__file__).resolve().parent
LOADERS = {"from_pretrained", "from_config"}
# take a model that is there, or are one class that is installed; the last is TRL's, in a script
ONE_CLASS = {"PeftModel", "LlamaForCausalLM", "AutoModelForCausalLMWithValueHead"}


class Payload:
    """Makes a folder where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A path that only code which must not run would make."""
    return tmp_path / "ran"


def refused(mark: Path, *said: object) -> pytest.RaisesExc[ConfigError]:
    """Refused in one line that holds these words, with nothing run."""

    def right(error: ConfigError) -> bool:
        assert "\n" not in str(error) and not mark.exists()
        assert all(str(word) in str(error) for word in said), str(error)
        return True

    return pytest.RaisesExc(ConfigError, check=right)


def test_pickled_weights_with_code_are_refused(tiny_model: str, tmp_path: Path, mark: Path) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    pickled = folder / "pytorch_model.bin"
    torch.save(weights, pickled)
    load_plain(pickled)
    torch.save({**weights, "more": Payload(mark)}, pickled)
    with refused(mark, pickled, "cannot be read: Weights only load failed"):
        load_plain(pickled)
    with refused(mark, f"model.path={folder}: ", "cannot be loaded: Weights only load failed"):
        load_language_model(str(folder), "model.path", False)
    torch.load(pickled, weights_only=False)
    assert mark.exists()  # the payload does what it is for


def test_an_adapter_in_a_pickle_is_refused(tiny_model: str, tmp_path: Path, mark: Path) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    described = {"peft_type": "LORA", "r": 2, "target_modules": ["c_attn"]}
    (folder / "adapter_config.json").write_text(json.dumps(described))
    torch.save({"x": Payload(mark)}, folder / "adapter_model.bin")
    lm = load_language_model(tiny_model, "model.path", False)
    with refused(mark, folder / "adapter_model.safetensors", "cannot be read: "):
        load_adapter(lm, folder)
    for other in ({"megatron_config": {}, "megatron_core": "antigravity"}, {"peft_type": "IA3"}):
        (folder / "adapter_config.json").write_text(json.dumps(described | other))
        with refused(mark, folder / "adapter_config.json", "describes no LoRA adapter"):
            load_adapter(lm, folder)
    assert "antigravity" not in sys.modules


def with_code(folder: str, copy: Path, mark: Path, auto_class: str) -> str:
    """A copy of a model's folder that brings a class and a tokenizer of its own."""
    shutil.copytree(folder, copy)
    described = json.loads((copy / "config.json").read_text())
    described["model_type"] = "made_up"
    described["auto_map"] = {"AutoConfig": "own.Config", auto_class: "own.Model"}
    (copy / "config.json").write_text(json.dumps(described))
    described = json.loads((copy / "tokenizer_config.json").read_text())
    described["tokenizer_class"] = "Own"
    described["auto_map"] = {"AutoTokenizer": ["own.Own", None]}
    (copy / "tokenizer_config.json").write_text(json.dumps(described))
    (copy / "own.py").write_text(f"from pathlib import Path\nPath({str(mark)!r}).touch()\n")
    return str(copy)


def test_a_checkpoints_own_python_is_neither_run_nor_asked_for(
    tiny_model: str, tiny_judge: str, tmp_path: Path, mark: Path, monkeypatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda *_: mark.touch() or "y")  # it may not ask
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 100))
    model = with_code(tiny_model, tmp_path / "model", mark, "AutoModelForCausalLM")
    judge = with_code(tiny_judge, tmp_path / "judge", mark, "AutoModelForSequenceClassification")
    calls: list[Callable[[], object]] = [
        lambda: load_language_model(model, "key", False),
        lambda: load_tokenizer(model, "key"),
        lambda: load_encoder(model, "key", torch.float32),
        lambda: longest_text(model, "key"),
        lambda: skeleton(model, "key"),
        lambda: load_classifier(judge, "key"),
        lambda: skeleton(judge, "key", classifier=True),
    ]
    for call in calls:
        with refused(mark, "key=", "cannot be loaded"):
            call()
    assert skeleton(model, "key", {"model_type": "gpt2"}, True).config.model_type == "gpt2"
    assert not mark.exists()
    monkeypatch.undo()
    # the same folder runs it where the command allows it
    with pytest.raises(ConfigError):
        load_language_model(model, "key", False, remote_code=True)
    assert mark.exists()


@pytest.mark.slow
def test_every_loader_says_whether_code_may_run_and_no_file_is_unpickled() -> None:
    """Without a word transformers asks on the terminal, and runs the code if stdin says yes.

    torch.load says weights_only=True.
    """
    loaders = 0
    for path in [*ROOT.rglob("*.py"), *(ROOT.parent / "scripts").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            words = {keyword.arg: keyword.value for keyword in node.keywords}
            if node.func.attr in LOADERS and owner not in ONE_CLASS:
                loaders += 1
                assert "trust_remote_code" in words, f"{path}:{node.lineno}"
            if path.is_relative_to(ROOT):
                assert owner not in ("pickle", "joblib"), path
                if (owner, node.func.attr) == ("torch", "load"):
                    safe = words["weights_only"]
                    assert isinstance(safe, ast.Constant) and safe.value is True, path
    assert loaders >= 2


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


@pytest.mark.slow
def test_an_unpacked_model_is_a_model_like_any_other(tmp_path: Path) -> None:
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 64, "intermediate_size": 64}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 16, "num_hidden_layers": 2}
    packed = LlamaForCausalLM(LlamaConfig(**sizes, **heads, initializer_range=0.2)).eval()
    write_gguf(tmp_path / "model.gguf", packed, tokenizer)
    place, ids = tmp_path / "folder", torch.tensor([[5, 9, 40, 11, 12, 13]])
    unpack(tmp_path / "model.gguf", place)
    lm = load_language_model(str(place), "model.path", keep_dropout=False)
    with torch.no_grad():
        assert_close(lm(ids).logits, packed(ids).logits, rtol=1e-4)
    assert {p.dtype for p in lm.parameters()} == {torch.float32}
    lm(ids).logits.sum().backward()
    assert all(p.grad is not None for p in lm.parameters())
    there = load_tokenizer(str(place), "model.path")
    assert there("the movie")["input_ids"] == tokenizer("the movie")["input_ids"]
    assert there.pad_token == END
