"""Workers in turn, their ratios, and what is said of one that fails."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from cory.performance.alternation import Worker, WorkerFailed, in_turn, ratio, serve

FAKE = """
import sys
from cory.performance.alternation import serve

steps = 0

def step():
    global steps
    steps += 1
    print("a line of a library")
    with open({log!r}, "a") as log:
        log.write({name!r})
    return {{"seconds": {seconds} * steps}}

def fail():
    raise SystemExit("out of luck")

serve({{"step": step, "fail": fail}})
"""


def fake(folder: Path, name: str, seconds: float) -> Worker:
    """A worker whose n-th step says that it took n times `seconds`."""
    script = folder / f"{name}.py"
    script.write_text(FAKE.format(log=str(folder / "log"), name=name, seconds=seconds))
    return Worker(name, [sys.executable, str(script)], threads=1)


def test_workers_take_turns(tmp_path: Path) -> None:
    workers = {name: fake(tmp_path, name, seconds) for name, seconds in (("a", 1), ("b", 4))}
    for worker in workers.values():
        assert worker.answer() == {}  # ready, without having worked
    answers = in_turn({name: partial(w.ask, "step") for name, w in workers.items()}, 3)
    for worker in workers.values():
        worker.close()
    assert (tmp_path / "log").read_text() == "ababab"
    assert answers == {
        "a": [{"seconds": 1}, {"seconds": 2}, {"seconds": 3}],
        "b": [{"seconds": 4}, {"seconds": 8}, {"seconds": 12}],
    }


def test_a_worker_that_fails_is_named_with_its_errors(tmp_path: Path) -> None:
    worker = fake(tmp_path, "unlucky", 1)
    worker.answer()
    with pytest.raises(WorkerFailed, match=r"unlucky ended with 1:\nout of luck"):
        worker.ask("fail")
    with pytest.raises(WorkerFailed, match="unlucky"):
        worker.ask("step")
    worker.close()


def test_a_ratio_is_taken_within_rounds() -> None:
    # a machine that is twice as slow in the second round changes nothing
    assert ratio([1, 2, 1.5], [4, 8, 3]) == (0.25, 0.25, 0.5)
    assert ratio([3, 1], [1, 1]) == (2, 1, 3)
    with pytest.raises(ValueError):
        ratio([1, 2], [1])


def test_a_worker_answers_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    serve({"one": lambda: {"n": 1}, "two": lambda: {"n": 2}}, ["two\n", "one\n"])
    assert capsys.readouterr().out.splitlines() == [
        "@answer {}", '@answer {"n": 2}', '@answer {"n": 1}',
    ]  # fmt: skip
