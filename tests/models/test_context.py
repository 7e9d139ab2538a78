"""Context lengths; LongRoPE models end where their first set of rotary frequencies does."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import Phi3Config, Phi3ForCausalLM

from cory.config import Config, ConfigError
from cory.episode import Asked
from cory.memory import Shape
from cory.models.bundle import ModelBundle
from cory.models.paths import context_length, require_context_length
from cory.models.policy import Policy
from cory.runtime.worker import build_components
from tests.support.composing import parsed
from tests.support.llama import BOS, EOS, llama_tokenizer

SWITCH, WHOLE = 32, 128
PER_HEAD = 16
SHORT, LONG = [1.0] * (PER_HEAD // 2), [1.5 * (n + 1) for n in range(PER_HEAD // 2)]


def phi3(short: list[float], long: list[float]) -> Phi3Config:
    """Settings as of Phi-3-mini-128k, of a few thousand weights."""
    return Phi3Config(
        vocab_size=len(llama_tokenizer()),
        hidden_size=4 * PER_HEAD,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=WHOLE,
        original_max_position_embeddings=SWITCH,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": short,
            "long_factor": long,
            "original_max_position_embeddings": SWITCH,
        },
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=EOS,
        initializer_range=0.2,
    )


def bundle_of(folder: Path, config: Phi3Config) -> ModelBundle:
    torch.manual_seed(0)
    Phi3ForCausalLM(config).save_pretrained(folder)
    llama_tokenizer().save_pretrained(folder)
    return ModelBundle(parsed(f"model.path={folder}").model, torch.device("cpu"))


@pytest.mark.parametrize(("short", "length"), [(SHORT, SWITCH), (LONG, WHOLE)])
def test_a_response_may_reach_to_the_switch_and_is_refused_beyond(tmp_path, short, length) -> None:
    """With one set of frequencies the whole context is there."""
    bundle = bundle_of(tmp_path, phi3(short, LONG))
    assert bundle.context_length == Shape(Phi3ForCausalLM(phi3(short, LONG))).context == length
    (model,) = bundle.new_models(["agent_0"], torch.Generator())
    policy = Policy(bundle, model, None, parsed().hardware)
    room = length - bundle.texts.tokens("a" * 10)
    policy.turns([Asked("a" * 10, "solo")], room, None)
    with pytest.raises(ConfigError, match=f"context of {length} tokens"):
        policy.turns([Asked("a" * 10, "solo")], room + 1, None)


def test_only_sets_of_frequencies_that_change_end_a_context() -> None:
    fixed = {"rope_type": "llama3", "original_max_position_embeddings": SWITCH}
    # one set of settings for each kind of layer
    kinds = {"full": phi3(SHORT, LONG).rope_parameters, "sliding": fixed}
    for rope, length in ((fixed, WHOLE), (kinds, SWITCH)):
        model = SimpleNamespace(max_position_embeddings=WHOLE, rope_parameters=rope)
        assert context_length(model) == length
    with pytest.raises(ConfigError, match=r"^model.path=x: its config.json does not say"):
        require_context_length(SimpleNamespace(), "model.path=x")


@pytest.mark.slow
def test_a_token_that_begins_every_text_is_counted(tmp_path: Path) -> None:
    """Prompts are counted without BOS; a longest one would be refused in mid-run."""
    bundle_of(tmp_path, phi3(SHORT, LONG))

    def config(longest: int, *words: str) -> Config:
        return parsed(
            *(
                "algorithm=maporl",
                "algorithm.param_sharing=per_agent",
                "+model@members.agent_1.model=tiny_sums",
            ),
            *(f"algorithm.sampling.{end}_response_tokens=4" for end in ("min", "max")),
            *("algorithm.guards.min_tokens=null", f"task.max_prompt_tokens={longest}", *words),
        )

    for group in ("model", "members.agent_1.model"):
        plain = [f"{group}.path={tmp_path}", f"{group}.chat=false"]
        said = rf"context of {group}=\w+ \({SWITCH} tokens, 1 of"
        with pytest.raises(ConfigError, match=said):
            build_components(config(SWITCH - 4, *plain))
        build_components(config(SWITCH - 4 - 1, *plain))
    probe = f"evaluation.probes=['{'7' * SWITCH}']"
    with pytest.raises(
        ConfigError, match=rf"^evaluation\.probes: the .* context of members.*={tmp_path.name}"
    ):
        build_components(config(4, probe, f"members.agent_1.model.path={tmp_path}"))
