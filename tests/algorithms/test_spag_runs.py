"""SPAG through the command line: chains of stages, layouts that agree, kills, a teacher."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from cory.runs.files import read_lines
from tests.support.chat_server import ChatServer, reply
from tests.support.commands import last_wins, metrics
from tests.support.playing import IMITATION, SPAG
from tests.support.warm import WarmCommand

# a random model says letters: with the judge that looks for them anywhere, games are decided
LETTERS = [
    *("task.words=[e,a,t,o,i,n,s,r]", "task.min_letters=1", "task.judge=official"),
    *("task.test_words=2", "task.train_words=6", "algorithm.prompts_per_iteration=12"),
    *("algorithm.minibatch_size=4", "checkpoint_every=1", "evaluation.probes=[]"),
]
ADAPTERS = ["model.sharing=adapters", "model.adapter.targets=null"]
LAYOUTS = {
    "one": [],
    "two": [
        *("hardware.processes=2", "hardware.zero_stage=3"),
        *("hardware.microbatch_size=1", "hardware.rollout_batch_size=3"),
    ],
}
Run = Callable[..., WarmCommand]


@pytest.fixture
def start(tiny_model: str, tmp_path: Path) -> Run:
    """Starts a run in `tmp_path / name`: `start(base, name, *more)`."""

    def start(base: list[str], name: str, *more: str) -> WarmCommand:
        settings = [*base, *LETTERS, f"model.path={tiny_model}", *more]
        return WarmCommand(tmp_path, [*last_wins(settings), f"run_dir={tmp_path / name}"])

    return start


def finished(command: WarmCommand) -> None:
    assert command.wait() == 0, command.err


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one(start: Run, tmp_path: Path) -> None:
    """Of two sets of games, that begin with an earlier run and are played against it in the end."""
    first = tmp_path / "first"
    finished(start(SPAG, "first", *ADAPTERS, "algorithm.iterations=1"))
    chained = [*ADAPTERS, f"init_from={first}", f"algorithm.opponents.im={first}"]
    chained.append("algorithm.threshold=-0.5")  # ties are learnt, too

    def run(layout: str) -> list[dict[str, Any]]:
        finished(start(SPAG, layout, *chained, *LAYOUTS[layout]))
        return metrics(tmp_path / layout)

    with ThreadPoolExecutor(2) as side_by_side:
        expected, found = side_by_side.map(run, LAYOUTS)
    assert len(expected) == len(found) == 2
    assert min(line["offline/examples/agent_0"] for line in expected) > 4  # minibatches of 4
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            torch.testing.assert_close(
                float(ours[key]), float(value), rtol=1e-3, atol=1e-4, msg=f"{key}: {ours[key]}"
            )


def answer(number: int, body: dict[str, Any]) -> Any:
    """An attacker that hints, and a defender that guesses right every second time."""
    if "?" not in body["messages"][0]["content"]:
        return reply("xx")
    return reply("I know the word! It is " + ("e" if number % 2 else "q"))


@pytest.mark.slow
def test_a_teacher_behind_an_endpoint_plays_is_imitated_and_played_against(
    start: Run, tmp_path: Path, monkeypatch
) -> None:
    server = ChatServer(answer)
    monkeypatch.setenv("TEACHER_KEY", "secret-of-the-test")
    endpoint = [
        *("endpoint@algorithm.endpoint=local", f"algorithm.endpoint.base_url={server.url}"),
        *("algorithm.endpoint.model=teacher", "algorithm.endpoint.key_variable=TEACHER_KEY"),
        *("algorithm.games=endpoint", "seed=3", "algorithm.opponents.endpoint=endpoint"),
        *("algorithm.sampling.min_response_tokens=40", "algorithm.sampling.max_response_tokens=40"),
        *("task.max_prompt_tokens=24", "task.texts.line='{name}{text};'", "algorithm.iterations=1"),
        "evaluation.before=false",  # it would ask the endpoint, too
    ]
    base = [word for word in IMITATION if not word.startswith("algorithm.endpoint=")]
    finished(start(base, "taught", *endpoint))
    games = read_lines(tmp_path / "taught" / "games" / "epoch_000.jsonl")
    assert len(games) == 12 and {game["turns"][0]["text"] for game in games} == {"xx"}
    (line,) = metrics(tmp_path / "taught")
    assert line["game/endpoint_requests"] == 24
    assert {"eval/win_rate/endpoint", "offline/loss/agent_0"} <= line.keys()
    for file in (tmp_path / "taught").rglob("*"):
        assert not file.is_file() or b"secret-of-the-test" not in file.read_bytes(), file
    # a run that begins anew with the same cache asks for nothing that was answered before
    asked = len(server.asked)
    for name in ("record.json", "games/epoch_000.jsonl", "metrics.jsonl"):
        (tmp_path / "taught" / name).unlink()
    finished(start(base, "taught", *endpoint))
    assert len(server.asked) == asked
