"""Debates of a chat model behind an endpoint: what it is sent, and that nothing is paid twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cory.config import builder
from cory.evaluation.responses import EvalRequest
from cory.runtime.worker import build_components
from tests.support.chat_server import Body, ChatServer, Said, reply
from tests.support.composing import ConfigOf

KEY = "sk-never-to-be-written"
ANSWERS = ("It is 7.", "I get 6.", "So 7.")


def answer(number: int, body: Body) -> Said:
    """Two of three are right at first; who is told a summary agrees."""
    last = body["messages"][-1]["content"]
    if last.startswith("Several agents"):
        return reply("Two say 7, one says 6.")
    if len(body["messages"]) > 1:
        return reply("Yes, 7.")
    return reply(ANSWERS[number % 3])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("WISE_KEY", KEY)
    found = ChatServer(answer)
    yield found
    found.shutdown()
    found.server_close()


@pytest.mark.slow
def test_three_agents_debate_and_are_told_summaries(
    server: ChatServer, questions: ConfigOf, tmp_path: Path
) -> None:
    """About two questions, in roll-outs of one."""
    config = questions(
        *("experiment=maft/gpt35_arithmetic_base", "hardware=cpu", "model=tiny"),
        *("algorithm.endpoint.model=wise", f"algorithm.endpoint.base_url={server.url}"),
        *("algorithm.endpoint.key_variable=WISE_KEY", "algorithm.endpoint.temperature=0.3"),
        "algorithm.endpoint.parallel=1",  # so that the server's answers come in order
        *("evaluation.prompts=2", "evaluation.samples=1", "evaluation.k=[1]"),
        *("algorithm.endpoint.retries=0", f"run_dir={tmp_path}", "hardware.rollout_batch_size=1"),
    )
    trainer = builder("algorithm", "maft")(config.algorithm, build_components(config))
    assert not trainer.agents
    request = EvalRequest(config.evaluation, config.seed, 0, final=True)
    found, lines = trainer.evaluate(request, lambda done, rows: None), request.lines
    # of each question: three answers, three summaries, three answers more
    assert len(server.asked) == 2 * 9
    assert found["eval/vote/turn_1"] == found["eval/vote/turn_2"] == 1
    assert found["eval/right/turn_1"] == pytest.approx(2 / 3)
    assert found["eval/right/turn_2"] == found["eval/single/turn_1"] == 1
    assert found["eval/endpoint_requests/team"] == 18
    assert found["eval/endpoint_tokens/team"] == 18 * 15
    first, summary, second = server.asked[0], server.asked[3], server.asked[6]
    query = {"role": "user", "content": lines[0]["prompt"]}
    assert first["messages"] == [query]
    (asked,) = summary["messages"]
    assert "I get 6." in asked["content"] and "So 7." in asked["content"]
    assert "It is 7." not in asked["content"]  # one's own answer is not summed up
    own, told = second["messages"][1:]
    assert second["messages"][0] == query and own == {"role": "assistant", "content": "It is 7."}
    assert told["role"] == "user" and "Two say 7, one says 6." in told["content"]
    for body in server.asked:
        assert body["temperature"] == 0.3 and body["max_tokens"] == 2048
    turns = lines[0]["turns"]
    assert [turn["agent"] for turn in turns] == ["single"] * 6
    assert turns[0]["context"] is None and json.loads(turns[3]["context"]) == second["messages"]
