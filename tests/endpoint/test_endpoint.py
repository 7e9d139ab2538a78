"""A chat model behind an endpoint: asked once for everything, and patiently."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cory.endpoint import TOO_LONG, Ask, Endpoint, Reply
from tests.support.chat_server import CONFIG, KEY, Body, ChatServer, Said, asks, echo, failure
from tests.support.refusals import refusal

Start = Callable[..., tuple[ChatServer, Endpoint]]


@pytest.fixture
def start(monkeypatch, tmp_path: Path) -> Start:
    """`start(answer, **settings)`: a server that answers so, and its endpoint with a cache."""
    monkeypatch.setenv("WISE_KEY", KEY)

    def make(answer: Callable[[int, Body], Said] = echo, **settings: Any) -> Any:
        server = ChatServer(answer)
        return server, Endpoint(
            CONFIG.replace(base_url=server.url, **settings), tmp_path / "replies.jsonl"
        )

    return make


def texts(replies: list[Reply]) -> list[str]:
    return [said.text for said in replies]


def refused(endpoint: Endpoint, *texts: str) -> str:
    """The one line with which requests end that are refused."""
    said = refusal(lambda: endpoint.complete(asks(*(texts or ("x",)))))
    assert KEY not in said
    return said


@pytest.mark.slow
def test_replies_come_in_the_order_of_the_requests(start: Start) -> None:
    server, endpoint = start(lambda n, body: replace(echo(n, body), after=0.05 * (3 - n % 4)))
    replies = endpoint.complete(asks(*"abcdefgh"))
    assert texts(replies) == [f"re {letter}" for letter in "abcdefgh"]
    assert server.texts() == list("abcdefgh")
    assert 1 < server.most_under_way <= CONFIG.parallel
    assert set(server.keys) == {f"Bearer {KEY}"}
    # what is null is left to the server
    sent = {"model": "wise", "temperature": 0.7, "max_tokens": 20}
    assert {key: server.asked[0].get(key) for key in (*sent, "top_p")} == {**sent, "top_p": None}
    assert replies[0] == Reply("re a", 10, 5, "stop", "wise-2026-01-01")
    assert endpoint.spent() == (8, 8 * 15)


def test_a_cache_answers_what_was_asked_before(start: Start, tmp_path: Path) -> None:
    first, endpoint = start()
    # a run that is refused at its start leaves none: its folder would count as begun
    assert not (tmp_path / "replies.jsonl").exists()
    assert texts(endpoint.complete(asks("a", "b"))) == ["re a", "re b"]
    assert texts(endpoint.complete(asks("a", "b", "c"))) == ["re a", "re b", "re c"]
    assert first.texts() == ["a", "b", "c"]
    again, endpoint = start()
    assert endpoint.spent() == (3, 3 * 15)
    assert texts(endpoint.complete(asks("a", "b", "c"))) == ["re a", "re b", "re c"]
    assert again.asked == []
    # another message, key, or setting of sampling is another request; the same one twice is one
    endpoint.complete([*asks("a", "x"), Ask("other", asks("a")[0].messages), *asks("a")])
    assert again.texts() == ["a", "x"]
    warmer, endpoint = start(temperature=0.8)
    endpoint.complete(asks("a"))
    assert warmer.texts() == ["a"]
    assert endpoint.spent()[0] == 6


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (failure(500, "out of order"), "Error code: 500"),
        (replace(echo(0, {"messages": [{"content": ""}]}), after=0.5), "timed out"),
    ],
    ids=["500", "slow"],
)
def test_what_may_pass_is_tried_again_and_then_refused(start, bad: Said, reason: str) -> None:
    server, endpoint = start(lambda n, body: bad if n < 2 else echo(n, body), timeout=0.2)
    assert texts(endpoint.complete(asks("a"))) == ["re a"]
    assert len(server.asked) == 3
    server, endpoint = start(lambda n, body: bad, timeout=0.2, retries=1)
    line = refused(endpoint)
    assert line.startswith(f"algorithm.endpoint.base_url={server.url}, model wise: ")
    assert reason in line and len(server.asked) == 2
    assert endpoint.spent()[0] == 1


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (failure(401, f"wrong key: {KEY}"), "wrong key: ***"),
        (Said("<html>gone fishing</html>"), "the answer is not a chat completion with usage"),
        (Said({"choices": []}), "the answer is not a chat completion with usage"),
    ],
    ids=["401", "html", "no choice"],
)
def test_what_no_further_try_would_change_is_refused_at_once(start, said, reason) -> None:
    server, endpoint = start(lambda n, body: said, parallel=1)
    assert reason in refused(endpoint, "a", "b", "c")
    assert len(server.asked) == 1


def test_a_refusal_of_many_requests_is_one_line(start: Start) -> None:
    server, endpoint = start(lambda n, body: failure(404, "no such model"), parallel=8)
    assert "no such model" in refused(endpoint, *(f"q{n}" for n in range(500)))
    assert len(server.asked) <= 16


def test_a_filtered_reply_is_empty_and_kept(start: Start) -> None:
    server, endpoint = start(lambda n, body: failure(400, "filtered", "content_filter"))
    for _ in range(2):
        assert endpoint.complete(asks("a")) == [Reply("", 0, 0, "content_filter", "wise")]
    assert len(server.asked) == 1


def test_a_server_that_is_not_there_is_refused(start: Start) -> None:
    server, endpoint = start(retries=0)
    server.shutdown()
    server.server_close()
    assert "Connection error. [Errno 111] Connection refused" in refused(endpoint)


@pytest.mark.parametrize(
    "said",
    [
        failure(400, "too many", "context_length_exceeded"),
        failure(400, "This model's maximum context length is 4096 tokens. However, you asked 9"),
        failure(422, "`inputs` tokens + `max_new_tokens` must be <= 4096."),
    ],
    ids=lambda said: str(said.body)[:60],
)
def test_a_request_that_is_too_long(start: Start, said: Said) -> None:
    """It ends the batch, unless the asker has a shorter one; then that is kept."""
    server, endpoint = start(lambda n, body: said)
    assert "model wise: Error code: 4" in refused(endpoint, "a")
    ask = replace(asks("a")[0], shorter=True)
    for _ in range(2):
        assert endpoint.complete([ask]) == [Reply("", 0, 0, TOO_LONG, "wise")]
    assert len(server.asked) == 2 and endpoint.spent() == (1, 0)


def test_a_key_goes_to_other_machines_only_encrypted() -> None:
    for host in ("api.example.com", "10.0.0.7", "localhost.example.com", "[fe80::1]"):
        open_to_all = {"base_url": f"http://{host}:8000/v1"}
        assert [*CONFIG.replace(**open_to_all).conflicts()]
        assert not [*CONFIG.replace(**open_to_all, plain_http=True).conflicts()]
        assert not [*CONFIG.replace(**open_to_all, key_variable=None).conflicts()]
    for place in ("http://localhost:1", "http://127.0.0.1", "http://[::1]:8000", "https://a.com"):
        assert not [*CONFIG.replace(base_url=f"{place}/v1").conflicts()]
