"""What an agent is called wherever a user looks at a run: on screen, in tables, in curves.png.

Pages of docs/results call agents as the papers do.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from cory.rollout.interactions import PIONEER

ROLE = "role/"  # begins the metrics that hold an agent's place in the order of speaking
# whom a metric is about, of whatever name: not a role, nor all agents together
POLICY = r"(?!(?:pioneer|observer(?:_\d+)?|team)$)[^/]+"
KINDS = {"generation": "generation agent", "critic": "critic agent", "agent": "agent"}


def agent_name(agent: str, roles: Mapping[str, str] | None = None) -> str:
    """`agent 0`, with its role where it has one: `agent 0 (pioneer)`.

    agent: as in names of metrics: agent_0, agent_0_turn_2, turn_2, generation_0, critic_1
    roles: agent -> role, of those that have one
    """
    found = re.fullmatch(r"(?:(agent|generation|critic)_(\d+))?_?(?:turn_(\d+))?", agent)
    if not agent or found is None:
        return agent.replace("_", " ")
    kind, number, turn = found.groups()
    words = [f"{KINDS[kind]} {number}"] if kind else []
    name = ", ".join([*words, *([f"turn {turn}"] if turn else [])])
    role = (roles or {}).get(agent)
    return f"{name} ({role.replace('_', ' ')})" if role else name


def roles_in(lines: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The role that each agent had last, by lines of metrics; none where agents have no roles."""
    places: dict[str, int] = {}
    for line in lines:
        for key, value in line.items():
            if key.startswith(ROLE):
                places[key.removeprefix(ROLE)] = int(value)
    several = len(places) > 2
    return {
        agent: PIONEER if place == 0 else f"observer {place}" if several else "observer"
        for agent, place in places.items()
    }


def split_name(metric: str) -> tuple[str, str]:
    """A metric, and whom it is about: `eval/score/agent_0` is `eval/score` of `agent_0`.

    Metrics of the whole iteration, such as `debate/shortened` and what a reward function logs
    (`reward/logged/<name>`), are about nobody: "".
    """
    name, _, who = metric.rpartition("/")
    return (metric, "") if "/" not in name or "/logged/" in metric else (name, who)
