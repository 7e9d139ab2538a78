"""The papers' chat models: their conf files, and small ones of the same architectures."""

import asyncio
from typing import Any

import pytest
import torch
from peft.tuners.lora import LoraLayer

from cory.episode import Asked, Prompt, Turn
from cory.memory import Shape, parts_of
from cory.models.loading import load_language_model, nf4, skeleton
from cory.models.lora import adapted_layers
from cory.models.policy import Policy, PPOPolicy
from cory.rollout.scheduler import Cast, RollOut
from tests.models.test_generation import PLAIN
from tests.support.building import LetterShare, build, plain_logprobs
from tests.support.close import assert_close
from tests.support.composing import ConfigOf, parsed
from tests.support.llama import BOS, EOS, LAYERS

Agents = dict[str, PPOPolicy]
NAMES = ["agent_0", "agent_1"]
SHORT, LONG = "7?", "Tom has 5 cats and gets 12 more. How many has he?"
GREEDY = None


@pytest.fixture(scope="session")
def llama_config(config_of: ConfigOf, llama: str) -> ConfigOf:
    """The settings of conf/model/llama2_7b_chat.yaml, on the small model in float32."""
    base = [
        *("model=llama2_7b_chat", f"model.path={llama}", "model.architecture=null"),
        *("model.precision=fp32", "task.max_prompt_tokens=40"),
    ]
    return lambda *words: config_of(*base, *words)


@pytest.fixture(scope="module", params=["none", "nf4"])
def agents(request: pytest.FixtureRequest, llama_config: ConfigOf) -> Agents:
    """Away from the base, and from each other."""
    config = llama_config(f"model.quantisation={request.param}", "algorithm.score_scaling=none")
    agents = build(config, reward=LetterShare()).agents
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for agent in agents.values():
            for parameter in agent.model.trainable().values():
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=noise))
    return agents


def test_adapters_lie_where_the_conf_file_says(llama_config: ConfigOf) -> None:
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
        agent.turns([Asked(SHORT, "solo", uniforms=torch.zeros(1))], 1, GREEDY)
        assert not dropout.training
        agent.start_update()
        assert not dropout.training


def turn(agent: PPOPolicy, context: list[int], response: list[int]) -> Turn:
    return Turn(agent.name, "solo", 0, "", "", context, response, score=0.0, credit=1.0)


def test_eos_counts_where_it_was_said_and_nowhere_else(agents: Agents) -> None:
    """Padding has the id of EOS: masks come from lengths, never from ids."""
    agent = agents["agent_0"]
    context = [BOS, 40, EOS, 41]  # an earlier round of a chat ends with EOS
    ended, longer = turn(agent, context, [50, EOS]), turn(agent, context[:2], [51, 52, 53, 54])
    batch = agent.annotate([ended, longer])
    assert batch.attention_mask[0].tolist() == [True] * 6 + [False] * 2
    assert batch.response_mask.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.logprobs[0, 1] < 0 and batch.logprobs[0, 2:].tolist() == [0.0, 0.0]
    agent.model.activate()
    expected = plain_logprobs(agent.model.lm, context, [50, EOS])
    assert_close(batch.logprobs[0, :2], expected, rtol=1e-4)


def test_policy_reference_and_value_of_each_agent(agents: Agents, llama: str) -> None:
    packing = {}
    if any(type(m).__name__ == "Linear4bit" for m in agents["agent_0"].model.lm.modules()):
        packing = nf4(True, torch.float32, torch.float32, "cpu")
    base = load_language_model(llama, "model.path", False, **packing)
    context, response = agents["agent_0"].bundle.tokenizer(LONG)["input_ids"], [60, 61, EOS]
    ids, places = torch.tensor([context + response]), slice(len(context) - 1, -1)
    said = []
    for agent in agents.values():
        batch = agent.annotate([turn(agent, context, response)])
        said.append(batch.logprobs)
        with torch.no_grad():
            agent.model.activate()
            # after the norm that closes Llama's blocks
            states = agent.model.lm.base_model(ids).last_hidden_state
            value = agent.model.value_head(states)[:, places]
            assert_close(agent.model.lm.get_output_embeddings()(states), agent.model.lm(ids).logits)
        reference = plain_logprobs(base, context, response)
        assert_close(batch.ref_logprobs[0], reference, rtol=1e-4)
        assert_close(batch.values, value, rtol=1e-4)
        assert (batch.logprobs - batch.ref_logprobs).abs().max() > 1e-3
    assert (said[0] - said[1]).abs().max() > 1e-3


