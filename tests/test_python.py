"""`from cory import run, load_team`: the examples of docs/agents.md, and what they promise."""

import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import cory
from cory.notebook import words_of
from cory.runtime.hydra_setup import compose
from tests.support.commands import ROOT, last_wins
from tests.support.warm import Fork

PAGE = ROOT / "docs" / "agents.md"
WARM = "import tests.support.warm; tests.support.warm.warm_notebook()"


def examples() -> list[str]:
    """The blocks of code of the page."""
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.+?)^```", text, flags=re.MULTILINE | re.DOTALL)


def execute(sources: list[str]) -> None:
    """Execute sources one after another, in one namespace."""
    names: dict[str, Any] = {}
    for source in sources:
        exec(compile(source, str(PAGE), "exec"), names)


@pytest.mark.slow
def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    sources = examples()
    assert len(sources) == 2
    checks = (
        "again = run('algorithm.iterations=3', settings, {'run_dir': trained.run_dir})",
        "assert list(trained.metrics['iteration']) == [0, 1, 2]",
        "assert again.run_dir == trained.run_dir",
    )
    # the first run is started as users start it
    began = Fork(tmp_path, partial(execute, [sources[0], WARM, *sources[1:], *checks]))
    assert began.wait(600) == 0, began.err
    assert re.search(r"^agent_0 pioneer .+", began.out, re.MULTILINE)
    assert re.search(r"^agent_1 observer", began.out, re.MULTILINE)
    assert "is complete" in began.out


def test_values_reach_the_settings_as_they_are(tmp_path: Path) -> None:
    given = {
        "evaluation.probes": ["It's, here: a 'quote'", "null", "1", "\\frac12 'a\\' b\\"],
        "algorithm.learning_rate": 1e-5,
        "run_dir": tmp_path / "a b",
    }
    accents = {"task.source": "path", "task.path": "données (1).jsonl"}
    assert compose("~reward.label", *words_of([accents])).task.path == "données (1).jsonl"
    assert words_of(["~reward.label"]) == ["~reward.label"]
    cfg = compose(*words_of([given]))
    assert list(cfg.evaluation.probes) == given["evaluation.probes"]
    assert cfg.algorithm.learning_rate == 1e-5 and cfg.run_dir == str(tmp_path / "a b")


REFUSED = """
from cory import ConfigError, FinishedRun, RunFailed, run
try:
    run(*words, "run_dir=x", {"evaluation.probes": ["a b c " * 40]})
except ConfigError as error:
    print("refused:", error)
try:
    run(*words, "run_dir=y", "algorithm.iterations=9", "algorithm.learning_rate=1e30")
except RunFailed as error:
    print("failed:", error)
"""
FROM_A_THREAD = """
import threading
found = []
thread = threading.Thread(target=lambda: found.append(run(*words, "run_dir=x")))
thread.start()
thread.join()
(finished,) = found
assert len(finished.metrics) == 2 and len(finished.times) == 2
assert {"prompt", "turns"} <= finished.samples[0].keys()
assert finished.record["iterations"] == 2
assert run(*words, {"run_dir": "x"}).run_dir == finished.run_dir
"""
INTERRUPTED = """
import os, signal, time
from pathlib import Path
def interrupt():
    metrics = Path("z/metrics.jsonl")
    while not metrics.exists() or not metrics.read_text():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
before = signal.getsignal(signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    run(*words, "run_dir=z", "algorithm.iterations=2000")
except KeyboardInterrupt as error:
    print("interrupted:", error)
assert signal.getsignal(signal.SIGINT) == before
"""


@pytest.mark.slow
def test_runs_that_are_refused_interrupted_and_finished(short: list[str], tmp_path: Path) -> None:
    words = last_wins(short)
    sources = [WARM, f"words = {words}", REFUSED, FROM_A_THREAD, INTERRUPTED]
    began = Fork(tmp_path, partial(execute, sources))
    assert began.wait(600) == 0, began.err
    assert re.search("^refused: evaluation.probes: the [0-9]+ tokens", began.out, re.MULTILINE)
    assert re.search(r"^failed: iteration [0-9]: \S+ is not finite", began.out, re.MULTILINE)
    assert "x is complete" in began.out
    assert "interrupted: z has saved; the same call goes on" in began.out
    assert not (tmp_path / "z/record.json").exists()
    assert [*(tmp_path / "z/checkpoints").glob("*/manifest.json")]


def test_in_a_program_waiting_threads_leave_the_cores_to_others(monkeypatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "")  # so that it is put back
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert cory.load_team and os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert cory.load_team and os.environ["OMP_WAIT_POLICY"] == "ACTIVE"
