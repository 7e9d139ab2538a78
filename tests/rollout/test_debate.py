"""Debates: who spoke, in which order, seeing exactly what; with scripts instead of models."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pytest

from cory.config import ConfigError, DebatePrompts, MaftPrompts
from cory.episode import Asked, Context, Episode, Prompt, Turn
from cory.rollout.debate import Debate
from cory.rollout.debate_prompts import Chat, DebateWording, Graded, Identified, Plain, SumUp, Told
from tests.support.speaking import Script

PROMPTS = [Prompt("0", "How many?", "SECRET"), Prompt("1", "How much?", "SECRET")]
WORDS = DebatePrompts(
    follow_up="{own_feedback}Others: {others} Again: {query}",
    follow_up_alone="{own_feedback}Check it. Again: {query}",
    other="[{number}] {response}{feedback}",
    separator=" | ",
    own_feedback="You got {score}, {grade}. ",
    feedback=" ({number} got {score}, {grade})",
    grades=["bad", "poor", "fair", "good"],
    grade_bounds=[0.3, 0.6, 0.8],
)


def marked(agent: str, asked: Asked) -> str:
    """`<turn><agent><prompt>`; a summary says of whom it is."""
    letter = "abcdef"[int(asked.role.rpartition("_")[2])]
    if agent == "base":
        return f" S{asked.round}{asked.role[-1]}{asked.prompt} "
    return f"{asked.round}{letter}{asked.prompt}"


class Quoting:
    """A task that knows how to show answers."""

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        return f"{query} {' '.join(answers)}"


def debate(agents: int, turns: int, wording: Any, **more: Any) -> Debate:
    settings: dict[str, Any] = {
        "speaker": lambda turn, agent: f"p{turn}{agent}",
        "wording": lambda name, agent: wording,
        "limit": 7,
        "read": lambda response: response,
        "consensus": None,
    }
    return Debate(agents, turns, **{**settings, **more})


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def own(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


CHAT = Chat(Graded(WORDS, feedback=False))


def test_two_agents_and_three_turns_in_a_chat() -> None:
    script = Script(marked)
    episodes = script.play(debate(2, 3, CHAT).play, PROMPTS)
    assert [(who, role, turn) for who, role, turn, _ in script.shown] == [
        (f"p{turn}{agent}", f"debater_{agent}", turn) for turn in range(3) for agent in range(2)
    ]

    def exchange(turn: int, mine: str, other: str, n: int, query: str) -> list[dict[str, str]]:
        told = f"Others: [1] {turn}{other}{n} Again: {query}"
        return [own(f"{turn}{mine}{n}"), user(told)]

    # nobody sees in turn t what others say in turn t
    for place, (*_, contexts) in enumerate(script.shown):
        turns, (mine, other) = place // 2, ("ab", "ba")[place % 2]
        for n, prompt in enumerate(PROMPTS):
            before = [exchange(turn, mine, other, n, prompt.text) for turn in range(turns)]
            assert contexts[n] == [user(prompt.text), *chain(*before)]
    for n, episode in enumerate(episodes):
        assert episode.prompt is PROMPTS[n]
        said = [turn.response for turn in episode.turns]
        assert said == [f"{text}{n}" for text in ("0a", "0b", "1a", "1b", "2a", "2b")]
    assert "SECRET" not in repr(script.shown)


def test_without_chat_the_latest_answers_stand_in_the_tasks_own_form() -> None:
    script = Script(marked)
    script.play(debate(3, 3, Plain(Quoting())).play, PROMPTS)  # type: ignore[arg-type]
    assert [shown[3][0] for shown in script.shown[:1] + script.shown[4:5] + script.shown[7:8]] == [
        "How many?",
        "How many? 0b0 0a0 0c0",  # one's own first
        "How many? 1b0 1a0 1c0",
    ]


def test_feedback_is_said_in_words() -> None:
    scores = {"0a0": 0.29, "0b0": 0.3, "0a1": 0.6, "0b1": 0.8}

    class Judge:
        def score(self, episodes: list[Episode]) -> None:
            assert [len(episode.turns) for episode in episodes] == [2, 2]
            for turn in (turn for episode in episodes for turn in episode.turns):
                turn.score = scores.get(turn.response, 0.0)

    script = Script(marked)
    graded = debate(2, 2, Chat(Graded(WORDS, feedback=True)), scored=True)
    script.play(graded.play, PROMPTS, Judge())
    assert script.shown[2][3] == [
        [
            *(user("How many?"), own("0a0")),
            user("You got 0.290, bad. Others: [1] 0b0 (1 got 0.300, poor) Again: How many?"),
        ],
        [
            *(user("How much?"), own("0a1")),
            user("You got 0.600, fair. Others: [1] 0b1 (1 got 0.800, good) Again: How much?"),
        ],
    ]


def shortest_views(chat: Chat | Plain, agents: int, turns: int) -> list[Context]:
    """What agent 0 would be shown before the last turn, from the whole view on."""
    rounds = [
        [Turn("p", f"debater_{a}", t, "", f"{t}{'abc'[a]}", [1], [1]) for a in range(agents)]
        for t in range(turns - 1)
    ]
    found: Iterator[Context] = chat.contexts(PROMPTS[0], rounds, 0)
    return list(found)


def test_a_long_chat_loses_its_oldest_exchanges_then_others_never_the_question() -> None:
    opening = user("How many?")
    last = [own("1a"), user("Others: [1] 1b | [2] 1c Again: How many?")]
    assert shortest_views(CHAT, 3, 3) == [
        [opening, own("0a"), user("Others: [1] 0b | [2] 0c Again: How many?"), *last],
        [opening, *last],
        [opening, own("1a"), user("Others: [1] 1b Again: How many?")],
        [opening, own("1a"), user("Check it. Again: How many?")],
        [opening],
    ]


def test_a_long_plain_view_loses_others_from_the_last_then_ones_own() -> None:
    assert shortest_views(Plain(Quoting()), 3, 3) == [  # type: ignore[arg-type]
        "How many? 1a 1b 1c",
        "How many? 1a 1b",
        "How many? 1a",
        "How many?",
    ]


def test_what_had_to_be_left_out_is_counted() -> None:
    script = Script(marked, lambda agent, context, limit: len(context) + limit < 12)
    episodes = script.play(debate(2, 3, CHAT).play, PROMPTS)
    # three messages at the second turn; at the third another two do not fit
    cut = [turn.shortened for episode in episodes for turn in episode.turns]
    assert (len(cut), sum(cut)) == (12, 4)
    assert script.shown[4][3][0] == [
        *(user("How many?"), own("1a0"), user("Others: [1] 1b0 Again: How many?"))
    ]
    # only the speaker's own room counts
    script.room = lambda agent, context, limit: agent == "p00"
    script.play(debate(2, 2, CHAT).play, PROMPTS)
    assert script.shown[-1][3] == [[user("How many?")], [user("How much?")]]


def test_a_debate_ends_when_enough_agree() -> None:
    script, first = Script(marked), ("0a0", "0b0")
    held = debate(2, 3, CHAT, consensus=1.0, read=lambda said: "" if said in first else said)
    episodes = script.play(held.play, PROMPTS)
    # the first prompt's debate is over, the other one goes on
    assert [len(contexts) for *_, contexts in script.shown] == [2, 2, 1, 1, 1, 1]
    assert [turn.absent for turn in episodes[0].turns] == [False] * 2 + [True] * 4
    assert [turn.agent for turn in episodes[0].turns] == [t.agent for t in episodes[1].turns]
    assert not any(turn.absent for turn in episodes[1].turns)


def test_what_a_server_finds_too_long_is_asked_again_in_shorter_words() -> None:
    def say(agent: str, asked: Asked) -> str | None:
        return None if len(asked.context) > longest else marked(agent, asked)  # messages

    longest = 3
    script = Script(say)
    (first, _) = script.play(debate(2, 3, CHAT).play, PROMPTS)
    assert [len(contexts[0]) for *_, contexts in script.shown] == [1, 1, 3, 3, 5, 5, 3, 3]
    assert [turn.response for turn in first.turns] == ["0a0", "0b0", "1a0", "1b0", "2a0", "2b0"]
    assert [turn.shortened for turn in first.turns] == [False] * 4 + [True] * 2
    longest = 0
    with pytest.raises(ConfigError, match="prompt 0 as too long, also in its shortest wording"):
        script.play(debate(2, 3, CHAT).play, PROMPTS)


# with a summariser, and agents with names


MAFT_WORDS = MaftPrompts(
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


def maft_debate(
    agents: int, turns: int, summary: bool, wording: DebateWording | None = None
) -> Debate:
    return debate(
        agents,
        turns,
        wording or Chat(Told(MAFT_WORDS)),
        summariser=SumUp(MAFT_WORDS, "base") if summary else None,
    )


def test_others_answers_are_summed_up_for_each_agent() -> None:
    script = Script(marked)
    held = maft_debate(3, 3, summary=True)
    episodes = script.play(held.play, PROMPTS)
    order = [(who, role, turn) for who, role, turn, _ in script.shown]
    assert order[:7] == [
        *((f"p0{agent}", f"debater_{agent}", 0) for agent in range(3)),
        *(("base", f"summariser_{agent}", 1) for agent in range(3)),
        ("p10", "debater_0", 1),
    ]
    assert len(order) == 3 * 3 + 3 * 2
    assert script.shown[4][3] == ["Sum up: [1] 0a0 | [2] 0c0", "Sum up: [1] 0a1 | [2] 0c1"]
    opening = user("How many?")
    first = [opening, own("0b0"), user("In short: S110 Again: How many?")]
    assert script.shown[7][3][0] == first
    # in the last turn the agent's earlier answers and summaries are still there
    assert script.shown[13][3][0] == [*first, own("1b0"), user("In short: S210 Again: How many?")]
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
def test_without_summaries_the_answers_themselves_are_shown(agents, summary, last) -> None:
    script = Script(marked)
    held = maft_debate(agents, 2, summary=summary)
    script.play(held.play, PROMPTS)
    assert len(script.shown) == 2 * agents
    assert script.shown[agents][3][0] == [user("How many?"), own("0a0"), user(last)]


def test_a_summary_stands_for_the_others_where_models_do_not_chat() -> None:
    script = Script(marked)
    held = maft_debate(3, 2, summary=True, wording=Plain(Quoting()))  # type: ignore[arg-type]
    script.play(held.play, PROMPTS)
    assert script.shown[7][3][0] == "How many? 0b0 S110"


def test_where_no_answer_can_be_summed_up_the_answers_themselves_are_shown() -> None:
    """A summariser's prompt has no bare question to fall back to: one long answer fills it."""

    def say(agent: str, asked: Asked) -> str:
        at_first = (asked.role, asked.round) == ("debater_0", 0)  # in the first of both debates
        return "x" * 250 if at_first and asked.prompt == "0" else marked(agent, asked)

    script = Script(say, lambda agent, context, limit: len(str(context)) <= 250)
    held = maft_debate(3, 2, summary=True)
    first, second = script.play(held.play, PROMPTS)
    summed = {role: contexts for who, role, _, contexts in script.shown if who == "base"}
    assert summed["summariser_0"] == ["Sum up: [1] 0b0 | [2] 0c0", "Sum up: [1] 0b1 | [2] 0c1"]
    assert summed["summariser_1"] == ["Sum up: [1] 0a1 | [2] 0c1"]
    shown: dict[str, list[Context]] = {}
    for _, role, round, contexts in script.shown:
        if round == 1:
            shown[role] = [*shown.get(role, []), *contexts]
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
    script = Script(marked)
    named = Identified(Chat(Told(MAFT_WORDS)), MAFT_WORDS, 2, critics=True)
    script.play(maft_debate(2, 3, summary=False, wording=named).play, PROMPTS)
    assert script.shown[1][3][0] == [user("GEN2: How many?")]
    assert script.shown[5][3][0] == [
        *(user("GEN2: How many?"), own("0b0")),
        *(user("CRIT2: Others: [1] 0a0 Again: How many?"), own("1b0")),
        user("CRIT2: Others: [1] 1a0 Again: How many?"),
    ]
    script = Script(marked)
    plain = Identified(Plain(Quoting()), MAFT_WORDS, 1, critics=True)  # type: ignore[arg-type]
    script.play(maft_debate(2, 2, summary=False, wording=plain).play, PROMPTS)
    assert script.shown[0][3][0] == "GEN1: How many?"
    assert script.shown[2][3][0] == "CRIT1: How many? 0a0 0b0"