def test_the_prompt_of_a_group_is_read_once_with_the_same_numbers(agents: Agents) -> None:
    for agent in agents.values():
        context = agent.bundle.tokenizer(LONG)["input_ids"]
        turns = [turn(agent, context, said) for said in ([60, 61, EOS], [70], [71, 72])]
        turns.append(turn(agent, context[:3], [60, 61]))
        read: list[int] = []
        note = lambda module, args, kwargs: read.append(kwargs["input_ids"].numel())  # noqa: B023, E731
        hook = agent.model.lm.base_model.register_forward_pre_hook(note, with_kwargs=True)
        once, positions = agent.annotate(turns), sum(read)
        agent.responses_at_once = len(turns) - 1  # their keys would take more than in sampling
        alone = agent.annotate(turns)
        hook.remove()
        assert positions < 0.7 * (sum(read) - positions)
        for name in ("logprobs", "ref_logprobs", "values", "kl"):
            assert_close(getattr(once, name), getattr(alone, name), rtol=1e-4)


@pytest.mark.parametrize("apart", [None, "limit", "sampling", "dropout"])
def test_agents_that_are_asked_together_say_what_they_say_alone(agents, apart, monkeypatch) -> None:
    """In the same passes as their reference, but whoever samples otherwise."""
    actors: dict[str, Policy] = {**agents, "base": agents["agent_0"].reference("base")}
    if apart == "sampling":
        monkeypatch.setattr(agents["agent_1"], "sampling", PLAIN.replace(temperature=0.5))
    if apart == "dropout":
        monkeypatch.setattr(agents["agent_1"], "samples_with_dropout", True)
    limits = {"agent_1": 5} if apart == "limit" else {}
    calls: list[tuple[int, int]] = []  # rows, adapters
    sampled = Policy.sampled

    def noted(self: Policy, asked: Any, *more: Any) -> Any:
        calls.append((len(asked), len({*more[3]}) if len(more) > 3 else 1))
        return sampled(self, asked, *more)

    async def play(prompt: Prompt, cast: Cast) -> None:
        roles = [(name, role) for name in actors for role in "ab"]
        await asyncio.gather(*(cast[name].say(prompt.text, name + role) for name, role in roles))

    def said(at_once: int) -> list[Turn]:
        for actor in actors.values():
            monkeypatch.setattr(actor, "responses_at_once", at_once)
        roll_out = RollOut(actors, 6, PLAIN, ("key",), limits=limits)
        episodes = roll_out(play, [Prompt("1", SHORT), Prompt("2", LONG)])
        return [turn for episode in episodes for turn in episode.turns]

    monkeypatch.setattr(Policy, "sampled", noted)
    together, alone = said(at_once=12), said(at_once=4)  # of which two agents' are two passes
    joint = [(12, 3)] if apart is None else [(8, 2), (4, 1)]
    assert calls == [*joint, (4, 1), (4, 1), (4, 1)]
    for ours, theirs in zip(together, alone, strict=True):
        assert (ours.agent, ours.role) == (theirs.agent, theirs.role)
        if apart == "dropout" and ours.agent == "agent_1":
            continue  # it is drawn anew
        assert ours.response_ids == theirs.response_ids
        assert_close(ours.sampler_logprobs, theirs.sampler_logprobs)
    assert len({tuple(turn.response_ids) for turn in together}) > 8


def test_its_architecture_its_adapters_and_its_memory_are_known_without_the_hub() -> None:
    """Every linear layer of a block gets an adapter; the base is packed in four bits."""
    config = parsed("model=phi3_mini", "task=gsm8k_chat", "reward=exact_match", "hardware=gpu1")
    model, adapter = config.model, config.model.adapter
    lm = skeleton(model.path, "model.path", model.described)
    shape = Shape(lm)
    # as its makers state them; bytes of keys and values per token in bf16
    assert (shape.parameters, 2 * shape.cache) == (3_821_079_552, 2 * 2 * 32 * 32 * 96)
    assert set(adapted_layers(lm, adapter.targets)) == {layer for layer, _, _ in shape.linear}
    assert (adapter.rank, adapter.alpha, adapter.dropout) == (8, 16, 0.05)
    assert (model.sharing, model.quantisation, model.precision) == ("adapters", "nf4", "bf16")
    sizes = {part.what: part.bytes for part in parts_of(config)}
    base, own = sizes["base, frozen"], sizes["weights that train"]
    # half a byte per weight of the linear layers, two for embeddings and output; adapters are small
    assert 0.5 < base / shape.parameters < 0.85
    assert 0.002 < own / 2 / 2 / shape.parameters < 0.006
