"""Debates with a summariser, and agents with names: who is shown exactly what."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cory.config import MaftPrompts
from cory.episode import Context, Turn
from cory.rollout.debate import Debate
from cory.rollout.debate_prompts import Chat, DebateWording, Plain
from cory.rollout.maft_prompts import Identified, SumUp, Told
from tests.rollout.test_debate import PROMPTS, Quoting, Script, own, user

WORDS = MaftPrompts(
    chats_only=False,
    follow_up="Others: {others} Again: {query}",
    follow_up_summary="In short: {summary} Again: {query}",
    follow_up_alone="Check it. Again: {query}",
    other="[{number}] {response}",
    separator=" | ",
    summarise="Sum up: {others}",
    hint="{query} It is {answer}.",
    generation_id="GEN{number}: ",
    critic_id="CRIT{number}: ",
)


def debate(
    agents: int, turns: int, summary: bool, wording: DebateWording | None = None, room: int = 10**6
) -> Debate:
    chat = wording or Chat(Told(WORDS))
    return Debate(
        agents,
        turns,
        speaker=lambda turn, agent: f"p{turn}{agent}",
        wording=lambda agent: chat,
        fits=lambda agent, context: len(str(context)) <= room,
        read=lambda response: response,
        consensus=None,
        judge=None,
        summariser=SumUp(WORDS, "base") if summary else None,
    )


class Speaking(Script):
    """As `Script`; a summary says of whom it is."""

    def __call__(
        self, speaker: str, role: str, round: int, contexts: Sequence[Context | None]
    ) -> list[Turn]:
        turns = super().__call__(speaker, role, round, contexts)
        if speaker == "base":
            for number, turn in enumerate(turns):
                turn.response = f" S{round}{role[-1]}{number} "
        return turns


def test_others_answers_are_summed_up_for_each_agent() -> None:
    script = Speaking()
    held = debate(3, 3, summary=True)
    episodes = held(PROMPTS, script)
    order = [(who, role, turn) for who, role, turn, _ in script.shown]
    assert order[:5] == [
        ("p00", "debater_0", 0),
        ("p01", "debater_1", 0),
        ("p02", "debater_2", 0),
        ("base", "summariser_0", 1),
        ("p10", "debater_0", 1),
    ]
    assert len(order) == held.places == 3 * 3 + 3 * 2
    assert script.shown[5][3] == ["Sum up: [1] 0a0 | [2] 0c0", "Sum up: [1] 0a1 | [2] 0c1"]
    opening = user("How many?")
    first = [opening, own("0b0"), user("In short: S110 Again: How many?")]
    assert script.shown[6][3][0] == first
    # in the last turn the agent's earlier answers and summaries are still there
    assert script.shown[12][3][0] == [
        *first,
        own("1b0"),
        user("In short: S210 Again: How many?"),
    ]
    # summaries are no answers
    assert [turn.response for turn in episodes[0].turns][3:6] == ["1a0", "1b0", "1c0"]
    assert [turn.summary for turn in episodes[0].turns][2:5] == [None, "S100", "S110"]


@pytest.mark.parametrize(
    ("agents", "summary", "last"),
    [
        (3, False, "Others: [1] 0b0 | [2] 0c0 Again: How many?"),
        (1, True, "Check it. Again: How many?"),  # nobody sums up
    ],
)
def test_without_summaries_the_answers_themselves_are_shown(
    agents: int, summary: bool, last: str
) -> None:
    script = Script()
    held = debate(agents, 2, summary=summary)
    held(PROMPTS, script)
    assert held.places == len(script.shown) == 2 * agents
    assert script.shown[agents][3][0] == [user("How many?"), own("0a0"), user(last)]


def test_a_summary_stands_for_the_others_where_models_do_not_chat() -> None:
    script = Speaking()
    debate(3, 2, summary=True, wording=Plain(Quoting()))(PROMPTS, script)  # type: ignore[arg-type]
    assert script.shown[6][3][0] == "How many? 0b0 S110"


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    script = Speaking()
    held = debate(3, 2, summary=True, room=20)  # "Sum up: [1] 0a0" has 15
    (episode,) = held(PROMPTS[:1], script)
    assert script.shown[5][3] == ["Sum up: [1] 0a0"]
    assert script.shown[6][3] == [[user("How many?")]]
    assert [turn.shortened for turn in episode.turns] == [False] * 3 + [True] * 3


def test_where_no_answer_can_be_summed_up_the_answers_themselves_are_shown() -> None:
    """A summariser's prompt has no bare question to fall back to: one long answer fills it."""
    script = Speaking()
    held = debate(3, 2, summary=True, room=250)
    long = "x" * 250

    def speak(
        speaker: str, role: str, round: int, contexts: Sequence[Context | None]
    ) -> list[Turn]:
        turns = script(speaker, role, round, contexts)
        if (role, round) == ("debater_0", 0):
            turns[0].response = long  # in the first of both debates
        return turns

    first, second = held(PROMPTS, speak)
    summed = {role: contexts for who, role, _, contexts in script.shown if who == "base"}
    assert summed["summariser_0"] == ["Sum up: [1] 0b0 | [2] 0c0", "Sum up: [1] 0b1 | [2] 0c1"]
    assert summed["summariser_1"] == [None, "Sum up: [1] 0a1 | [2] 0c1"]
    shown = {role: contexts for _, role, round, contexts in script.shown if round == 1}
    assert shown["debater_1"][0] == [
        user("How many?"),
        own("0b0"),
        user("Check it. Again: How many?"),
    ]
    assert "S111" in str(shown["debater_1"][1])
    assert [turn.summary for turn in first.turns[3:]] == ["S100", None, None]
    assert [turn.shortened for turn in first.turns[3:]] == [True] * 3  # its own, too
    assert not any(turn.shortened for turn in second.turns)


def test_names_stand_before_every_message() -> None:
    script = Script()
    named = Identified(Chat(Told(WORDS)), WORDS, 2, critics=lambda turn: turn > 0)
    debate(2, 3, summary=False, wording=named)(PROMPTS, script)
    assert script.shown[1][3][0] == [user("GEN2: How many?")]
    assert script.shown[5][3][0] == [
        *(user("GEN2: How many?"), own("0b0")),
        *(user("CRIT2: Others: [1] 0a0 Again: How many?"), own("1b0")),
        user("CRIT2: Others: [1] 1a0 Again: How many?"),
    ]


def test_names_stand_before_texts() -> None:
    script = Script()
    plain = Identified(Plain(Quoting()), WORDS, 1, critics=lambda turn: turn > 0)  # type: ignore[arg-type]
    debate(2, 2, summary=False, wording=plain)(PROMPTS, script)
    assert script.shown[0][3][0] == "GEN1: How many?"
    assert script.shown[2][3][0] == "CRIT1: How many? 0a0 0b0"
