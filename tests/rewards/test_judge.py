"""reward=judge: a chat model grades, its grades are read, and each is paid for once."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cory.episode import Episode, Prompt, Turn
from cory.rewards import RunFacts
from cory.rewards.judge import Judge
from tests.support.chat_server import Body, ChatServer, Said, judge, reply
from tests.support.composing import parsed
from tests.support.refusals import refusal
from tests.support.speaking import solo_episodes

Start = Callable[..., tuple[ChatServer, Judge]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """`start(answer, **settings)`: a server that answers so, and a judge with a cache."""

    def make(answer: Callable[[int, Body], Said], **settings: Any) -> tuple[ChatServer, Judge]:
        server = ChatServer(answer)
        return server, Judge(judge(server, **settings), None, None, RunFacts(tmp_path, 9))

    return make


def words(number: int, body: Body) -> Said:
    """A grade for each letter of the answer."""
    return reply(f"So it is.\nGrade: {len(body['messages'][-1]['content'].split('|')[1])}")


def scores(reward: Judge, *texts: str) -> list[float | None]:
    rows = solo_episodes(*texts)
    rows.append(Episode(Prompt("absent", "q"), [Turn("agent_0", "solo", 0, "q", "", [1], [])]))
    reward.score(rows)
    assert rows.pop().turns[0].score is None
    return [turn.score for episode in rows for turn in episode.turns]


def test_grades_become_scores(start: Start) -> None:
    server, reward = start(words)
    assert scores(reward, "abc", "abcdefghij", "") == [0.3, 1.0, 0.0]
    messages = next(b["messages"] for b in server.asked if b["messages"][1]["content"][-1] == "c")
    assert messages == [
        {"role": "system", "content": "Give Grade: from 0 to 10."},
        {"role": "user", "content": "asked 0|abc"},
    ]
    _, plain = start(words, output="grade", request="{query}|{response}|{answer}", lowest=-5.0)
    assert scores(plain, "abc") == [3.0]


def test_all_messages_of_a_chat_are_shown(start: Start) -> None:
    server, reward = start(words)
    rows = solo_episodes("abc", "abcd")
    one = {"role": "user", "content": "asked"}
    rows[0].prompt = replace(rows[0].prompt, messages=(one,))
    rows[1].prompt = replace(rows[1].prompt, messages=({"role": "system", "content": "be"}, one))
    reward.score(rows)
    assert server.texts() == ["asked 0|abc", "system: be\n\nuser: asked|abcd"]


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("Grade: 3\nNo. Grade: 8", 8.0),
        ("**Grade:** 6", 6.0),
        ("Grade: **4.5** of 10", 4.5),
        ("Grade: 11", None),
        ("Grade: -1", None),
        ("Grade: 1.2.3", None),
        ("Grade: 8 at first, but then\nGrade: none", 8.0),
    ],
)
def test_the_last_marked_number_in_range_is_the_grade(start, text, grade) -> None:
    _, reward = start(words, output="grade")
    assert reward.worth(text) == grade


def test_the_same_response_is_paid_for_once(start: Start, tmp_path: Path) -> None:
    server, reward = start(words)
    assert scores(reward, "ab", "ab") == [0.2, 0.2]
    again = Judge(reward.config, None, None, RunFacts(tmp_path, 9))
    assert scores(again, "ab", "abc") == [0.2, 0.3]
    assert len(server.asked) == 3  # two prompts, and another answer to the second one
    part = Judge(reward.config, None, None, RunFacts(tmp_path, 9, "taste"))
    assert scores(part, "ab") == [0.2] and len(server.asked) == 4
    assert {path.name for path in tmp_path.iterdir()} == {"judge.jsonl", "judge_taste.jsonl"}


def test_without_a_grade_it_is_the_lowest(start: Start) -> None:
    def one_grade(number: int, body: Body) -> Said:
        return words(number, body) if "abcd" in str(body) else reply("Hm, hard to say")

    _, reward = start(one_grade, lowest=-10.0)
    assert scores(reward, "abcd", "ab") == [0.7, 0.0]
    assert reward.metrics() == {"reward/tokens": 15, "reward/unreadable": 0.5}
    assert reward.metrics() == {}
    _, plain = start(one_grade, lowest=-10.0, output="grade")
    assert scores(plain, "abcd", "ab") == [4.0, -10.0]


MODEL = "reward.endpoint.model=wise"


def test_requests_that_cannot_be_are_refused() -> None:
    request = "reward.request='{query} {reply}'"
    said = refusal(lambda: parsed("reward=judge", MODEL, request))
    assert said.startswith("reward.request=") and "must contain {response}" in said
    request = "reward.request='{query} {response} {answer!s}'"
    assert "needs a task with answers" in refusal(lambda: parsed("reward=judge", MODEL, request))
