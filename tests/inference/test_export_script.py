"""scripts/export.py: adapters merged into their base."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from cory.config import Config
from cory.inference import load_team, merge
from cory.models.bundle import ModelBundle
from cory.runs.export import export
from tests.support.commands import last_wins
from tests.support.llama import save_llama
from tests.support.refusals import refusal
from tests.support.warm import WarmCommand, run_script

SAID = "the movie was a good film"


@pytest.fixture(scope="module")
def made(short: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of CORY with an adapter for each agent."""
    folder = tmp_path_factory.mktemp("made")
    words = [*short, "algorithm=cory", "run_dir=x"]
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
    merge(run_dir, agent, run_dir / "merged")
    merge(run_dir, agent, run_dir / "rounded", "bf16")
    weights = load_file(run_dir / "rounded" / "model.safetensors").values()
    assert {weight.dtype for weight in weights} == {torch.bfloat16}
    ids = AutoTokenizer.from_pretrained(run_dir / "merged")(SAID, return_tensors="pt").input_ids
    base = AutoModelForCausalLM.from_pretrained(tiny_model)
    alone = logits(base, ids)
    adapted = logits(PeftModel.from_pretrained(base, str(agent)).eval(), ids)
    plain = AutoModelForCausalLM.from_pretrained(run_dir / "merged")
    assert (logits(plain, ids) - adapted).abs().max() < 1e-4 < 1e-2 < (adapted - alone).abs().max()
    assert not [*(run_dir / "merged").glob("adapter*")]
    head = "value_head.safetensors"
    assert (run_dir / "merged" / head).read_bytes() == (agent / head).read_bytes()
    assert len({file.stat().st_mode for file in (run_dir / "merged").iterdir()}) == 1
    card = (run_dir / "merged" / "README.md").read_text()
    assert "agent_1" in card and tiny_model not in card
    assert tiny_model not in (run_dir / "merged" / "config.json").read_text()


@pytest.mark.slow
def test_the_script_merges_every_agent_and_says_mistakes_in_one_line(run_dir: Path) -> None:
    script = ("scripts/export.py", str(run_dir))
    done = run_script(*script)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in sorted((run_dir / "merged").iterdir())] == ["agent_0", "agent_1"]
    assert done.stdout.count(" merged\n") == 2
    for words, part in (
        (("--agent", "agent_0"), "agent_0 exists; delete it"),
        (("--agent", "agent_7"), "has agent_0, agent_1"),
    ):
        wrong = run_script(*script, *words)
        assert wrong.returncode == 1
        (line,) = [line for line in wrong.stderr.splitlines() if "WARNING" not in line]
        assert line.startswith("error: ") and part in line, line
    assert "there is no run" in run_script("scripts/export.py", "nowhere").stderr


@pytest.mark.slow
def test_loaded_agents_answer_as_their_roles(run_dir: Path) -> None:
    team = load_team(run_dir)
    assert team.names == ["agent_0", "agent_1"]
    one = team.ask(SAID, "agent_1", seed=3)
    assert team.ask_all([SAID], "agent_1", seed=3) == [one]
    greedy = {team.ask(SAID, "agent_0", greedy=True, seed=seed)[0].text for seed in range(4)}
    assert len(greedy) == 1
    assert len({team.ask(SAID, "agent_0", seed=seed)[0].text for seed in range(4)}) > 1
    pioneer, observer = team.ask(SAID, seed=1)
    assert (pioneer.agent, pioneer.role) == ("agent_0", "pioneer")
    assert (observer.agent, observer.role, observer.round) == ("agent_1", "observer", 1)
    _, turn = team.episodes([SAID], team._play(), seed=1)[0].turns
    assert turn.context == f"{pioneer.text}: {SAID}" or pioneer.text in turn.context


@pytest.mark.slow
def test_an_adapter_without_its_weights_is_refused(run_dir: Path) -> None:
    said = refusal(lambda: load_team(run_dir, device="cuda:3"))
    assert said.startswith("device=cuda:3: this machine has none")
    weights = run_dir / "agents/agent_0/adapter_model.safetensors"
    content = load_file(weights)
    save_file({key: value for key, value in [*content.items()][1:]}, weights)
    assert "the adapter has no weights for" in refusal(lambda: load_team(run_dir))


@pytest.mark.slow
@pytest.mark.parametrize("quantisation", ["none", "nf4"])
def test_a_base_in_4_bits_is_merged_as_the_adapter_was_trained_on_it(
    config_of: Callable[..., Config],
    tmp_path: Path,
    quantisation: str,
) -> None:
    llama = save_llama(tmp_path / "llama")
    words = ("model.sharing=adapters", f"model.quantisation={quantisation}")
    config = config_of(f"model.path={llama}", *words, "model.adapter.targets=null")
    team = ModelBundle(config.model, torch.device("cpu"))
    (model,) = team.new_models(["agent_0"], torch.Generator())
    for name, weight in model.lm.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    agent = tmp_path / "agent_0"
    export(model, team.tokenizer, agent, config.model.path, "card")
    OmegaConf.save(OmegaConf.create(config.model_dump()), tmp_path / "config.yaml")
    merge(tmp_path, agent, tmp_path / "merged")
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
