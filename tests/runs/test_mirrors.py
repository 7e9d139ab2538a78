"""W&B and TensorBoard: what they hold, also of a resumed run, and where they cannot be."""

import math
import shlex
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cory.config import Config, parse_config
from cory.episode import Episode, Prompt, Turn
from cory.runs.recorder import (
    COLUMNS,
    TENSORBOARD,
    Recorder,
    TensorBoardMirror,
    WandbMirror,
    group_of,
    name_of,
    print_hints,
)
from cory.runs.run_dir import write_settings
from tests.support.composing import compose_config, parsed
from tests.support.wandb_files import OfflineRun, offline_runs

COMMIT = "0123456789abcdef"
KEY = "0" * 40
SCORE = "objective/score/agent_0"
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path: Path) -> Iterator[None]:
    """W&B without the settings and keys of whoever runs the tests."""
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_MODE", *PROXIES):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "settings"))
    wandb.teardown()  # it reads the environment once
    yield
    wandb.teardown()


def begun(run_dir: Path, *words: str) -> Config:
    """The settings of a run, which are in its directory."""
    cfg = compose_config("algorithm=cory", "seed=7", *words)
    write_settings(run_dir, cfg, [])
    return parse_config(cfg)


def numbers(iteration: int) -> dict[str, float]:
    return {SCORE: 0.1 * iteration + 1 / 3, "time/iteration_s": 1.5}


def episode(name: str) -> Episode:
    turns = [
        Turn("agent_0", "pioneer", 0, f"to {name}", "# says ‘0’", [1], [2], score=0.25, credit=0.5),
        Turn("agent_1", "observer", 0, "to it", "*said*", [1], [2]),
    ]
    return Episode(Prompt(name, "query"), turns)


def row(iteration: int, name: str) -> list[Any]:
    """The first turn of an episode, as a table has it."""
    return [iteration, name, "pioneer", "agent_0", f"to {name}", "# says ‘0’", 0.25, 0.5]


def wandb_run(run_dir: Path, words: tuple[str, ...], *iterations: int) -> OfflineRun:
    """The offline run of W&B that one start of a run leaves behind."""
    earlier = {run.folder for run in offline_runs(run_dir)}
    words = (f"wandb.mode={'offline' if not words else words[0]}", *words[1:])
    mirror = WandbMirror(begun(run_dir, "wandb.project=test", *words), run_dir, COMMIT)
    for iteration in iterations:
        mirror.log(iteration, numbers(iteration))
        mirror.log_samples(iteration, [episode(f"e{iteration}")])
    mirror.close()
    (run,) = [run for run in offline_runs(run_dir) if run.folder not in earlier]
    return run


@pytest.mark.slow
def test_an_offline_run_holds_every_number_the_settings_and_the_samples(tmp_path: Path) -> None:
    run = wandb_run(tmp_path / "seed7", ("offline", "sweep=cory/fig3"), 0, 1, 2)
    assert run.numbers() == [{"iteration": i, **numbers(i)} for i in range(3)]
    assert run.axes["*"] == "iteration"
    assert run.config["seed"] == 7 and run.config["algorithm"]["name"] == "cory"
    assert run.run.run_group == "cory/fig3, imdb_cory"
    assert list(run.run.tags) == ["paper", COMMIT[:7]]
    assert (run.run.display_name, run.run.project) == ("imdb_cory/seed7", "test")
    for number, table in enumerate(run.increments()):
        assert table["_type"] == "incremental-table-file"
        assert (table["increment_num"], table["columns"]) == (number, list(COLUMNS))
        assert len(table["data"]) == 2 and table["data"][0] == row(number, f"e{number}")


def test_what_varies_in_a_sweep_names_run_and_group(tmp_path: Path) -> None:
    config = parsed("algorithm=cory", "seed=7")
    run_dir = tmp_path / "algorithm.kl_coef-0.3_seed-7"
    assert name_of(config, run_dir) == "imdb_cory/algorithm.kl_coef-0.3_seed-7"
    assert group_of(config, run_dir) == "imdb_cory, algorithm.kl_coef-0.3"


