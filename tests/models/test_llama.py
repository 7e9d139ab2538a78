"""The paper's GSM8K model in small: Llama's architecture, a chat tokenizer, and its conf file."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from peft.tuners.lora import LoraLayer
from torch import Tensor

from cory.config import Config
from cory.episode import Episode, Turn
from cory.models.loading import load_language_model, nf4
from cory.models.ppo_policy import PPOPolicy
from cory.trainers.ppo import PPOTrainer
from tests.support.building import LetterShare, build
from tests.support.close import assert_close
from tests.support.llama import BOS, EOS, LAYERS, save_llama

Agents = dict[str, PPOPolicy]
NAMES = ["agent_0", "agent_1"]
SHORT, LONG = "7?", "Tom has 5 cats and gets 12 more. How many has he?"
GREEDY = None


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def llama_config(config_of: Callable[..., Config], llama: str) -> Callable[..., Config]:
    """The settings of conf/model/llama2_7b_chat.yaml, on the small model in float32."""
    base = [
        "model=llama2_7b_chat",
        f"model.path={llama}",
        "model.architecture=null",
        "model.precision=fp32",
        "task.max_prompt_tokens=40",
    ]
    return lambda *words: config_of(*base, *words)


def moved(trainer: PPOTrainer) -> PPOTrainer:
    """The trainer's agents away from the base, and from each other."""
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for agent in trainer.agents.values():
            assert agent.model.base is not None
            for parameter in agent.model.base.parameters_of(agent.name):
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=noise))
    return trainer


@pytest.fixture(scope="module", params=["none", "nf4"])
def agents(request: pytest.FixtureRequest, llama_config: Callable[..., Config]) -> Agents:
    config = llama_config(f"model.quantisation={request.param}", "algorithm.score_scaling=none")
    return moved(build(config, reward=LetterShare())).agents


def test_adapters_lie_where_the_conf_file_says(llama_config: Callable[..., Config]) -> None:
    config = llama_config()
    assert (config.model.quantisation, config.model.sharing) == ("nf4", "adapters")
    agents = build(config, reward=LetterShare()).agents
    lm = agents["agent_0"].model.lm
    found = {name: m for name, m in lm.named_modules() if isinstance(m, LoraLayer)}
    assert set(found) == {
        f"model.layers.{layer}.self_attn.{side}_proj" for layer in range(LAYERS) for side in "qv"
    }
    for layer in found.values():
        assert layer.r == dict.fromkeys(NAMES, 16)
        assert layer.scaling == dict.fromkeys(NAMES, 32 / 16)
        assert [layer.lora_dropout[name].p for name in NAMES] == [0.05, 0.05]
        assert type(layer.get_base_layer()).__name__ == "Linear4bit"
    for name, agent in agents.items():
        weights = agent.model.trainable()
        assert len(weights) == 2 * 2 * LAYERS + 2  # two factors on two layers; the value head
        assert all(f".{name}." in key or key.startswith("value_head.") for key in weights)
        # dropout before the adapters acts in supervised updates, and only there
        dropout = found["model.layers.0.self_attn.q_proj"].lora_dropout[name]
        agent.start_update(dropout=True)
        assert dropout.training and not lm.training
        agent.respond([SHORT], 1, GREEDY, torch.Generator())
        assert not dropout.training
        agent.start_update()
        assert not dropout.training


def test_the_tokenizer_gets_a_pad_token_that_is_no_token_of_a_text(agents: Agents) -> None:
    tokenizer = agents["agent_0"].team.tokenizer
    assert tokenizer.chat_template is not None
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == EOS
    assert EOS not in tokenizer(LONG)["input_ids"]


def test_bos_stands_once_before_every_prompt(agents: Agents) -> None:
    agent = agents["agent_0"]
    ((ids, response),) = agent.respond([LONG], 4, GREEDY, torch.Generator())
    assert ids[0] == BOS and ids.count(BOS) == 1
    # an observer's prompt holds what the pioneer said, without the marks around it
    said = agent.team.tokenizer.decode([*response.ids, EOS], skip_special_tokens=True)
    ((ids, _),) = agent.respond([f"{LONG} Reference: {said}"], 4, GREEDY, torch.Generator())
    assert ids[0] == BOS and ids.count(BOS) == 1 and EOS not in ids


def positions_seen(agent: PPOPolicy, run: Callable[[], Any]) -> list[tuple[Tensor, Tensor]]:
    """Attention mask and position ids of every pass of the language model."""
    seen = []

    def look(_: Any, inputs: Any, keywords: dict[str, Any]) -> None:
        seen.append((keywords["attention_mask"].bool(), keywords["position_ids"]))

    handle = agent.model.lm.base_model.register_forward_pre_hook(look, with_kwargs=True)
    run()
    handle.remove()
    return seen


def turn(agent: PPOPolicy, context: list[int], response: list[int]) -> Turn:
    return Turn(agent.name, "solo", 0, "", "", context, response, score=0.0, credit=1.0)


