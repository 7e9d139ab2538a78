"""A finished run goes on with more iterations, and is then as if it had been begun with them."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cory.config import Config, ConfigError
from cory.runs.checkpoint import Checkpoints
from cory.runs.extension import (
    Extension,
    begin,
    command_to_go_on,
    drop_earlier_record,
    finished_part,
    require_same_training,
    take_back,
)
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
    first, agents = (tmp_path / "x/metrics.jsonl").read_bytes(), files(tmp_path / "x/agents")
    longer = run("run_dir=x", "algorithm.iterations=4", *STATE)
    assert longer.wait() == 0, longer.err
    assert "the finished run of 2 iterations goes on to 4" in longer.out
    assert (tmp_path / "x/metrics.jsonl").read_bytes().startswith(first)
    assert same_bytes(tmp_path / "x", tmp_path / "whole")
    # what was finished stays, and is no part of what is written afterwards
    aside = tmp_path / "x" / "iterations" / "2"
    assert files(aside / "agents") == agents != files(tmp_path / "x/agents")
    assert record(aside)["iterations"] == 2
    (extension,) = record(tmp_path / "x")["extended"]  # type: ignore[misc]
    assert (extension["earlier"], extension["total"], extension["finished"]) == (2, 4, True)
    assert "extended" not in record(tmp_path / "whole")


@pytest.mark.slow
def test_an_unfinished_run_may_get_more_iterations_too(run: Run, tmp_path: Path) -> None:
    """It was stopped within the first iterations: there is no finished part to keep."""
    stopped = run("run_dir=x", "algorithm.iterations=3", "algorithm.stop.max_kl=1e-9")
    assert stopped.wait() == 1 and len(metrics(tmp_path / "x")) > 0
    more = run("run_dir=x", "algorithm.iterations=4", "algorithm.stop.max_kl=1e-9")
    assert more.wait() == 1
    assert "the unfinished run of 3 iterations goes on to 4" in more.out
    done = f"resumed after iteration {len(metrics(tmp_path / 'x')) - 1}"
    assert done in more.out and not (tmp_path / "x/iterations").exists()


def refused(command: WarmCommand, run_dir: Path, *parts: str) -> None:
    """One line was said, with these parts, and the run is finished as before."""
    assert command.wait() == 1, command.out
    (line,) = command.err.splitlines()
    assert line.startswith(f"error: run_dir={run_dir.name}"), line
    assert all(part in line for part in parts), line
    assert record(run_dir)["iterations"] == 2
    assert len(metrics(run_dir)) == 2 and not (run_dir / "iterations").exists()


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
@pytest.mark.parametrize(
    ("file", "parts"),
    [
        ("checkpoints/000002/state_0.pt", ("000002 is damaged", "state_0.pt is not what")),
        ("agents/agent_0/config.json", ("config.json is not what", "put it back")),
    ],
)
def test_a_damaged_file_is_seen_before_anything_is_changed(
    run: Run, finished: Path, file: str, parts: tuple[str, ...]
) -> None:
    content = bytearray((finished / file).read_bytes())
    content[len(content) // 2] ^= 1
    (finished / file).write_bytes(content)
    refused(run("run_dir=x", "algorithm.iterations=4"), finished, *parts)


@pytest.mark.slow
def test_an_extension_that_was_refused_leaves_the_finished_run(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(finished)
    known = record(finished)["files"]
    begin(finished, Extension(2, 4, True, "now"))
    # by these the last line is known, too, and its evaluation is not repeated
    vouched = json.loads((finished / "digests.json").read_text())
    assert {"metrics.jsonl", "times.jsonl", "samples.jsonl"} <= vouched.keys()
    assert all(known[name] == own for name, own in vouched.items())  # type: ignore[index]
    settings = (finished / "config.yaml").read_text()
    (finished / "config.yaml").write_text(settings.replace("iterations: 2", "iterations: 4"))
    drop_earlier_record(finished, 4)
    assert not (finished / "record.json").exists() and finished_part(finished) == 2
    take_back(finished)
    assert files(finished) == before
    assert "the finished run of 2 iterations is as it was" in capsys.readouterr().out
    # something has been trained: nothing is taken back; scores are of the earlier agents
    for _ in range(2):  # the first of them cut off before the settings were written
        begin(finished, Extension(2, 4, True, "now"))
    drop_earlier_record(finished, 4)
    with (finished / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 2}\n')
    with (finished / "times.jsonl").open("a") as file:
        file.write('{"iteration": 2}\n')
    (finished / "checkpoints/000003").mkdir()
    take_back(finished)
    assert not (finished / "record.json").exists()


@pytest.mark.slow
def test_extensions_that_are_refused_side_by_side_leave_the_finished_runs(
    settings: list[str], tiny_model: str, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    words = [f"model.path={model}", "algorithm.iterations=1", "parallel_runs=2", "seed=0,1"]
    words = ["-m", *last_wins([*settings, *words]), "hydra.sweep.dir=jobs"]
    assert (command := WarmCommand(tmp_path, words)).wait() == 0, command.err

    def left() -> list[dict[str, bytes]]:
        runs = (files(tmp_path / "jobs" / f"seed{seed}") for seed in (0, 1))
        return [
            {name: one[name] for name in one if name not in ("lock", "output.txt")} for one in runs
        ]

    before = left()
    for weights in model.glob("*.safetensors"):
        weights.unlink()
    command = WarmCommand(tmp_path, [*words, "algorithm.iterations=2"])
    assert command.wait() == 1 and "cannot be loaded" in command.err
    assert left() == before and all("record.json" in run for run in before)


def test_a_damaged_state_does_not_start_the_run_again(
    config_of: Callable[..., Config], tmp_path: Path
) -> None:
    """Else the lines of the finished part would be lost."""
    config = config_of()
    checkpoints = Checkpoints(tmp_path, "now", config.hardware, 2, ["before"], floor=2)
    with pytest.raises(ConfigError, match="no sound training state after 2 iterations"):
        checkpoints.restore({})
    Checkpoints(tmp_path, "before", config.hardware, 2).save(1, {}, {})
    with pytest.raises(ConfigError, match="no sound training state after 2 iterations"):
        checkpoints.restore({})
    Checkpoints(tmp_path, "before", config.hardware, 2).save(2, {}, {"number": 2})
    assert checkpoints.restore({}) == (2, {"number": 2})
    assert Checkpoints(tmp_path, "now", config.hardware, 2).restore({}) is None


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
    config = replace(config_of(f"keep_state={keep}"), sweep=sweep)
    if words == ("one set of games",):
        config.algorithm.iterations_per_epoch = None
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


RATE = "ppo/learning_rate/agent_0"


@pytest.mark.slow
def test_a_rate_that_falls_over_the_run_is_asked_about(run: Run, tmp_path: Path) -> None:
    falling = ("run_dir=x", "algorithm.schedule=linear")
    assert run(*falling).wait() == 0
    more = run(*falling, "algorithm.iterations=4")
    parts = ("algorithm.schedule=linear", "ran over 2", "stretch_schedule=true", "iteration 3")
    refused(more, tmp_path / "x", *parts)
    more = run(*falling, "algorithm.iterations=4", "stretch_schedule=true")
    assert more.wait() == 0, more.err
    whole = run("run_dir=whole", "algorithm.schedule=linear", "algorithm.iterations=4")
    assert whole.wait() == 0, whole.err
    rates = [line[RATE] for line in metrics(tmp_path / "x")]
    expected = [line[RATE] for line in metrics(tmp_path / "whole")]
    assert rates[2:] == expected[2:] and rates[:2] != expected[:2]
    assert len(set(rates)) == 4


@pytest.mark.parametrize(
    ("words", "done", "parts"),
    [
        (("algorithm.warmup=0.5",), 2, ()),  # over
        (("algorithm.warmup=0.9",), 2, ("algorithm.warmup=0.9 ran over 2",)),
        (("algorithm.schedule=cosine",), 2, ("algorithm.schedule=cosine",)),
        (("algorithm.schedule=cosine",), 0, ()),  # nothing is trained yet
        (("algorithm.schedule=cosine", "stretch_schedule=true"), 2, ()),
    ],
)
def test_what_depends_on_the_length(
    config_of: Callable[..., Config], words: tuple[str, ...], done: int, parts: tuple[str, ...]
) -> None:
    config = config_of("algorithm.iterations=4", *words)
    if not parts:
        require_same_training(config, 2, done, "run_dir=x")
        return
    with pytest.raises(ConfigError) as caught:
        require_same_training(config, 2, done, "run_dir=x")
    assert all(part in str(caught.value) for part in parts)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("experiment=spag/llama2_im", "algorithm.schedule=linear"), "one set of games"),
        (("experiment=spag/llama2_spag_1", "algorithm.schedule=linear"), None),
        (("experiment=maft/phi3_arithmetic_maft", "algorithm.warmup=0.5"), None),
        (
            ("experiment=maft/phi3_arithmetic_maft", "model.precision=bf16", "algorithm.warmup=0"),
            "model.precision=bf16",
        ),
    ],
)
def test_what_depends_on_the_length_of_games_and_debates(
    words: tuple[str, ...], part: str | None
) -> None:
    config = parsed(*words, "scale=small", "algorithm.iterations=10")
    if part is None:
        require_same_training(config, 1, 1, "run_dir=x")
        return
    with pytest.raises(ConfigError, match=part):
        require_same_training(config, 1, 1, "run_dir=x")
