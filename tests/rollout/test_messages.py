"""Prompts that are chat messages: what comes before the last one stays in front of everything."""

from __future__ import annotations

import pytest

from cory.algorithms.cory import Roles, pioneer_observer
from cory.config import ConfigError
from cory.episode import Context, Prompt, Turn
from cory.rollout.debate_prompts import Chat, Graded, Plain
from cory.rollout.scheduler import Play, single_turn
from cory.tasks.prompts import PromptsForm
from tests.support.composing import parsed
from tests.support.speaking import Script

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
