"""Who speaks when and sees what; chat messages stay in front of everything."""

from types import SimpleNamespace
from typing import Any

import pytest

from cory.algorithms.cory import Roles, build_cory, pioneer_observer, shared_sum
from cory.algorithms.ppo import build_ppo
from cory.config import ConfigError
from cory.episode import Asked, Context, Prompt, Turn
from cory.functional.credit import mean_over_agents, own_and_later, own_score
from cory.rollout.debate_prompts import Chat, Graded, Plain
from cory.rollout.scheduler import Play, single_turn
from cory.seeding import Streams
from cory.tasks.prompts import PromptsForm
from tests.support.composing import parsed
from tests.support.speaking import Script

PROMPTS = [Prompt("a", "Once", answer="SECRET"), Prompt("b", "Never", answer="SECRET")]


def numbered(agent: str, asked: Asked) -> str:
    """` <agent><n>` about the n-th prompt."""
    return f" {agent}{'ab'.index(asked.prompt)}"


def quote(query: str, answers: Any) -> str:
    return f"[{query}|{'|'.join(answers)}]"


BARE = ["Once", "Never"]
TWO = ["[Once| x0]", "[Never| x1]"]
THREE = ["[Once| x0| y0]", "[Never| x1| y1]"]


@pytest.mark.parametrize(
    ("agents", "transfer", "shown"),
    [
        ("xy", False, [("x", "pioneer", 0, BARE), ("y", "observer", 1, BARE)]),
        (
            "xyz",
            True,
            [("x", "pioneer", 0, BARE), ("y", "observer_1", 1, TWO), ("z", "observer_2", 2, THREE)],
        ),
    ],
)
def test_pioneer_observer(agents: str, transfer: bool, shown: list[Any]) -> None:
    script = Script(numbered)
    play = pioneer_observer(Roles(agents), quote if transfer else None)
    episodes = script.play(play, PROMPTS)
    assert script.shown == shown
    assert not any("SECRET" in context for *_, contexts in script.shown for context in contexts)
    for n, episode in enumerate(episodes):
        assert episode.prompt is PROMPTS[n]
        assert [t.agent for t in episode.turns] == list(agents)
        assert [t.context for t in episode.turns] == [contexts[n] for *_, contexts in shown]
        assert [t.response for t in episode.turns] == [f" {agent}{n}" for agent in agents]


def arranged(*overrides: str) -> tuple[Any, list[Any]]:
    """The trainer that an algorithm's builder arranges, and the agents; no models."""
    config = parsed(*overrides)
    agents: list[Any] = []

    def new_policies(names: list[str]) -> dict[str, Any]:
        agents.extend(SimpleNamespace(name=name) for name in names)
        return {agent.name: agent for agent in agents}

    parts = SimpleNamespace(config=config, reward=None, streams=Streams(0), carried={})
    parts.task = SimpleNamespace(observer_context=quote)
    parts.new_policies = new_policies
    build: Any = build_ppo if config.algorithm.name == "ppo" else build_cory
    return build(config.algorithm, parts), agents


def pioneers(trainer: Any, iterations: int) -> list[int]:
    """The number of the agent that speaks first in each iteration."""
    numbers = []
    for iteration in range(iterations):
        script = Script(numbered)
        script.play(trainer.play, PROMPTS)
        numbers.append(int(script.shown[0][0].removeprefix("agent_")))
        trainer.after_step(iteration)
    return numbers


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], [0] * 5 + [1] * 5 + [0] * 5),
        (["algorithm.swap_every=1"], [0, 1] * 7 + [0]),
        (["algorithm.swap_every=null"], [0] * 15),
        (["algorithm.agents=3"], [0] * 5 + [1] * 5 + [2] * 5),
        (["algorithm=ppo"], [0] * 15),
    ],
)
def test_who_is_pioneer_when(overrides: list[str], expected: list[int]) -> None:
    assert pioneers(arranged(*overrides)[0], 15) == expected


@pytest.mark.parametrize(
    ("overrides", "credit", "last_context"),
    [
        ([], shared_sum, "[Once| agent_00]"),
        (["algorithm.knowledge_transfer=false"], shared_sum, "Once"),
        (["algorithm.credit=mean"], mean_over_agents, "[Once| agent_00]"),
        (["algorithm.credit=later"], own_and_later, "[Once| agent_00]"),
        (["algorithm.collective_reward=false"], own_score, "[Once| agent_00]"),
        (["algorithm=ppo"], own_score, "Once"),
    ],
)
def test_what_a_builder_arranges(overrides: list[str], credit: Any, last_context: str) -> None:
    trainer, agents = arranged(*overrides)
    assert trainer.assign_credit is credit
    script = Script(numbered)
    script.play(trainer.play, PROMPTS)
    assert [agent for agent, *_ in script.shown] == [agent.name for agent in agents]
    assert script.shown[-1][3][0] == last_context


OWN = ("task=prompts", "task.path=x", "task.held_out_share=0.5", "reward=sentiment")
BEFORE = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "Hello?"},
    {"role": "assistant", "content": "Yes."},
]
ASKED = {"role": "user", "content": "Why?"}
PROMPT = Prompt("a", "Why?", "So", {"x": [1, {"y": None}]}, (*BEFORE, ASKED))
PLAIN = Prompt("b", "Why?")


def turn(agent: str, response: str) -> Turn:
    return Turn(agent, "debater", 0, "", response, [1], [2])


ROUNDS = [[turn("a", "one"), turn("b", "two")], [turn("a", "three"), turn("b", "four")]]


def heard(play: Play, *prompts: Prompt) -> list[Context]:
    """What agents are shown, one after the other."""
    script = Script(lambda agent, asked: f"by {agent}")
    script.play(play, prompts)
    return [context for *_, contexts in script.shown for context in contexts]


def test_a_single_turn_and_an_observer() -> None:
    assert heard(single_turn("a"), PROMPT, PLAIN) == [[*BEFORE, ASKED], "Why?"]
    form = PromptsForm(parsed(*OWN, "task.observer_template='{answers}: {query}'").task)
    both = pioneer_observer(Roles(["a", "b"]), form.observer_context)
    said = "by a: Why?"
    last = [[*BEFORE, {"role": "user", "content": said}], said]
    assert heard(both, PROMPT, PLAIN)[2:] == last
    assert heard(pioneer_observer(Roles(["a", "b"]), None), PROMPT) == [[*BEFORE, ASKED]] * 2


def test_a_debate_begins_with_all_messages_however_little_fits() -> None:
    words = parsed("algorithm=maporl", "algorithm.guards.min_tokens=null").algorithm.prompts
    contexts = list(Chat(Graded(words, False)).contexts(PROMPT, ROUNDS, 0))
    assert all(context[:4] == [*BEFORE, ASKED] for context in contexts)
    assert [len(context) for context in contexts] == [8, 6, 6, 4]


def test_a_model_that_does_not_chat_cannot_be_shown_messages() -> None:
    form = PromptsForm(parsed(*OWN).task)
    assert list(Plain(form).contexts(PLAIN, [], 0)) == ["Why?"]
    with pytest.raises(
        ConfigError, match=r"^prompt a is made of chat messages, .* that of members"
    ):
        list(Plain(form).contexts(PROMPT, [], 0))
