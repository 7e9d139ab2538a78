"""scripts/export.py: adapters merged into their base, and uploads to the hub."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from cory.config import Config, ConfigError
from cory.inference import hub, merging
from cory.inference.agents import load_agents
from cory.models.team import Team
from cory.runs.export import export
from tests.support.commands import ROOT, last_wins, short_settings
from tests.support.llama import save_llama
from tests.support.warm import WarmCommand, run_script

SECRET = "hf_aVeryWellKeptToken"
SAID = "the movie was a good film"


@pytest.fixture(scope="module")
def made(
    tiny_model: str, tiny_judge: str, reviews_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A finished run of CORY with an adapter for each agent."""
    folder = tmp_path_factory.mktemp("made")
    words = [*short_settings(tiny_model, tiny_judge, reviews_file), "algorithm=cory", "run_dir=x"]
    words += ["model.sharing=adapters", "algorithm.learning_rate=0.03"]
    command = WarmCommand(folder, last_wins(words))
    assert command.wait() == 0, command.err
    return folder / "x"


@pytest.fixture
def run_dir(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "x"))


def logits(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(ids).logits
    return found


@pytest.mark.slow
def test_a_merged_agent_is_a_plain_model_that_says_the_same(run_dir: Path, tiny_model: str) -> None:
    agent = run_dir / "agents" / "agent_1"
    found = merging.merge(run_dir, agent, run_dir / "merged")
    ids = AutoTokenizer.from_pretrained(run_dir / "merged")(SAID, return_tensors="pt").input_ids
    base = AutoModelForCausalLM.from_pretrained(tiny_model)
    alone = logits(base, ids)
    adapted = logits(PeftModel.from_pretrained(base, str(agent)).eval(), ids)
    plain = AutoModelForCausalLM.from_pretrained(run_dir / "merged")
    assert (logits(plain, ids) - adapted).abs().max() < 1e-4 < 1e-2 < (adapted - alone).abs().max()
    assert not [*(run_dir / "merged").glob("adapter*")]
    assert found.merged < 1e-4 and found.trained > 1e-2
    head = "value_head.safetensors"
    assert (run_dir / "merged" / head).read_bytes() == (agent / head).read_bytes()
    assert len({file.stat().st_mode for file in (run_dir / "merged").iterdir()}) == 1
    card = (run_dir / "merged" / "README.md").read_text()
    assert "agent_1" in card and tiny_model not in card


@pytest.mark.slow
def test_a_merge_that_is_not_the_adapter_is_not_written(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deliberate error: the products are subtracted instead of added."""

    def wrong(adapted: Any) -> Any:
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.data.neg_()
        return adapted.merge_and_unload()

    monkeypatch.setattr(merging, "merged", wrong)
    with pytest.raises(ConfigError, match="more than rounding to fp32 explains"):
        merging.merge(run_dir, run_dir / "agents/agent_0", run_dir / "merged")
    assert not [*run_dir.glob("merged*")]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_merged_agent_may_be_rounded(run_dir: Path, precision: str) -> None:
    merging.merge(run_dir, run_dir / "agents/agent_0", run_dir / "merged", precision)
    weights = load_file(run_dir / "merged" / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {merging.DTYPES[precision]}


@pytest.mark.slow
def test_the_script_merges_every_agent_and_says_mistakes_in_one_line(run_dir: Path) -> None:
    script = ("scripts/export.py", str(run_dir))
    done = run_script(*script, "--merge")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in sorted((run_dir / "merged").iterdir())] == ["agent_0", "agent_1"]
    assert done.stdout.count("nats from the adapter's") == 2
    for words, part in (
        (("--merge",), "exists and is not empty"),
        ((), "--merge or --push-to-hub"),
        (("--merge", "--agent", "agent_7"), "has agent_0, agent_1"),
        (("--merge", "--out", "y"), "--out needs --merge and one agent"),
        (("--merge", "--agent", "agent_0", "--out", "y", "--precision", "int8"), "--precision"),
        (("--push-to-hub", "me/mine"), "HF_TOKEN is not set"),
        (("--push-to-hub", "not a name"), "--push-to-hub=not a name"),
    ):
        wrong = run_script(*script, *words, HF_TOKEN="")
        assert wrong.returncode == 1
        (line,) = [line for line in wrong.stderr.splitlines() if "WARNING" not in line]
        assert line.startswith("error: ") and part in line, line
    assert "there is no run" in run_script("scripts/export.py", "nowhere", "--merge").stderr


class Hub:
    """A stand-in for the hub: keeps what is uploaded."""

    def __init__(self, fails: bool = False) -> None:
        self.made: dict[str, bool] = {}
        self.files: dict[str, dict[str, bytes]] = {}
        self.tokens: set[str] = set()
        self.fails = fails

    def __call__(self, token: str) -> Hub:
        self.tokens.add(token)
        return self

    def create_repo(self, name: str, private: bool, exist_ok: bool) -> Any:
        if self.fails:
            raise RuntimeError(f"401 Client Error\nfor token {SECRET}")
        assert exist_ok
        self.made[name] = private
        return SimpleNamespace(repo_id=name)

    def upload_folder(self, repo_id: str, folder_path: Path, commit_message: str) -> None:
        self.files[repo_id] = {
            str(path.relative_to(folder_path)): path.read_bytes()
            for path in folder_path.rglob("*")
            if path.is_file()
        }


@pytest.mark.parametrize("public", [False, True])
def test_an_upload_holds_the_agent_and_no_place_of_this_machine(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: str, public: bool
) -> None:
    stand_in = Hub()
    monkeypatch.setattr(hub, "HfApi", stand_in)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    agent = run_dir / "agents" / "agent_0"
    before = (agent / "README.md").read_bytes()
    with pytest.raises(ConfigError, match="which others do not have; add --merge"):
        hub.require_loadable(agent)
    merging.merge(run_dir, agent, run_dir / "merged")
    hub.push(run_dir / "merged", "me/mine", public)
    assert stand_in.made == {"me/mine": not public} and stand_in.tokens == {SECRET}
    files = stand_in.files["me/mine"]
    assert {"model.safetensors", "config.json", "tokenizer.json", "README.md"} <= files.keys()
    assert not any(SECRET.encode() in content for content in files.values())
    assert tiny_model.encode() not in files["README.md"] + files["config.json"]
    hub.push(agent, "me/adapter", public)
    card = stand_in.files["me/adapter"]["README.md"].decode()
    assert "base_model:" not in card and "library_name: peft" in card
    assert (agent / "README.md").read_bytes() == before
    written = [path for path in run_dir.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in written)


def test_what_the_hub_refuses_is_one_line_without_the_token(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "HfApi", Hub(fails=True))
    monkeypatch.setenv("HF_TOKEN", SECRET)
    with pytest.raises(ConfigError) as caught:
        hub.push(run_dir / "agents/agent_0", "me/mine", False)
    assert str(caught.value) == ("--push-to-hub=me/mine: 401 Client Error for token <token>")
    assert caught.value.__cause__ is None


def test_names_on_the_hub() -> None:
    assert hub.names_for("me/mine", ["agent_0"]) == {"agent_0": "me/mine"}
    assert hub.names_for("me/mine", ["a", "b"]) == {"a": "me/mine-a", "b": "me/mine-b"}
    head = "---\nbase_model: gpt2\ntags: [a]\n---\n\nText\n"
    assert hub.without_local_base(head) == head
    here = head.replace("gpt2", "/home/me/model")
    assert "base_model" not in hub.without_local_base(here) and "Text" in here


@pytest.mark.slow
def test_loaded_agents_answer_as_their_roles(run_dir: Path) -> None:
    agents = load_agents(run_dir)
    assert list(agents) == ["agent_0", "agent_1"] and len(agents) == 2
    one = agents["agent_1"].answer(SAID, seed=3)
    assert isinstance(one, str) and agents["agent_1"].answer([SAID], seed=3) == [one]
    greedy = {agents["agent_0"].answer(SAID, greedy=True, seed=seed) for seed in range(4)}
    assert len(greedy) == 1
    assert len({agents["agent_0"].answer(SAID, seed=seed) for seed in range(4)}) > 1
    pioneer, observer = agents.together(SAID, seed=1)
    assert (pioneer.agent, pioneer.role) == ("agent_0", "pioneer")
    assert (observer.agent, observer.role, observer.round) == ("agent_1", "observer", 1)
    _, turn = agents.episodes(SAID, agents._interaction(), seed=1)[0].turns
    assert turn.context == f"{pioneer.text}: {SAID}" or pioneer.text in turn.context
    with pytest.raises(KeyError, match="agent_7: there are agent_0, agent_1"):
        _ = agents["agent_7"]
    for words, part in (
        (("",), "a prompt is empty"),
        ((SAID * 40,), "exceed the context of model="),
    ):
        with pytest.raises(ConfigError, match=part):
            agents["agent_0"].answer(*words)
    with pytest.raises(ConfigError, match="max_tokens must be at least 1"):
        agents["agent_0"].answer(SAID, max_tokens=0)


@pytest.mark.slow
def test_agents_that_are_not_there_are_refused(run_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no run"):
        load_agents(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="device=cuda:3: this machine has none"):
        load_agents(run_dir, device="cuda:3")
    weights = run_dir / "agents/agent_0/adapter_model.safetensors"
    content = load_file(weights)
    save_file({key: value for key, value in [*content.items()][1:]}, weights)
    with pytest.raises(ConfigError, match="the adapter has no weights for"):
        load_agents(run_dir)
    shutil.rmtree(run_dir / "agents")
    with pytest.raises(ConfigError, match="the run has no agents"):
        load_agents(run_dir)
    assert json.loads((run_dir / "record.json").read_text())["seed"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("quantisation", ["none", "nf4"])
def test_a_base_in_4_bits_is_merged_as_the_adapter_was_trained_on_it(
    config_of: Callable[..., Config],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    quantisation: str,
) -> None:
    llama = save_llama(tmp_path / "llama")
    words = ("model.sharing=adapters", f"model.quantisation={quantisation}")
    config = config_of(f"model.path={llama}", *words, "model.adapter.targets=null")
    team = Team(config.model, torch.device("cpu"))
    (model,) = team.new_models(["agent_0"], torch.Generator())
    for name, weight in model.lm.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    agent = tmp_path / "agent_0"
    export(model, team.tokenizer, agent, config.model.path, "card")
    monkeypatch.setattr(merging, "base_of_agent", lambda run_dir, agent: (config, config.model))
    found = merging.merge(tmp_path, agent, tmp_path / "merged")
    assert found.merged < 1e-3 < 0.1 < found.trained
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert not [m for m in plain.modules() if type(m).__name__ == "Linear4bit"]
    ids = torch.tensor([[1, 40, 41, 50, 60]])
    with torch.no_grad():
        model.activate()
        inside = model.lm(ids).logits
    assert (logits(plain, ids) - inside).abs().max() < 1e-3
    exact = AutoModelForCausalLM.from_pretrained(llama)
    ours = plain.model.layers[0].mlp.up_proj.weight  # PEFT adapts others by default
    assert torch.equal(ours, exact.model.layers[0].mlp.up_proj.weight) == (quantisation == "none")


@pytest.mark.slow
def test_no_library_speaks_before_the_script(tmp_path: Path) -> None:
    """As users start it: peft imports what warns of a package that nothing here needs."""
    command = [sys.executable, "scripts/export.py", str(tmp_path), "--merge"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
