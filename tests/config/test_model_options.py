"""Models by name, by path alone, and how they are trained: conf/model and conf/adapter."""

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest
from huggingface_hub import constants
from omegaconf import OmegaConf

from cory import train
from cory.config import ConfigError, ModelConfig, parse_config
from cory.config.base import plain
from cory.models.loading import skeleton
from cory.runtime.hydra_setup import refuse_unread
from tests.support.chat_models import save_chat_model
from tests.support.composing import compose_config, parsed

# billions of weights by the models' cards
CARDS = {
    "qwen2_5_0_5b": 0.494, "qwen2_5_1_5b": 1.544, "qwen2_5_3b": 3.086, "qwen2_5_7b": 7.616,
    "qwen3_0_6b": 0.596, "qwen3_1_7b": 1.721, "qwen3_4b": 4.022, "qwen3_8b": 8.191,
    "llama3_1_8b": 8.030, "llama3_2_1b": 1.236, "llama3_2_3b": 3.213, "gemma3_1b": 1.000,
    "gemma3_4b": 3.880, "smollm2_360m": 0.362, "smollm2_1_7b": 1.711, "smollm3_3b": 3.075,
    "phi4_mini": 3.836, "mistral_7b": 7.242, "llama3_8b": 8.030, "phi3_mini": 3.821,
}  # fmt: skip
REWARD = ("reward=python", "reward.function=a:b")
LORA = {"sharing": "adapters", "quantisation": "none"}
WAYS = {
    "full": {"sharing": "copies", "quantisation": "none"},
    "lora": LORA,
    "lora_4bit": {**LORA, "quantisation": "nf4", "double_quantisation": True},
}


def model(*words: str) -> ModelConfig:
    return parsed(*words).model


@pytest.mark.slow
@pytest.mark.parametrize("option", CARDS)
def test_architectures_have_the_weights_that_cards_say(option: str) -> None:
    own = model(f"model={option}")
    assert own.chat and own.described is not None
    lm = skeleton(own.path, "model.path", own.described)
    assert round(lm.num_parameters() / 1e9, 3) == CARDS[option]


def test_options_of_today_are_trained_whole_and_in_16_bits_on_a_gpu() -> None:
    gpu, cpu = (model("model=qwen3_4b", f"hardware={where}") for where in ("gpu1", "cpu"))
    assert (gpu.precision, gpu.compute_precision, gpu.sharing) == ("bf16", "bf16", "copies")
    assert (cpu.precision, cpu.chat, cpu.name) == ("fp32", True, "qwen3_4b")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("words", ["model=llama2_7b_chat", "model=gpt2", "model.path={folder}"])
def test_the_way_to_train_is_one_choice_beside_the_model(words: str, way: str, tmp_path) -> None:
    word = words.format(folder=save_chat_model("gemma3", tmp_path, dtype="bfloat16"))
    own = model(word, f"adapter={way}", "hardware=gpu1")
    assert {key: getattr(own, key) for key in WAYS[way]} == WAYS[way]
    assert own.compute_precision == own.precision == ("fp32" if "gpt2" in word else "bf16")
    if way != "full":
        lora = own.adapter
        assert (lora.rank, lora.alpha, lora.dropout, lora.targets) == (16, 32, 0.0, "all-linear")


def test_a_choice_that_another_word_undoes_is_refused() -> None:
    for word, said in {
        "adapter=full model.sharing=adapters": "adapter=full: needs model.sharing=copies",
        "adapter=lora model.sharing=copies": "adapter=lora: needs model.sharing=adapters",
        "adapter=lora_4bit model.quantisation=none": "adapter=lora_4bit: needs model.quantis",
    }.items():
        with pytest.raises(ConfigError, match=f"^{said}"):
            parsed(*word.split())