def test_positions_are_counted_from_the_first_token_of_a_text(agents: Agents) -> None:
    # rotary positions are relative, so a shift alone would change no number
    agent = agents["agent_0"]
    passes = positions_seen(
        agent, lambda: agent.respond([SHORT, LONG], 3, GREEDY, torch.Generator())
    )
    # the longest prompts are sampled first
    rows = sorted(agent.team.tokenizer([SHORT, LONG])["input_ids"], key=len, reverse=True)
    first, *later = passes
    for mask, positions, ids in zip(*first, rows, strict=True):
        assert positions[mask].tolist() == list(range(len(ids)))
    for t, (_, positions) in enumerate(later):
        assert positions.tolist() == [[len(ids) + t] for ids in rows]
    turns = [turn(agent, ids, [30, 31, EOS]) for ids in rows]
    for mask, positions in positions_seen(agent, lambda: agent.annotate(turns)):
        for row, one in zip(mask, positions, strict=True):
            assert one[row].tolist() == list(range(int(row.sum())))


def test_padding_changes_neither_what_is_sampled_nor_what_is_said_of_it(agents: Agents) -> None:
    agent = agents["agent_1"]
    sampling = agent.config.sampling.replace(max_response_tokens=8)
    stream = torch.Generator().manual_seed(3)
    state = stream.get_state()
    together = agent.respond([LONG, SHORT], 8, sampling, stream)
    # the same draws as the short prompt had, with nothing beside it
    stream.set_state(state)
    alone = agent.respond([SHORT, SHORT], 8, sampling, stream)
    assert together[1][1].ids == alone[1][1].ids != together[0][1].ids
    assert_close(together[1][1].sampler_logprobs, alone[1][1].sampler_logprobs, rtol=1e-4)
    turns = [turn(agent, ids, response.ids) for ids, response in together]
    both, one = agent.annotate(turns), agent.annotate(turns[1:])
    length = len(turns[1].response_ids)
    for name in ("logprobs", "ref_logprobs", "kl", "entropy", "values"):
        assert_close(getattr(both, name)[1, :length], getattr(one, name)[0, :length], rtol=1e-4)
    # what the sampler said is what the policy says
    assert_close(one.logprobs[0, :length], together[1][1].sampler_logprobs, rtol=1e-4)


def test_eos_counts_where_it_was_said_and_nowhere_else(agents: Agents) -> None:
    """Padding has the id of EOS: masks come from lengths, never from ids."""
    agent = agents["agent_0"]
    context = [BOS, 40, EOS, 41]  # an earlier round of a chat ends with EOS
    ended, longer = turn(agent, context, [50, EOS]), turn(agent, context[:2], [51, 52, 53, 54])
    batch = agent.annotate([ended, longer])
    assert batch.attention_mask[0].tolist() == [True] * 6 + [False] * 2
    assert batch.response_mask.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.logprobs[0, 1] < 0 and batch.logprobs[0, 2:].tolist() == [0.0, 0.0]
    with torch.no_grad():
        agent.model.activate()
        logits = agent.model.lm(torch.tensor([[*context, 50, EOS]])).logits[0].log_softmax(-1)
    assert_close(batch.logprobs[0, :2], torch.stack([logits[3, 50], logits[4, EOS]]), rtol=1e-4)


def test_policy_reference_and_value_of_each_agent(agents: Agents, llama: str) -> None:
    packing = None
    if any(type(m).__name__ == "Linear4bit" for m in agents["agent_0"].model.lm.modules()):
        packing = nf4(True, torch.float32, torch.float32)
    base = load_language_model(llama, "model.path", False, torch.float32, packing)
    context, response = agents["agent_0"].team.tokenizer(LONG)["input_ids"], [60, 61, EOS]
    ids, places = torch.tensor([context + response]), slice(len(context) - 1, -1)
    said = []
    for agent in agents.values():
        batch = agent.annotate([turn(agent, context, response)])
        said.append(batch.logprobs)
        with torch.no_grad():
            reference = base(ids).logits[0, places].log_softmax(-1)
            agent.model.activate()
            # after the norm that closes Llama's blocks
            states = agent.model.lm.base_model(ids).last_hidden_state
            value = agent.model.value_head(states)[:, places]
            assert_close(agent.model.lm.get_output_embeddings()(states), agent.model.lm(ids).logits)
        tokens = torch.tensor(response)[:, None]
        assert_close(batch.ref_logprobs[0], reference.gather(1, tokens)[:, 0], rtol=1e-4)
        assert_close(batch.values, value, rtol=1e-4)
        assert (batch.logprobs - batch.ref_logprobs).abs().max() > 1e-3
    assert (said[0] - said[1]).abs().max() > 1e-3


class SmallLetters:
    """A judge: the share of small letters, about a tenth in what the random model says."""

    def score(self, episodes: list[Episode]) -> None:
        for episode in episodes:
            for turn in episode.turns:
                turn.score = sum(letter.islower() for letter in turn.response) / 6


@pytest.mark.slow
def test_it_learns_on_a_base_in_4_bits(llama_config: Callable[..., Config]) -> None:
    config = llama_config(
        "algorithm=ppo",
        "algorithm.prompts_per_iteration=32",
        "algorithm.minibatch_size=32",
        "algorithm.learning_rate=2e-2",
        "algorithm.kl_coef=0",
    )
    trainer = build(config, reward=SmallLetters())
    metrics = [trainer.step(iteration) for iteration in range(20)]
    assert all(math.isfinite(value) for line in metrics for value in line.values())
    assert abs(metrics[0]["objective/kl/agent_0"]) < 1e-6
    scores = [line["objective/score/agent_0"] for line in metrics]
    assert sum(scores[-3:]) / 3 > sum(scores[:3]) / 3 + 0.3, scores
