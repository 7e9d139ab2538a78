"""Agents of a finished run with adapters answer, in their roles or alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from cory.inference import load_team
from tests.support.commands import last_wins
from tests.support.refusals import refusal
from tests.support.warm import WarmCommand

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
    assert pioneer.text in observer.context


@pytest.mark.slow
def test_an_adapter_without_its_weights_is_refused(run_dir: Path) -> None:
    weights = run_dir / "agents/agent_0/adapter_model.safetensors"
    content = load_file(weights)
    save_file({key: value for key, value in [*content.items()][1:]}, weights)
    assert "the adapter has no weights for" in refusal(lambda: load_team(run_dir))