def test_of_a_path_alone_name_chat_and_precision_are_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "my-qwen3"
    path = f"model.path={save_chat_model('qwen3', folder, dtype='bfloat16')}"
    own = model(path)
    assert (own.name, own.chat, own.precision, own.described) == ("my-qwen3", True, "fp32", None)
    words = ("task=prompts", "task.path=a", "task.held_out_share=0.1", *REWARD)
    assert parsed(path, *words).task.chat
    assert model(path, "hardware=gpu1").precision == "bf16"
    assert model(path, "scale=small").chat
    assert not model(path, "model.chat=false").chat
    for name, precision in (("float16", "bf16"), ("float32", "fp32"), (None, "fp32")):
        other = tmp_path / str(name)
        other.mkdir()
        # of a model that sees images
        (other / "config.json").write_text(json.dumps({"text_config": {"dtype": name}}))
        own = model(f"model.path={other}", "hardware=gpu1")
        assert (own.precision, own.chat) == (precision, False)
    (other / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    chatting = tmp_path / "chatting"
    other.rename(chatting)
    assert model(f"model.path={chatting}").chat
    # models that ship with cory have 16 bits to be small
    assert model("hardware=gpu1").precision == "fp32"


def test_an_agent_with_a_path_alone_has_its_own_name_and_template(tmp_path: Path) -> None:
    folder = save_chat_model("llama3", tmp_path / "my-llama", dtype="bfloat16")
    words = ["algorithm=cory", f"members.agent_1.model.path={folder}", "hardware=gpu1"]
    cfg = compose_config(*words, "model.precision=bf16", "members.agent_1.model.value_init=zero")
    config = parse_config(cfg)
    one, other = config.model, config.members["agent_1"].model
    assert (one.name, one.chat, one.value_init) == ("tiny", False, "uniform")
    assert (other.name, other.chat, other.value_init) == ("my-llama", True, "zero")
    # as it is stored with the run, and read again
    assert parse_config(OmegaConf.create(plain(cfg))) == config
    with pytest.raises(ConfigError, match=r"^members\.agent_1\.model\.chatt is not a setting"):
        parsed(*words, "members.agent_1.model.chatt=true")


def test_files_of_a_hub_name_are_those_in_the_cache(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    cache = tmp_path / "models--some--Chat-7B"
    save_chat_model("llama3", cache / "snapshots" / "abc", dtype="bfloat16")
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("abc")
    own = model("model.path=some/Chat-7B", "hardware=gpu1")
    assert (own.name, own.chat, own.precision) == ("Chat-7B", True, "bf16")
    with pytest.raises(ConfigError, match=r"^model\.path=some/other: cannot be loaded: "):
        parsed("model.path=some/other")
    there = tmp_path / "broken"
    there.mkdir()
    (there / "config.json").write_text("{}")
    (there / "tokenizer_config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"^\S+/tokenizer_config\.json cannot be read: "):
        parsed(f"model.path={there}")


@pytest.mark.parametrize(
    ("words", "own"),
    [
        (["model.path=here"], True),
        (["model.path=here", "algorithm=grpo"], True),
        (["model.path=here", "model=qwen3_0_6b"], False),
        (["model.path=here", "experiment=cory/imdb_cory"], False),
        (["seed=1"], False),
    ],
)
def test_a_path_alone_is_a_model_of_its_own(monkeypatch, words: list[str], own: bool) -> None:
    """Else it would get what the quickstart has for the tiny model."""
    composed: list[str] = []
    monkeypatch.setattr(train, "_run_hydra", lambda args, *_: composed.extend(args.overrides))
    args = Namespace(overrides=[*words], config_dir=None, multirun=False)
    train.compose_and_run(args, ArgumentParser())
    assert composed == [*words, *(["model=own"] if own else [])]


@pytest.mark.parametrize(
    ("word", "needed", "said"),
    [
        ("model.adapter.rank=4", "adapter=lora", "needs adapters: adapter=lora"),
        ("hardware.server.requests=4", "hardware.sampler=vllm", "needs hardware.sampler=vllm"),
    ],
)
def test_a_setting_that_nothing_reads_is_refused(word: str, needed: str, said: str) -> None:
    refuse_unread([word], parsed("algorithm=ppo", word, needed))
    with pytest.raises(ConfigError, match=rf"^{word}: {said}"):
        refuse_unread([word], parsed("algorithm=ppo", word))
