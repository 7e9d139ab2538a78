"""scripts/observer_kl.py: an observer's KL to a reference that reads the answer, or does not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from cory.config import ConfigError
from cory.episode import Prompt
from cory.inference.agents import Agents, load_agents
from cory.inference.observer_kl import distances
from cory.rollout.interactions import Roles, pioneer_observer
from tests.support.commands import last_wins, short_settings
from tests.support.warm import WarmCommand, run_script

pytestmark = pytest.mark.slow

PROMPTS = [Prompt("0", "the movie was"), Prompt("1", "this film"), Prompt("2", "a good")]


@pytest.fixture(scope="module")
def run_dir(
    tiny_model: str, tiny_judge: str, reviews_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A finished run of CORY that is far from its reference."""
    folder = tmp_path_factory.mktemp("observed")
    words = [*short_settings(tiny_model, tiny_judge, reviews_file), "algorithm=cory", "run_dir=x"]
    command = WarmCommand(folder, last_wins([*words, "algorithm.learning_rate=0.03"]))
    assert command.wait() == 0, command.err
    return folder / "x"


def log_probability(model: torch.nn.Module, context: list[int], response: list[int]) -> float:
    """By the definition, one response at a time."""
    ids = torch.tensor([[*context, *response]])
    with torch.no_grad():
        logits = model(ids, attention_mask=torch.ones_like(ids)).logits[0].float()
    steps = logits[len(context) - 1 : -1].log_softmax(-1)
    return float(steps[range(len(response)), response].sum())


def by_hand(agents: Agents, first: str, second: str, seed: int) -> list[tuple[float, float]]:
    """Mean log-ratios of both: to a reference that reads the same, and to one without answers."""
    roles = partial(pioneer_observer, roles=Roles([first, second]))
    observer_context = agents.form.observer_context
    episodes = agents.episodes(
        PROMPTS, partial(roles, observer_context=observer_context), seed=seed
    )
    base = agents.teams["model"].pretrained
    found = []
    for place, name in enumerate((first, second)):
        model = agents.policies[name].model.lm
        pairs = [(e.turns[place], e.turns[0].context_ids) for e in episodes]
        own = [log_probability(model, t.context_ids, t.response_ids) for t, _ in pairs]
        read = [log_probability(base, t.context_ids, t.response_ids) for t, _ in pairs]
        bare = [log_probability(base, ids, t.response_ids) for t, ids in pairs]
        count = len(pairs)
        found.append(((sum(own) - sum(read)) / count, (sum(own) - sum(bare)) / count))
    return found


def test_distances_by_hand(run_dir: Path) -> None:
    agents = load_agents(run_dir)
    found = distances(agents, PROMPTS, seed=3)
    assert [(one.agent, one.role) for one in found] == [
        *(("agent_0", "pioneer"), ("agent_1", "observer")),
        *(("agent_1", "pioneer"), ("agent_0", "observer")),
    ]
    expected = [
        *by_hand(agents, "agent_0", "agent_1", 3),
        *by_hand(agents, "agent_1", "agent_0", 3),
    ]
    for one, (read, bare) in zip(found, expected, strict=True):
        assert (one.read, one.bare) == pytest.approx((read, bare), abs=1e-3)
        assert (abs(one.read - one.bare) < 1e-3) == (one.role == "pioneer")
    assert all(abs(one.read) > 0.1 for one in found)  # they have left the reference


def test_where_nobody_reads_there_is_nothing_to_compare(run_dir: Path) -> None:
    agents = load_agents(run_dir)
    algorithm = replace(agents.config.algorithm, knowledge_transfer=False)
    agents.config = replace(agents.config, algorithm=algorithm)
    with pytest.raises(ConfigError, match="in which nobody reads another's answer"):
        distances(agents, PROMPTS, seed=0)


def test_the_command_has_a_line_for_each_agent_in_each_role(run_dir: Path) -> None:
    done = run_script("scripts/observer_kl.py", str(run_dir), "--prompts", "5")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[:2] for row in rows] == [
        *(["agent_0", "pioneer"], ["agent_1", "observer"]),
        *(["agent_1", "pioneer"], ["agent_0", "observer"]),
    ]
    assert all(row[2] == row[3] for row in rows if row[1] == "pioneer")
    refused = run_script("scripts/observer_kl.py", str(run_dir), "--prompts", "0")
    assert (
        refused.returncode == 2 and refused.stderr == "error: --prompts must be at least 1, got 0\n"
    )
