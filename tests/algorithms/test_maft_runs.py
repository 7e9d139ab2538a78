"""Multiagent Finetuning that was stopped and goes on, and debates of a model behind an endpoint."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cory.algorithms.maft import DebateCollector
from cory.config import Config
from cory.episode import Episode, Metrics, Prompt
from cory.evaluation.responses import EvalRequest
from cory.rollout.scheduler import Play, RollOut
from cory.runs import signals
from cory.runs.checkpoint import Checkpoints
from cory.runs.recorder import Recorder
from cory.runs.signals import Stopped
from cory.runtime.loop import Loop
from cory.trainers.supervised import CollectedExamples
from tests.support.building import built
from tests.support.chat_server import KEY, Body, ChatServer, Said, reply
from tests.support.composing import ConfigOf
from tests.support.supervising import build_agents, sums

pytestmark = pytest.mark.slow


class Last(Recorder):
    """Keeps the metrics of the last iteration, and writes nothing."""

    def __init__(self, config: Config) -> None:
        super().__init__(Path(config.run_dir), config)
        self.writes = False

    def log(self, iteration: int, metrics: Metrics) -> None:
        self.metrics = {key: value for key, value in metrics.items() if "time/" not in key}


def looped(config: Config, stops: Callable[[], bool]) -> list[Any]:
    """What a run ends with, which goes on where one of before was left. stops: asked when due."""
    config = config.replace(evaluation=config.evaluation.replace(before=False))
    path = Path(config.run_dir)
    path.mkdir(exist_ok=True)
    trainer = build_agents(config)
    checkpoints, record = Checkpoints(path, "settings", config.hardware, 2), Last(config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signals, "stopping", stops)
        reward: Any = SimpleNamespace(at=lambda done: None, metrics=dict)
        Loop(trainer, config, record, checkpoints, lambda done: None, reward, None).run()
    return [sums(trainer), trainer.episodes, list(record.metrics.items())]


def test_debates_are_left_after_a_batch_and_batches_change_nothing(
    maft: ConfigOf, tmp_path: Path, monkeypatch
) -> None:
    settings = ["hardware.rollout_batch_size=5", "hardware.generation_batch_size=3"]
    own = "algorithm.sampling.min_response_tokens=1"
    config = maft(*settings, own)
    trainer, limits = build_agents(config), set[int]()
    stream = copy.deepcopy(trainer.components.streams.length)
    assert isinstance(trainer.collect, DebateCollector)
    roll_out, held = RollOut.__call__, []

    def count(self: RollOut, play: Play, prompts: list[Prompt]) -> list[Episode]:
        held.append(len(prompts))
        limits.add(self.limit)
        return roll_out(self, play, prompts)

    monkeypatch.setattr(RollOut, "__call__", count)
    collected = trainer.collect(0)
    assert held == [3, 3, 3, 1]
    assert limits == {stream.integers(1, config.algorithm.sampling.max_response_tokens + 1)}
    assert collected.examples == build_agents(maft(own)).collect(0).examples
    monkeypatch.setattr(signals, "stopping", lambda: True)
    with pytest.raises(Stopped, match="saved before iteration 1, whose debates begin again"):
        trainer.collect(0)


def test_a_stop_while_debates_are_held_loses_no_iteration_before_them(
    maft: ConfigOf, tmp_path: Path, monkeypatch
) -> None:
    collect, asked = DebateCollector.__call__, []

    def second(self: DebateCollector, iteration: int) -> CollectedExamples:
        asked.append(iteration)
        return collect(self, iteration)

    monkeypatch.setattr(DebateCollector, "__call__", second)

    def run(folder: str, stops: Callable[[], bool]) -> list[Any]:
        place = f"run_dir={tmp_path / folder}"
        words = ("evaluation.prompts=2", "algorithm.iterations=2", "checkpoint_every=0")
        few = ("hardware.rollout_batch_size=5", "hardware.generation_batch_size=3")
        return looped(maft(place, *words, *few), stops)

    with pytest.raises(Stopped, match="before iteration 2, whose debates begin again"):
        run("cut", lambda: asked == [0, 1])
    assert [path.name for path in (tmp_path / "cut" / "checkpoints").iterdir()] == ["000001"]
    assert run("cut", lambda: False) == run("whole", lambda: False)


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
def server(monkeypatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("WISE_KEY", KEY)
    found = ChatServer(answer)
    yield found
    found.shutdown()
    found.server_close()


@pytest.mark.slow
def test_three_agents_debate_and_are_told_summaries(server, questions, tmp_path) -> None:
    """About two questions, in roll-outs of one."""
    config = questions(
        *("experiment=maft/gpt35_arithmetic_base", "hardware=cpu", "model=tiny"),
        *("algorithm.endpoint.model=wise", f"algorithm.endpoint.base_url={server.url}"),
        *("algorithm.endpoint.key_variable=WISE_KEY", "algorithm.endpoint.temperature=0.3"),
        "algorithm.endpoint.parallel=1",  # so that the server's answers come in order
        *("evaluation.prompts=2", "evaluation.samples=1", "evaluation.k=[1]"),
        *("algorithm.endpoint.retries=0", f"run_dir={tmp_path}", "hardware.rollout_batch_size=1"),
    )
    trainer = built(config)
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
