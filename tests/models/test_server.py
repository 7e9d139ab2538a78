"""hardware.sampler=vllm, beside a stand-in for the server: weights, tokens, seeds, disagreement."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from cory.config import ConfigError, SamplingConfig
from cory.episode import Prompt
from cory.models import agreement
from cory.models.generation import warp
from cory.models.policy import PPOPolicy
from cory.models.server import Server, ServerGone
from cory.rollout.scheduler import Cast, RollOut, single_turn
from cory.runtime import worker
from cory.trainers.ppo import PPOTrainer
from tests.models.test_generation import PLAIN
from tests.support.building import LetterShare, build, steps
from tests.support.close import assert_close
from tests.support.composing import ConfigOf
from tests.support.vllm_server import Faults, VLLMServer

PROMPTS = [Prompt(f"p{number}", f"the film number {number}") for number in range(4)]
LIMIT = 6
SAMPLING = PLAIN.replace(min_response_tokens=LIMIT, max_response_tokens=LIMIT)


@pytest.fixture
def server(tiny_model: str) -> Iterator[VLLMServer]:
    server = VLLMServer(tiny_model)
    yield server
    server.shutdown()


def trainer_of(config_of: ConfigOf, server: VLLMServer, run: Path, *words: str) -> PPOTrainer:
    own = [
        *("hardware.sampler=vllm", f"hardware.server.address={server.url}"),
        *("hardware.server.retries=1", "hardware.server.timeout=5", f"run_dir={run}"),
    ]
    return build(config_of("algorithm=cory", *own, *words), LetterShare())


@pytest.fixture
def trainer(config_of: ConfigOf, server: VLLMServer, tmp_path: Path) -> PPOTrainer:
    """Two agents whose adapters are far from each other and from the base."""
    trainer = trainer_of(config_of, server, tmp_path, "model.sharing=adapters")
    for agent in trainer.agents.values():
        move(agent)
    return trainer


def named(adapter: str) -> str:
    """The server's name of an adapter without what is the run's."""
    agent, _, number = adapter.split("-")
    return f"{agent}-{number}"


def move(agent: PPOPolicy) -> None:
    """Give an agent other weights, each agent its own."""
    stream = torch.Generator().manual_seed(len(agent.name) + int(agent.name[-1]))
    weights = agent.model.trainable()
    other = {name: torch.randn(weight.shape, generator=stream) for name, weight in weights.items()}
    agent.engine.set_weights(other)


def roll_out(
    trainer: PPOTrainer, agent: str, sampling: SamplingConfig | None = SAMPLING, key: int = 0
) -> list[Any]:
    """The turns of an agent about PROMPTS."""
    episodes = RollOut(trainer.agents, LIMIT, sampling, (key,))(single_turn(agent), PROMPTS)
    return [turn for episode in episodes for turn in episode.turns]


def here(agent: PPOPolicy) -> PPOPolicy:
    """The same agent, sampled here."""
    agent.bundle.served = None
    return agent


def test_greedy_responses_are_those_of_our_own_loop(trainer: PPOTrainer) -> None:
    said = {agent: roll_out(trainer, agent, None) for agent in trainer.agents}
    assert said["agent_0"] != said["agent_1"]
    for agent, turns in said.items():
        here(trainer.agents[agent])
        own = roll_out(trainer, agent, None)
        assert [t.response_ids for t in turns] == [t.response_ids for t in own]
        assert [t.context_ids for t in turns] == [t.context_ids for t in own]
        assert [t.response for t in turns] == [t.response for t in own]


def test_a_response_depends_on_its_key_alone(trainer: PPOTrainer, server: VLLMServer) -> None:
    once, again, other = (roll_out(trainer, "agent_0", key=key) for key in (0, 0, 1))
    ids = [[turn.response_ids for turn in turns] for turns in (once, again, other)]
    assert ids[0] == ids[1] != ids[2]
    seeds = [body["seed"] for body in server.asked]
    assert len(set(seeds)) == 8 and all(0 < seed < 2**53 for seed in seeds)


def test_every_setting_of_a_request_is_sent(trainer: PPOTrainer, server: VLLMServer) -> None:
    sampling = SAMPLING.replace(temperature=0.7, top_k=3, top_p=0.5, repetition_penalty=1.2)
    agent = trainer.agents["agent_1"]
    (turn, *_) = roll_out(trainer, "agent_1", sampling)
    body = min(server.asked, key=lambda body: body["prompt"] != turn.context_ids)
    assert named(body["model"]) == "agent_1-1"
    assert body == {
        "model": body["model"],
        "prompt": turn.context_ids,
        "max_tokens": LIMIT,
        "seed": body["seed"],
        "stop_token_ids": sorted(agent.bundle.stops),
        "logprobs": 0,
        "return_token_ids": True,
        "skip_special_tokens": False,
        "temperature": 0.7,
        "top_p": 0.5,
        "top_k": 3,
        "min_p": 0.0,
        "repetition_penalty": 1.2,
    }


def test_weights_are_sent_when_they_have_changed(trainer, server, tmp_path) -> None:
    roll_out(trainer, "agent_0")
    roll_out(trainer, "agent_0")
    assert [*map(named, server.adapters)] == ["agent_0-0", "agent_1-1"]
    assert server.calls["/v1/load_lora_adapter"] == 2
    served = trainer.agents["agent_0"].served
    assert served and served.weights["agent_0"].checked and not served.weights["agent_1"].checked
    move(trainer.agents["agent_0"])
    roll_out(trainer, "agent_0")
    assert [*map(named, server.adapters)] == ["agent_1-1", "agent_0-2"]
    folders = {folder.name for folder in (tmp_path / "server-model").iterdir()}
    assert folders == {*server.adapters}  # the one before is gone, after it was unloaded
    reference = trainer.agents["agent_0"].reference("start")
    RollOut({"start": reference}, LIMIT, None, (0,))(single_turn("start"), PROMPTS)
    assert server.asked[-1]["model"] == "base"
    served.close()
    assert not server.adapters and not (tmp_path / "server-model").exists()


def test_training_by_a_server_is_training(config_of, server, tmp_path) -> None:
    """Two iterations, checked as any: ratio 1, tokens of the policy, weights that move."""
    trainer = trainer_of(config_of, server, tmp_path, "model.sharing=adapters")
    first, second = steps(trainer, 0, 1)
    assert abs(first["objective/sampler_gap/agent_0"]) < 1e-4
    assert abs(second["objective/sampler_gap_max/agent_1"]) < 1e-3
    assert server.calls["/v1/load_lora_adapter"] == 4
    pioneers = [body for body in server.asked if named(body["model"]) == "agent_0-2"]
    assert len(pioneers) == 8


OFF = "log-probabilities are off those computed here"
FAULTS = [
    (OFF, Faults(loads_nothing=True)),
    (OFF, Faults(raw_logprobs=True)),
    (OFF, Faults(off=0.005)),
    (OFF, Faults(exchanges=True)),
    ("are off those computed here by nan", Faults(off=float("nan"))),
    ("another tokenizer or template", Faults(adds=5)),
    ("after 5 of 6 tokens", Faults(cuts=True)),
    ('refuses: {"error": {"message": "no"}}', Faults(refuses="no")),
]


@pytest.mark.parametrize(("said", "faults"), FAULTS)
def test_a_server_that_disagrees_is_refused(trainer, server, said: str, faults: Faults) -> None:
    server.faults = faults
    with pytest.raises(ConfigError) as refused:
        roll_out(trainer, "agent_0", SAMPLING.replace(temperature=0.8))
    assert said in str(refused.value)


def test_another_kind_of_server_is_refused(trainer: PPOTrainer, server: VLLMServer) -> None:
    server.context = 0
    with pytest.raises(ConfigError, match="is no vLLM server: it does not say what it serves"):
        roll_out(trainer, "agent_0")


def test_a_token_that_rounding_cuts_off_is_no_disagreement(
    trainer: PPOTrainer, monkeypatch
) -> None:
    """Of 20 and more one has no probability here; of 10 it is too many."""
    sampling = SAMPLING.replace(temperature=1.0)
    agent, turns = trainer.agents["agent_0"], roll_out(trainer, "agent_0", sampling)
    tokens = sum(len(turn.response_ids) for turn in turns)
    assert tokens > 20

    def cut(logits: Tensor, seen: Any, how: SamplingConfig) -> Tensor:
        found = warp(logits, seen, how)
        found[0, turns[0].response_ids[0]] = -torch.inf
        return found

    monkeypatch.setattr(agreement, "warp", cut)
    assert agreement.server_gap(agent, turns, sampling) < 1e-3
    assert agreement.server_gap(agent, turns[:1], sampling) == torch.inf


def test_turns_of_the_reference_are_not_compared_with_the_policys(trainer: PPOTrainer) -> None:
    """Both may have one name, as where a partner is untrained."""
    agent = trainer.agents["agent_0"]
    actors = {"agent_0": agent, "other": agent.reference("agent_0")}

    async def both(prompt: Prompt, cast: Cast) -> None:
        await cast["other"].say(prompt.opening, "other")
        await cast["agent_0"].say(prompt.opening, "role")

    episodes = RollOut(actors, LIMIT, SAMPLING, (0,))(both, PROMPTS)
    assert [turn.agent for turn in episodes[0].turns] == ["agent_0"] * 2
    assert [turn.served_as for turn in episodes[0].turns] == ["", "agent_0"]


def test_a_stale_cache_is_refused(trainer: PPOTrainer, server: VLLMServer) -> None:
    server.faults = Faults(stale=True)
    roll_out(trainer, "agent_0")
    move(trainer.agents["agent_0"])
    weights = trainer.agents["agent_0"].engine.trainable
    trainer.agents["agent_0"].engine.set_weights({n: -2 * w for n, w in weights.items()})
    with pytest.raises(ConfigError, match=OFF):
        roll_out(trainer, "agent_0")


def test_one_answer_that_fails_is_asked_for_again(trainer: PPOTrainer, server: VLLMServer) -> None:
    whole = [turn.response_ids for turn in roll_out(trainer, "agent_0")]
    server.faults = Faults(fails=2)
    assert [turn.response_ids for turn in roll_out(trainer, "agent_0")] == whole
    server.faults = Faults(fails=100)
    with pytest.raises(ServerGone, match=r"answers 500: .* well again, the same command"):
        roll_out(trainer, "agent_0")


def test_a_server_that_was_started_anew_is_noticed(trainer: PPOTrainer, server: VLLMServer) -> None:
    roll_out(trainer, "agent_0")
    server.adapters.clear()
    with pytest.raises(ServerGone, match="has lost the adapters"):
        roll_out(trainer, "agent_0")


def test_a_slow_episode_does_not_hold_the_others(trainer: PPOTrainer, server: VLLMServer) -> None:
    """While the first answer of one is under way, the others have spoken twice."""

    async def play(prompt: Prompt, cast: Cast) -> None:
        first = await cast["agent_0"].say(prompt.opening, "first")
        await cast["agent_1"].say(f"{prompt.text} {first.response}", "second")

    slow = PROMPTS[0].text
    tokens = trainer.agents["agent_0"].texts.context_ids(slow)
    server.faults = Faults(slow=lambda body: 1.0 if body["prompt"] == tokens else 0.0)
    episodes = RollOut(trainer.agents, LIMIT, SAMPLING, (0,))(play, PROMPTS)
    last = server.asked[-1]
    assert named(last["model"]) == "agent_1-1" and last["prompt"][: len(tokens)] == tokens
    assert [turn.asked_in for turn in episodes[0].turns] == [0, 1]
    server.faults = Faults()
    again = RollOut(trainer.agents, LIMIT, SAMPLING, (0,))(play, PROMPTS)
    ids = [[[turn.response_ids for turn in e.turns] for e in made] for made in (episodes, again)]
    assert ids[0] == ids[1]


def test_turns_stand_in_the_order_of_asking(trainer: PPOTrainer, server: VLLMServer) -> None:
    async def play(prompt: Prompt, cast: Cast) -> None:
        said = (cast[agent].say(prompt.opening, agent) for agent in trainer.agents)
        await asyncio.gather(*said)

    server.faults = Faults(slow=lambda body: 0.3 if body["model"].startswith("agent_0") else 0.0)
    episodes = RollOut(trainer.agents, LIMIT, SAMPLING, (0,))(play, PROMPTS)
    assert all([turn.agent for turn in one.turns] == [*trainer.agents] for one in episodes)


def test_full_weights_take_the_place_of_the_servers(config_of, tiny_model, tmp_path) -> None:
    untied = shutil.copytree(tiny_model, tmp_path / "untied")
    lm = AutoModelForCausalLM.from_pretrained(tiny_model)
    lm.lm_head.weight = torch.nn.Parameter(lm.lm_head.weight.detach().clone())
    lm.config.tie_word_embeddings = False
    lm.save_pretrained(untied)
    server = VLLMServer(str(untied))
    own = (config_of, server, tmp_path / "run", "algorithm=ppo")
    trainer = trainer_of(*own, f"model.path={untied}")
    steps(trainer, 0, 1)
    assert server.calls["/collective_rpc"] == 2
    agent = trainer.agents["agent_0"]
    assert agent.served
    agent.served.publish(agent)
    theirs, ours = server.model.state_dict(), agent.model.lm.state_dict()
    assert_close(theirs["transformer.wte.weight"], ours["transformer.wte.weight"])
    assert agent.reference("start").served is None  # its weights are not there
    with pytest.raises(ConfigError, match=r"replaces tied embeddings wrongly, as model\.path="):
        trainer_of(*own)


def test_without_vllm_the_user_is_told_where_to_get_it(config_of, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"vLLM is not installed here; `make vllm` makes \.vllm"):
        command_of(config_of)


def test_a_run_that_is_asked_to_stop_waits_for_no_server(config_of: ConfigOf) -> None:
    config = config_of("algorithm=ppo", "hardware.server.address=http://127.0.0.1:9")
    hardware = config.hardware
    server = Server(hardware.server, config.model, 40, 1, Path("log"), "cpu", lambda: True)

    async def connect() -> None:
        async with server.connected():
            pass

    with pytest.raises(ServerGone, match="does not answer yet; when it is well again"):
        asyncio.run(connect())


def command_of(config_of: ConfigOf, *words: str) -> tuple[Server, dict[str, str | None]]:
    """A server that is not started, and the options of its command."""
    config = config_of("algorithm=cory", "model.sharing=adapters", *words)
    server = Server(
        config.hardware.server, config.model, 40, 3, Path("log"), config.hardware.device
    )
    words_of = server.command()
    assert words_of[1:3] == ["-m", "vllm.entrypoints.openai.api_server"]
    pairs = zip(words_of, [*words_of[1:], "--"], strict=True)
    return server, {
        word: None if value.startswith("--") else value
        for word, value in pairs
        if word.startswith("--")
    }


def test_the_command_of_a_server_on_a_cpu(config_of: ConfigOf, tiny_model: str) -> None:
    own = ["requests=5", "kv_cache_gib=3", "python=/opt/python", "options=['--seed=3']"]
    words = [f"hardware.server.{word}" for word in own]
    server, options = command_of(config_of, *words, "model.adapter.rank=9")
    assert server.command()[0] == "/opt/python"
    assert options == {
        "--model": tiny_model,
        "--host": "127.0.0.1",
        "--served-model-name": "base",
        "--dtype": "float32",
        "--max-num-seqs": "5",
        "--uvicorn-log-level": "warning",
        "--generation-config": "vllm",
        "--logprobs-mode": "processed_logprobs",
        "--max-model-len": "40",
        "--max-num-batched-tokens": "200",  # prompts are read whole
        "--max-loras": "3",
        "--max-lora-rank": "16",  # the next that there is
        "--enable-lora": None,
        "--seed=3": None,
    }
    assert server.environment()["VLLM_CPU_KVCACHE_SPACE"] == "3"


def test_a_server_is_none_of_the_processes_of_the_run(config_of: ConfigOf, monkeypatch) -> None:
    """With the first of these vLLM's own process would wait for a store that nobody opens."""
    names = [
        *(
            "TORCHELASTIC_USE_AGENT_STORE",
            "TORCHELASTIC_RUN_ID",
            "RANK",
            "LOCAL_RANK",
            "GROUP_RANK",
        ),
        *("ROLE_NAME", "ROLE_WORLD_SIZE", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "MASTER_ADDR"),
    ]
    for name in (*names, "MY_RANK"):
        monkeypatch.setenv(name, "1")
    server, _ = command_of(config_of, "hardware.server.python=/opt/python")
    assert {*names, "MY_RANK"} & {*server.environment()} == {"MY_RANK"}


def test_the_command_of_a_server_on_gpus(config_of: ConfigOf) -> None:
    words = ["hardware=gpu1", "model.quantisation=nf4", "model.compute_precision=bf16"]
    own = ["gpus='2,3'", "kv_cache_gib=1.5", "python=/opt/python"]
    own = [f"hardware.server.{word}" for word in own]
    server, options = command_of(config_of, *words, *own)
    assert options["--max-model-len"] == "auto" and "--max-num-batched-tokens" not in options
    assert options["--kv-cache-memory-bytes"] == str(3 * 2**29)
    assert options["--quantization"] == "bitsandbytes" and options["--dtype"] == "bfloat16"
    assert server.environment()["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_a_server_has_room_for_the_widest_adapter_of_a_model(config_of, monkeypatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(worker, "Server", lambda *args: given.extend(args) or Mock())
    words = ["algorithm=cory", "adapter=lora", "members.agent_1.model.adapter.rank=40"]
    config = config_of(*words, "hardware.sampler=vllm")
    one = SimpleNamespace(group="model", config=config.model, context_length=40, tied=True, said="")
    worker.serve(config, one).close()  # type: ignore[arg-type]
    assert (given[1].adapter.rank, given[3]) == (40, 2)
