"""A finished run goes on with more iterations, and is then as if it had been begun with them."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cory.config import Config
from cory.runs.checkpoint import Checkpoints
from cory.runs.extension import command_to_go_on, why_it_cannot_grow
from cory.runtime import worker
from tests.support.commands import last_wins, metrics, short_settings
from tests.support.composing import parsed
from tests.support.warm import WarmCommand

Run = Callable[..., WarmCommand]
# An evaluation after every second iteration: a run of two ends where one of four is evaluated.
EVEN = ("evaluate_every=2", "samples_every=2", "checkpoint_every=1", "hardware.microbatch_size=2")
# All that an iteration changes beside weights and Adam.
STATE = (
    *("algorithm=cory", "algorithm.swap_every=3", "algorithm.score_scaling=normalise"),
    *("algorithm.kl_controller=adaptive", "algorithm.minibatch_size=4"),
)


@pytest.fixture(scope="module")
def settings(tiny_model: str, tiny_judge: str, reviews_file: Path) -> list[str]:
    return [*short_settings(tiny_model, tiny_judge, reviews_file), *EVEN]


@pytest.fixture
def run(settings: list[str], tmp_path: Path) -> Run:
    """Runs the command to its end with short settings."""

    def call(*words: str) -> WarmCommand:
        command = WarmCommand(tmp_path, last_wins([*settings, *words]))
        command.wait()
        return command

    return call


@pytest.fixture(scope="module")
def made(settings: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two iterations that has kept its state."""
    folder = tmp_path_factory.mktemp("made")
    command = WarmCommand(folder, last_wins([*settings, "run_dir=x"]))
    assert command.wait() == 0, command.err
    return folder / "x"


@pytest.fixture
def finished(made: Path, tmp_path: Path) -> Path:
    """A copy of that run."""
    return Path(shutil.copytree(made, tmp_path / "x"))


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its name there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def record(run_dir: Path) -> dict[str, object]:
    found = json.loads((run_dir / "record.json").read_text())
    assert isinstance(found, dict)
    return found


def same_bytes(one: Path, other: Path) -> bool:
    """Whether two runs left the same bytes."""
    names = ("metrics.jsonl", "samples.jsonl")
    records = all((one / name).read_bytes() == (other / name).read_bytes() for name in names)
    return records and files(one / "agents") == files(other / "agents")


@pytest.mark.slow
def test_an_extended_run_ends_as_one_of_that_length(run: Run, tmp_path: Path) -> None:
    whole = run("run_dir=whole", "algorithm.iterations=4", *STATE)
    assert whole.wait() == 0, whole.err
    short = run("run_dir=x", "algorithm.iterations=2", *STATE)
    assert short.wait() == 0, short.err
    assert [p.name for p in (tmp_path / "x" / "checkpoints").iterdir()] == ["000002"]
    first = (tmp_path / "x/metrics.jsonl").read_bytes()
    longer = run("run_dir=x", "algorithm.iterations=4", *STATE)
    assert longer.wait() == 0, longer.err
    assert "the run of 2 iterations goes on to 4" in longer.out
    assert (tmp_path / "x/metrics.jsonl").read_bytes().startswith(first)
    assert same_bytes(tmp_path / "x", tmp_path / "whole")
    assert record(tmp_path / "x")["iterations"] == 4
    again = run("run_dir=x", "algorithm.iterations=4", *STATE)
    assert again.wait() == 0 and "is complete" in again.out


@pytest.mark.slow
def test_an_unfinished_run_may_get_more_iterations_too(run: Run, tmp_path: Path) -> None:
    """It was stopped within the first iterations: there is no finished part to keep."""
    stopped = run("run_dir=x", "algorithm.iterations=3", "algorithm.stop.max_kl=1e-9")
    assert stopped.wait() == 1 and len(metrics(tmp_path / "x")) > 0
    more = run("run_dir=x", "algorithm.iterations=4", "algorithm.stop.max_kl=1e-9")
    assert more.wait() == 1
    assert "the run of 3 iterations goes on to 4" in more.out
    done = f"resumed after iteration {len(metrics(tmp_path / 'x')) - 1}"
    assert done in more.out


def refused(command: WarmCommand, run_dir: Path, *parts: str) -> None:
    """One line was said, with these parts, and the run is finished as before."""
    assert command.wait() == 1, command.out
    (line,) = command.err.splitlines()
    assert line.startswith(f"error: run_dir={run_dir.name}"), line
    assert all(part in line for part in parts), line
    assert record(run_dir)["iterations"] == 2
    assert len(metrics(run_dir)) == 2


@pytest.mark.slow
def test_fewer_iterations_are_refused(run: Run, finished: Path) -> None:
    before = files(finished)
    refused(run("run_dir=x", "algorithm.iterations=1"), finished, "=2, not 1", "not fewer")
    assert {name for name, own in files(finished).items() if before.get(name) != own} <= {"lock"}


