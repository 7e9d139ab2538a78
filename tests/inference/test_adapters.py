"""Agents of a finished run with adapters answer, in their roles or alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from cory.inference import load_team
from tests.support.commands import last_wins
from tests.support.warm import WarmCommand

SAID = "the movie was a good film"


@pytest.mark.slow
def test_loaded_agents_answer_as_their_roles(short: list[str], tmp_path: Path) -> None:
    words = [*short, "algorithm=cory", "run_dir=x"]
    words += ["model.sharing=adapters", "algorithm.learning_rate=0.03"]
    command = WarmCommand(tmp_path, last_wins(words))
    assert command.wait() == 0, command.err
    team = load_team(tmp_path / "x")
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