@pytest.mark.slow
def test_a_resumed_run_has_the_same_id_and_a_hint_names_the_parts_to_upload(
    tmp_path: Path, capsys
) -> None:
    folder = tmp_path / "a run"
    begun(folder)
    print_hints(folder)
    assert capsys.readouterr().out == ""
    parts = [wandb_run(folder, (), 0, 1, 2)]
    time.sleep(1.1)  # W&B names folders by the second
    parts.append(wandb_run(folder, (), 2, 3))
    words = ("entity=team", "name=mine", "group=ours", "tags=[a,b]", "notes='why not'")
    other = wandb_run(tmp_path / "b", ("offline", *(f"wandb.{word}" for word in words)), 0)
    assert (other.run.entity, other.run.display_name) == ("team", "mine")
    assert other.run.run_group == "ours"
    assert (list(other.run.tags), other.run.notes) == (["a", "b", "paper", COMMIT[:7]], "why not")
    assert len({part.run.run_id for part in parts}) == 1 and parts[0].folder != parts[1].folder
    assert other.run.run_id != parts[0].run.run_id
    print_hints(folder)
    where, _, command = capsys.readouterr().out.strip().partition("; to upload: ")
    assert where == "W&B: recorded offline"
    assert shlex.split(command) == ["wandb", "sync", *sorted(str(p.folder) for p in parts)]


@pytest.mark.slow
@pytest.mark.parametrize(("listens", "key"), [(True, KEY), (False, None)])
def test_online_without_a_server_or_a_key_records_offline(
    listens: bool, key: str | None, tmp_path: Path, monkeypatch, capfd
) -> None:
    with socket.socket() as silent:  # it takes connections and never says a word
        silent.bind(("127.0.0.1", 0))
        if listens:
            silent.listen(50)
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        if key is not None:
            monkeypatch.setenv("WANDB_API_KEY", key)
        began = time.monotonic()
        run = wandb_run(tmp_path, ("online", "wandb.init_timeout=2"), 0)
        took = time.monotonic() - began
    assert run.numbers() == [{"iteration": 0, **numbers(0)}]
    (note,) = capfd.readouterr().err.splitlines()
    begins = "note: W&B records offline, to be uploaded with `wandb sync`, because "
    assert note.startswith(begins) and ("no API key" in note) == (key is None)
    assert took < 20


def events(run_dir: Path) -> Any:
    """The event files as TensorBoard reads them."""
    found = EventAccumulator(str(run_dir / TENSORBOARD))
    found.Reload()
    return found


def test_tensorboard_has_every_finite_metric_once_also_of_a_resumed_run(tmp_path: Path) -> None:
    # the second start's checkpoint was after two iterations
    for logged, iterations, factor in ((0, (0, 1, 2, 3), 1.0), (2, (2, 3, 4), 10.0)):
        mirror = TensorBoardMirror(tmp_path, logged)
        for iteration in iterations:
            mirror.log(iteration, {"a": factor * iteration, "b": math.nan, "c": math.inf})
        assert events(tmp_path).Tags()["scalars"] == ["a"]  # at once
        mirror.close()
    points = [(event.step, event.value) for event in events(tmp_path).Scalars("a")]
    assert points == [(0, 0), (1, 1), (2, 20), (3, 30), (4, 40)]


def test_a_mirror_that_fails_gets_no_more_and_the_run_goes_on(tmp_path: Path, capsys) -> None:
    recorder = Recorder(tmp_path, begun(tmp_path))
    mirror = TensorBoardMirror(tmp_path, 0)
    mirror.close()
    mirror.writer = None  # type: ignore[assignment]
    recorder.mirrors = [mirror]
    recorder.close()
    assert recorder.mirrors == [] and "TensorBoardMirror broke" in capsys.readouterr().err