def test_the_command_to_go_on_has_all_that_was_typed(tmp_path: Path) -> None:
    words = ["experiment=spag/llama2_im", "scale=small", "algorithm.iterations=5", "run_dir=old"]
    text = "task.train_split='train[:9%]'"
    (tmp_path / "overrides.txt").write_text("\n".join([*words, text, "hydra.run.dir=x"]) + "\n")
    typed = shlex.split(command_to_go_on(tmp_path, 5))
    assert typed == [
        *("python", "-m", "cory.train", "experiment=spag/llama2_im", "scale=small", text),
        *("algorithm.iterations=10", f"run_dir={tmp_path}"),
    ]
    (tmp_path / "overrides.txt").write_text("--config-dir=/my own\nexperiment=mine\n")
    typed = shlex.split(command_to_go_on(tmp_path, 5))
    assert typed[3:5] == ["--config-dir=/my own", "experiment=mine"]


@pytest.mark.slow
def test_the_length_is_all_that_may_differ(run: Run, finished: Path) -> None:
    more = run("run_dir=x", "algorithm.iterations=4", "algorithm.gamma=0.9")
    refused(more, finished, "algorithm.gamma=1.0, not 0.9")


@pytest.mark.slow
def test_a_run_without_its_state_says_what_to_do(run: Run, finished: Path) -> None:
    shutil.rmtree(finished / "checkpoints")
    more = run("run_dir=x", "algorithm.iterations=4")
    refused(more, finished, "kept no training state", "keep_state=true", "init_from=x")


@pytest.mark.slow
def test_a_run_that_its_workers_did_not_let_grow_is_still_finished(
    run: Run, finished: Path
) -> None:
    """Its settings may say more by then; its record says what it is."""
    settings = (finished / "config.yaml").read_text()
    (finished / "config.yaml").write_text(settings.replace("iterations: 2", "iterations: 4"))
    again = run("run_dir=x")
    assert again.wait() == 0 and "is complete" in again.out


@pytest.mark.parametrize(
    ("keep", "words", "kept"),
    [
        ("true", (), True),
        ("null", (), True),
        ("false", (), False),
        ("null", ("sweep=cory/fig3",), False),
        ("null", ("one set of games",), False),  # which cannot be extended
    ],
)
def test_what_is_kept_of_the_state(
    config_of: Callable[..., Config],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keep: str,
    words: tuple[str, ...],
    kept: bool,
) -> None:
    sweep = "cory/fig3" if words and "sweep" in words[0] else "adhoc"
    config = config_of(f"keep_state={keep}").replace(sweep=sweep)
    if words == ("one set of games",):
        monkeypatch.setattr(type(config.algorithm), "iterations_per_epoch", None, raising=False)
    (tmp_path / "overrides.txt").write_text("seed=0\n")
    checkpoints = Checkpoints(tmp_path, "this run", config.hardware, 2)
    for done in (1, 2):
        checkpoints.save(done, {}, {"number": done})
    worker.put_state_away(config, checkpoints, tmp_path)
    left = [p.name for p in (tmp_path / "checkpoints").glob("*")]
    assert left == (["000002"] if kept else [])
    monkeypatch.setattr(worker, "KEPT_STATE", 10)  # bytes
    worker.put_state_away(config, checkpoints, tmp_path)
    left = [p.name for p in (tmp_path / "checkpoints").glob("*")]
    assert left == (["000002"] if keep == "true" else [])


@pytest.mark.slow
def test_a_rate_that_falls_over_the_run_stays_as_it_is(run: Run, tmp_path: Path) -> None:
    falling = ("run_dir=x", "algorithm.schedule=linear", "keep_state=true")
    assert run(*falling).wait() == 0
    more = run(*falling, "algorithm.iterations=4")
    refused(more, tmp_path / "x", "algorithm.schedule=linear", "ran over its 2 iterations")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ((), None),
        (("algorithm.warmup=0.5",), "algorithm.warmup=0.5 ran over its 1"),
        (("algorithm.schedule=cosine",), "algorithm.schedule=cosine"),
        (("experiment=spag/llama2_im", "algorithm.schedule=linear"), "one set of games"),
        (("experiment=spag/llama2_spag_1", "algorithm.schedule=linear"), None),
        (("experiment=maft/phi3_arithmetic_maft", "algorithm.warmup=0.5"), None),
        (
            ("experiment=maft/phi3_arithmetic_maft", "model.precision=bf16", "algorithm.warmup=0"),
            "model.precision=bf16",
        ),
    ],
)
def test_what_depends_on_the_length(words: tuple[str, ...], part: str | None) -> None:
    experiment = any(word.startswith("experiment=") for word in words)
    config = parsed(*words, *(["scale=small"] if experiment else []), "algorithm.iterations=10")
    obstacle = why_it_cannot_grow(config, 1)
    assert obstacle is None if part is None else part in str(obstacle)
