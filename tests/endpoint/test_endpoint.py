"""A chat model behind an endpoint: asked once for everything, patiently, and within its cost."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from cory.config import ConfigError
from cory.endpoint import batch as endpoint_module
from cory.endpoint import client
from cory.endpoint.batch import Ask, Endpoint, most_tokens
from cory.endpoint.client import TOO_LONG, Message, Passing, Reply, read_reply
from cory.endpoint.reply_cache import Journal, Spent
from cory.games.state import GameState
from cory.rollout.opponents import EndpointPlayer
from cory.runs.run_dir import WriteError
from tests.support.chat_server import (
    CONFIG,
    KEY,
    Body,
    ChatServer,
    Said,
    asks,
    echo,
    failure,
    reply,
)
from tests.support.warm import Fork

Start = Callable[..., tuple[ChatServer, Endpoint]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Start]:
    """`start(answer, **settings)`: a server that answers so, and its endpoint with a journal."""
    monkeypatch.setenv("WISE_KEY", KEY)
    monkeypatch.setattr(client, "FIRST_WAIT_S", 0.01)
    servers = []

    def make(answer: Callable[[int, Body], Said] = echo, **settings: Any) -> Any:
        servers.append(ChatServer(answer))
        config = replace(CONFIG, base_url=servers[-1].url, **settings)
        return servers[-1], Endpoint(config, tmp_path / "journal.jsonl")

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()
    for path in tmp_path.rglob("*"):  # whatever a test did
        assert KEY.encode() not in path.read_bytes()


def texts(replies: list[Reply]) -> list[str]:
    return [said.text for said in replies]


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
    assert endpoint.spent() == Spent(8, 0, 80, 40)


def test_a_journal_answers_what_was_asked_before(start: Start, tmp_path: Path) -> None:
    first, endpoint = start()
    assert texts(endpoint.complete(asks("a", "b"))) == ["re a", "re b"]
    assert texts(endpoint.complete(asks("a", "b", "c"))) == ["re a", "re b", "re c"]
    assert first.texts() == ["a", "b", "c"]
    again, endpoint = start()
    assert endpoint.spent() == Spent(3, 0, 30, 15)
    assert texts(endpoint.complete(asks("a", "b", "c"))) == ["re a", "re b", "re c"]
    assert again.asked == []
    # another message, key, or setting of sampling is another request; the same one twice is one
    endpoint.complete([*asks("a", "x"), Ask("other", asks("a")[0].messages), *asks("a")])
    assert again.texts() == ["a", "x"]
    warmer, endpoint = start(temperature=0.8)
    endpoint.complete(asks("a"))
    assert warmer.texts() == ["a"]
    assert endpoint.spent().requests == 6


def test_a_torn_last_line_is_asked_for_again(start: Start, tmp_path: Path) -> None:
    _, endpoint = start()
    endpoint.complete(asks("a", "b"))
    path = tmp_path / "journal.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    server, endpoint = start()
    assert texts(endpoint.complete(asks("a", "b"))) == ["re a", "re b"]
    assert len(server.asked) == 1
    assert [json.loads(line)["text"] for line in path.read_text().splitlines()] == sorted(
        ["re a", "re b"], key=lambda text: text[-1] == server.texts()[0]
    )


def test_a_journal_is_made_with_the_first_reply(start: Start, tmp_path: Path) -> None:
    """A run that is refused at its start leaves none: its folder would count as begun."""
    _, endpoint = start()
    assert not (tmp_path / "journal.jsonl").exists()
    endpoint.complete(asks("a"))
    endpoint.complete(asks("b"))
    _, endpoint = start()
    endpoint.complete(asks("c"))
    assert len((tmp_path / "journal.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize("line", ["{", "[]", '{"key": "a", "digest": "b", "text": "c"}'])
def test_a_journal_that_is_none_is_refused(start: Start, tmp_path: Path, line: str) -> None:
    (tmp_path / "journal.jsonl").write_text(f"{line}\n")
    with pytest.raises(ConfigError, match=r"journal\.jsonl: line 1 is not a reply of an endpoint"):
        start()


def test_a_full_disk_is_said_and_nothing_more_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    reply = Reply("c", 1, 1, "stop", "wise")
    journal.add(("a", "a"), reply)
    before = journal.spent

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for _ in range(2):
        with pytest.raises(WriteError, match="cannot be written \\(No space left on device\\)"):
            journal.add(("a", "b"), reply)
        monkeypatch.undo()
    assert journal.replies == {("a", "a"): reply} and journal.spent == before


def complete(url: str, journal: Path) -> None:
    """What a command asks an endpoint for."""
    config = replace(CONFIG, base_url=url, key_variable=None)
    print(*(said.text for said in Endpoint(config, journal).complete(asks(*"abcdefghij"))))


@pytest.mark.slow
def test_a_run_that_was_killed_asks_for_nothing_twice(tmp_path: Path) -> None:
    """A command is killed in the middle; the next one asks for the rest alone."""
    journal = tmp_path / "journal.jsonl"
    going_on = threading.Event()

    def stall(number: int, body: Body) -> Said:
        if number > 4:
            going_on.wait(10)
        return echo(number, body)

    server = ChatServer(stall)
    command = partial(complete, server.url, journal)
    first = Fork(tmp_path, command, OPENAI_API_KEY=KEY)
    while not journal.exists() or journal.read_bytes().count(b"\n") < 5:
        assert first.poll() is None
        time.sleep(0.01)
    first.kill()
    first.wait()
    kept = {json.loads(line)["text"][-1] for line in journal.read_text().splitlines()}
    going_on.set()
    server.asked.clear()
    second = Fork(tmp_path, command, OPENAI_API_KEY=KEY)
    assert second.wait() == 0, second.err
    assert second.out.split() == [word for letter in "abcdefghij" for word in ("re", letter)]
    assert server.texts() == sorted(set("abcdefghij") - kept) and len(kept) == 5
    # a key in the environment is for its own server only
    assert set(server.keys) == {"Bearer none"}
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(start: Start, form: str) -> None:
    def answer(number: int, body: Body) -> Said:
        if number > 0:
            return echo(number, body)
        later = datetime.now(timezone.utc) + timedelta(seconds=2)
        after = {"seconds": "0.4", "date": format_datetime(later, usegmt=True)}[form]
        return failure(429, "busy", retry_after=after)

    server, endpoint = start(answer, parallel=1)
    assert texts(endpoint.complete(asks("a", "b"))) == ["re a", "re b"]
    assert [body["messages"][0]["content"] for body in server.asked] == ["a", "a", "b"]
    # a date has whole seconds
    assert server.times[1] - server.times[0] >= {"seconds": 0.4, "date": 0.5}[form]


@pytest.mark.slow
def test_all_threads_wait_when_the_server_is_busy(start: Start) -> None:
    def busy(number: int, body: Body) -> Said:
        return failure(429, "busy", retry_after="0.8") if number == 0 else echo(number, body)

    server, endpoint = start(lambda n, body: replace(busy(n, body), after=0.1 * n), parallel=2)
    endpoint.complete(asks(*"abcdef"))
    early = [at for at in server.times if 0.4 < at - server.times[0] < 0.75]
    assert len(server.asked) == 7 and not early


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (failure(500, "out of order"), "status 500 (Error code: 500"),
        (failure(503, "out of order"), "status 503 (Error code: 503"),
        (failure(408, "too slow"), "status 408"),
        (Said("<html>gone fishing</html>"), "an answer that is not a chat completion with usage"),
        (Said('{"choices": ['), "an answer that is not a chat completion with usage"),
        (Said({"choices": []}), "an answer that is not a chat completion with usage"),
        (replace(echo(0, {"messages": [{"content": ""}]}), after=0.5), "no answer within 0.2 s"),
    ],
    ids=["500", "503", "408", "html", "torn", "no choice", "slow"],
)
def test_what_may_pass_is_tried_again_and_then_refused(
    start: Start, tmp_path: Path, bad: Said, reason: str
) -> None:
    server, endpoint = start(lambda n, body: bad if n < 2 else echo(n, body), timeout=0.2)
    assert texts(endpoint.complete(asks("a"))) == ["re a"]
    assert len(server.asked) == 3
    server, endpoint = start(lambda n, body: bad, timeout=0.2)
    with pytest.raises(ConfigError) as refusal:
        endpoint.complete(asks("b"))
    assert f"{server.url}: 3 tries of one request to model wise failed" in str(refusal.value)
    assert reason in str(refusal.value) and "\n" not in str(refusal.value)
    assert len(server.asked) == 3
    assert endpoint.spent().requests == 1


def test_a_server_that_is_not_there_is_refused(start: Start) -> None:
    server, endpoint = start()
    server.shutdown()
    server.server_close()
    with pytest.raises(ConfigError, match=r"3 tries .* failed, the last with no connection \("):
        endpoint.complete(asks("a"))


def test_waits_grow_and_are_not_all_alike(monkeypatch: pytest.MonkeyPatch, start: Start) -> None:
    waits: list[float] = []
    monkeypatch.setattr(client.Pace, "sleep", lambda self, seconds: waits.append(seconds))
    monkeypatch.setattr(client, "FIRST_WAIT_S", 1.0)
    _, endpoint = start(lambda n, body: failure(500, "out of order"), retries=9)
    with pytest.raises(ConfigError, match="10 tries"):
        endpoint.complete(asks("a"))
    bounds = [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert all(bound / 2 <= wait <= bound for wait, bound in zip(waits, bounds, strict=True))
    assert len({wait / bound for wait, bound in zip(waits, bounds, strict=True)}) == 9


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        (failure(400, "no such setting"), "a setting of algorithm.endpoint does not suit it"),
        (failure(401, f"wrong key: {KEY}"), "check the key in the environment variable WISE_KEY"),
        (failure(403, "not for you"), "the key may not use this model"),
        (failure(404, "no such model"), "check base_url, which mostly ends in /v1, and model"),
        (failure(422, "what?"), "it will not answer this request"),
        (failure(429, "pay first", "insufficient_quota"), "what the key may spend is used up"),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Said) else "",
)
def test_what_no_further_try_would_change_is_refused_at_once(
    start: Start, said: Said, cure: str
) -> None:
    server, endpoint = start(lambda n, body: said, parallel=1)
    with pytest.raises(ConfigError) as refusal:
        endpoint.complete(asks("a", "b", "c"))
    line = str(refusal.value)
    start_of_line = f"algorithm.endpoint: {server.url} refuses model wise with {said.status}: "
    assert line.startswith(start_of_line + cure) and "\n" not in line
    assert len(server.asked) == 1
    assert (said.status == 401) == ("Error code" not in line)


@pytest.mark.parametrize(
    "said",
    [
        failure(400, "too many", "context_length_exceeded"),
        failure(400, "This model's maximum context length is 4096 tokens. However, you asked 9"),
        failure(400, "the request exceeds the available context size", "exceed_context_size_error"),
        failure(400, "prompt is too long: 9 tokens > 4"),
        failure(422, "`inputs` tokens + `max_new_tokens` must be <= 4096."),
    ],
    ids=lambda said: str(said.body)[:60],
)
def test_a_request_that_is_too_long(start: Start, said: Said) -> None:
    """It ends the batch, unless the asker has a shorter one; then that is kept."""
    server, endpoint = start(lambda n, body: said)
    with pytest.raises(ConfigError, match="refuses model wise with 4"):
        endpoint.complete(asks("a"))
    ask = replace(asks("a")[0], shorter=True)
    for _ in range(2):
        assert endpoint.complete([ask]) == [Reply("", 0, 0, TOO_LONG, "wise")]
    assert len(server.asked) == 2 and endpoint.spent().prompt_tokens == 0


def test_another_refusal_is_none_for_length(start: Start) -> None:
    _, endpoint = start(lambda n, body: failure(400, "max_tokens is too large: 99999"))
    with pytest.raises(ConfigError, match="too large"):
        endpoint.complete([replace(asks("a")[0], shorter=True)])


def test_a_key_that_the_server_quotes_is_not_repeated(start: Start) -> None:
    _, endpoint = start(lambda n, body: failure(400, f"never heard of {KEY}"))
    with pytest.raises(ConfigError, match=r"never heard of \*\*\*"):
        endpoint.complete(asks("a"))


def test_what_is_under_way_when_another_request_fails_is_kept(start: Start) -> None:
    def answer(number: int, body: Body) -> Said:
        if body["messages"][0]["content"] == "bad":
            return failure(400, "no")
        return replace(echo(number, body), after=0.3)

    server, endpoint = start(answer, parallel=2)
    with pytest.raises(ConfigError, match="refuses model wise with 400"):
        endpoint.complete(asks("a", "bad", *"cdefgh"))
    assert server.texts() == ["a", "bad"]
    assert endpoint.spent().requests == 1
    # and it can be asked again
    assert texts(endpoint.complete(asks("a"))) == ["re a"]
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (reply(""), Reply("", 10, 5, "stop", "wise-2026-01-01")),
        (reply(None, "length"), Reply("", 10, 5, "length", "wise-2026-01-01")),
        (reply("half", "content_filter"), Reply("", 10, 5, "content_filter", "wise-2026-01-01")),
        (failure(400, "filtered", "content_filter"), Reply("", 0, 0, "content_filter", "wise")),
    ],
    ids=["empty", "null", "filtered reply", "filtered prompt"],
)
def test_empty_replies_are_kept_and_counted(start: Start, said: Said, expected: Reply) -> None:
    server, endpoint = start(lambda n, body: said)
    assert endpoint.complete(asks("a")) == [expected]
    assert endpoint.complete(asks("a")) == [expected]
    assert len(server.asked) == 1 and endpoint.spent().empty == 1


def test_half_a_character_is_no_trouble() -> None:
    body = reply("x").body
    assert read_reply(json.dumps(body).replace('"x"', r'"a\ud83d"').encode()).text == "a?"
    with pytest.raises(Passing):
        read_reply(b'{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}')


def test_tries_keep_their_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=5.0)

    def sleep(pace: client.Pace, seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(client.Pace, "sleep", sleep)
    pace, begun = client.Pace(600, threading.Event()), []
    for work in (0.0, 0.03, 0.5, 0.0):  # seconds until the next is asked for
        pace.wait()
        begun.append(clock.now)
        clock.now += work
    assert begun == pytest.approx([5.0, 5.1, 5.2, 5.7])


def test_each_try_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch, start: Start) -> None:
    turns: list[float] = []
    wait = client.Pace.wait

    def told(pace: client.Pace) -> None:
        wait(pace)
        turns.append(pace.gap)

    monkeypatch.setattr(client.Pace, "wait", told)
    _, endpoint = start(
        lambda n, body: failure(500, "out of order") if n == 1 else echo(n, body),
        requests_per_minute=6000,
    )
    endpoint.complete(asks(*"abcd"))
    assert turns == [0.01] * 5  # seconds; four requests, one of which is tried twice


@pytest.mark.slow
def test_nothing_is_asked_that_could_cost_more_than_allowed(start: Start) -> None:
    # a request costs 10 * 1e-4 + 5 * 2e-4 = 0.002; at most (1 + 2 * 16) * 1e-4 + 20 * 2e-4 = 0.0073
    prices = {"input_price": 100.0, "output_price": 200.0}
    assert most_tokens(asks("a")[0].messages) == 33
    server, endpoint = start(max_cost=0.0134, **prices)
    with pytest.raises(ConfigError) as refusal:
        endpoint.complete(asks(*"abcdefgh"))
    # after the fourth reply 0.008 + 0.0073 is more
    assert len(server.asked) == 4
    assert str(refusal.value) == (
        "algorithm.endpoint.max_cost=0.0134: 0.008 is spent on 4 replies (40 + 20 tokens), and the "
        "next may cost up to 0.0073; a higher limit goes on with what is there"
    )
    # what earlier starts have spent counts
    again, endpoint = start(max_cost=0.0134, **prices)
    with pytest.raises(ConfigError, match=r"0\.008 is spent on 4 replies"):
        endpoint.complete(asks(*"abcdefgh"))
    assert again.asked == []
    more, endpoint = start(
        lambda n, body: replace(echo(n, body), after=0.2), max_cost=1.0, **prices
    )
    assert texts(endpoint.complete(asks(*"abcdefgh"))) == [f"re {letter}" for letter in "abcdefgh"]
    assert len(more.asked) == 4 and more.most_under_way > 1


def test_a_request_to_stop_is_heard_while_asking(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(Exception):
        pass

    told: list[tuple[int, int]] = []

    def before_each(done: int, of_all: int) -> None:
        told.append((done, of_all))
        if done >= 3:
            raise Stopped

    monkeypatch.setattr(endpoint_module, "BEAT_S", 0.05)
    server, endpoint = start(lambda n, body: replace(echo(n, body), after=0.12), parallel=1)
    with pytest.raises(Stopped):
        endpoint.complete(asks(*"abcdefghij"), before_each)
    assert told == sorted(told) and {of_all for _, of_all in told} == {10}
    # the one under way is waited for, too
    assert told[-1][0] < endpoint.spent().requests == len(server.asked) < 10


def test_only_the_first_process_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The others neither need the key nor touch the journal; they get what the first one has."""
    got: list[object] = [2, 1, 0, ["replies"], "spent"]

    def receive(box: list[object]) -> None:
        box[0] = got.pop(0)

    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "broadcast_object_list", receive)
    monkeypatch.delenv("WISE_KEY", raising=False)
    endpoint = Endpoint(CONFIG, tmp_path / "journal.jsonl")
    told: list[int] = []
    assert endpoint.complete(asks(*"abc"), lambda done, rows: told.append(done)) == ["replies"]
    assert endpoint.spent() == "spent"
    assert told == [1, 2] and got == [] and not (tmp_path / "journal.jsonl").exists()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "this environment variable is not set; it has to hold the key"),
        (" ", "this environment variable is not set; it has to hold the key"),
        ("sk-\nabc", "what it holds cannot be a key"),
        ("schlüssel", "what it holds cannot be a key"),
    ],
)
def test_a_key_that_is_none_is_refused(
    start: Start, monkeypatch: pytest.MonkeyPatch, value: str | None, said: str
) -> None:
    monkeypatch.setenv("WISE_KEY", value or "")
    with pytest.raises(ConfigError) as refusal:
        start()
    assert str(refusal.value) == f"algorithm.endpoint.key_variable=WISE_KEY: {said}"


def test_a_missing_package_is_named(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigError, match=r"needs the package openai: pip install '\.\[openai\]'"):
        start()


class Plain:
    """The words said so far."""

    def messages(self, position: GameState, role: str) -> list[Message]:
        said = " ".join(utterance.text for utterance in position.utterances)
        return [{"role": "user", "content": f"{role} after '{said}'"}]


def test_a_player_says_what_the_model_says(start: Start) -> None:
    server, endpoint = start(lambda n, body: reply(f" {body['messages'][0]['content']}\n"))
    player = EndpointPlayer(endpoint, Plain())  # type: ignore[arg-type]  # all that is used of it
    begun = GameState("cat", 5, ())
    positions = [begun, None, begun, begun.after("attacker", "Purr.")]
    said = [own.text for own in player.say("defender", positions, (7, 1))]
    # nothing where a game is over
    assert said == ["defender after ''", "", "defender after ''", "defender after 'Purr.'"]
    # two games that begin alike may go on differently
    assert len(server.asked) == 3
    assert {key for key, _ in endpoint.journal.replies} == {"7-1/0", "7-1/2", "7-1/3"}
