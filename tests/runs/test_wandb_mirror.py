"""W&B: what an offline run holds, and that no server or key is ever waited for."""

from __future__ import annotations

import shlex
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
import wandb

from cory.config import Config
from cory.episode import Episode, Prompt, Turn
from cory.runs.mirrors.description import COLUMNS
from cory.runs.mirrors.wandb_mirror import WandbMirror, is_reachable, sync_hint
from cory.runs.sweeps.differences import write_varied
from tests.support.commands import until
from tests.support.composing import parsed
from tests.support.wandb_files import OfflineRun, offline_runs
from tests.support.wandb_server import WandbServer
from tests.support.warm import Fork

COMMIT = "0123456789abcdef"
KEY = "0" * 40
Fallback = Callable[..., tuple[str, float]]
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """W&B without the settings and keys of whoever runs the tests."""
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_MODE", *PROXIES):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "settings"))
    wandb.teardown()  # it reads the environment once
    yield
    with suppress(ConnectionError):  # of the process that a test below kills
        wandb.teardown()


@pytest.fixture
def closed_port() -> int:
    """A port of this machine at which nobody listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(50)
        yield s.getsockname()[1]


def config(mode: str, *overrides: str) -> Config:
    return parsed(
        "algorithm=cory", "seed=7", f"wandb.mode={mode}", "wandb.project=test", *overrides
    )


def numbers(iteration: int) -> dict[str, float]:
    return {
        "objective/score/agent_0": 0.1 * iteration + 1 / 3,
        "objective/score/agent_1": -0.2 * iteration,
        "objective/score/pioneer": 0.1 * iteration + 1 / 3,
        "time/iteration_s": 1.5,
    }


def episode(name: str) -> Episode:
    turns = [
        Turn(
            f"agent_{i}",
            role,
            0,
            f"to {name} {i}",
            f"says ‘{i}’",
            [1],
            [2],
            score=0.25 * i,
            credit=0.5,
        )
        for i, role in enumerate(("pioneer", "observer"))
    ]
    return Episode(Prompt(name, "query"), turns)


def mirrored(config: Config, run_dir: Path, *iterations: int) -> OfflineRun:
    """The offline run that one start of a run leaves behind."""
    before = {run.folder for run in offline_runs(run_dir)}
    mirror = WandbMirror(config, run_dir, COMMIT)
    for iteration in iterations:
        mirror.log(iteration, numbers(iteration))
        mirror.log_samples(iteration, [episode(f"e{iteration}"), episode("other")])
    mirror.finish()
    (run,) = [run for run in offline_runs(run_dir) if run.folder not in before]
    return run


@pytest.mark.slow
def test_an_offline_run_holds_every_number_the_settings_and_the_samples(tmp_path: Path) -> None:
    run = mirrored(config("offline", "sweep=cory/fig3"), tmp_path, 0, 1, 2)
    assert run.numbers() == [{"iteration": i, **numbers(i)} for i in range(3)]
    assert run.axes["*"] == "iteration"
    assert run.config["seed"] == 7
    assert run.config["algorithm"]["name"] == "cory"
    assert run.config["algorithm"]["sampling"]["max_response_tokens"] > 0
    assert run.run.run_group == "cory/fig3, quickstart"
    assert list(run.run.tags) == ["paper", COMMIT[:7]]
    assert run.run.display_name == "quickstart/seed7"
    assert run.run.project == "test"
    first, second, third = run.increments()
    for number, table in enumerate((first, second, third)):
        assert table["_type"] == "incremental-table-file"
        assert (table["increment_num"], table["columns"]) == (number, list(COLUMNS))
    assert second["data"] == [
        [1, "e1", "pioneer", "agent_0", "to e1 0", "says ‘0’", 0.0, 0.5],
        [1, "e1", "observer", "agent_1", "to e1 1", "says ‘1’", 0.25, 0.5],
        [1, "other", "pioneer", "agent_0", "to other 0", "says ‘0’", 0.0, 0.5],
        [1, "other", "observer", "agent_1", "to other 1", "says ‘1’", 0.25, 0.5],
    ]
    assert [row[0] for table in (first, third) for row in table["data"]] == [0] * 4 + [2] * 4


@pytest.mark.slow
def test_a_run_outside_of_a_sweep_is_grouped_by_its_experiment(tmp_path: Path) -> None:
    assert mirrored(config("offline"), tmp_path).run.run_group == "quickstart"


@pytest.mark.slow
def test_what_varies_in_a_sweep_names_run_and_group(tmp_path: Path) -> None:
    write_varied(tmp_path, {"algorithm.kl_coef": "0.3", "seed": "7", "experiment": "quickstart"})
    run = mirrored(config("offline"), tmp_path).run
    assert (run.display_name, run.run_group) == (
        "quickstart/kl_coef=0.3/seed7",
        "quickstart, kl_coef=0.3",
    )


@pytest.mark.slow
def test_settings_name_and_tag_the_run(tmp_path: Path) -> None:
    words = ("entity=team", "name=mine", "group=ours", "tags=[a,b]", "notes='why not'")
    run = mirrored(config("offline", *(f"wandb.{word}" for word in words)), tmp_path).run
    assert (run.entity, run.display_name, run.run_group) == ("team", "mine", "ours")
    assert (list(run.tags), run.notes) == (["a", "b", "paper", COMMIT[:7]], "why not")


@pytest.mark.slow
def test_the_command_uploads_every_part_that_is_not_yet(tmp_path: Path) -> None:
    folder = tmp_path / "a run"
    folder.mkdir()
    assert sync_hint(folder) == ""
    parts = [mirrored(config("offline"), folder, 0).folder]
    time.sleep(1.1)  # W&B names folders by the second
    parts.append(mirrored(config("offline"), folder, 1).folder)
    said = sync_hint(folder)
    where, _, command = said.partition("; to upload: ")
    assert where == f"W&B: recorded offline in {folder / 'wandb'}"
    assert shlex.split(command) == ["wandb", "sync", *sorted(map(str, parts))]
    (log,) = parts[0].glob("*.wandb")
    log.with_name(f"{log.name}.synced").touch()  # as `wandb sync` leaves it
    assert str(parts[0]) not in sync_hint(folder) and str(parts[1]) in sync_hint(folder)


@pytest.mark.slow
def test_a_resumed_run_continues_under_the_same_id(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = mirrored(config("offline"), tmp_path / "a", 0, 1, 2)
    second = mirrored(config("offline"), tmp_path / "a", 2, 3)
    other = mirrored(config("offline"), tmp_path / "b", 0)
    assert first.run.run_id == second.run.run_id == (tmp_path / "a" / "wandb_id").read_text()
    assert other.run.run_id != first.run.run_id
    assert first.folder != second.folder
    # whoever was stopped between a checkpoint and its end says some iterations twice
    both = [line["iteration"] for run in (first, second) for line in run.numbers()]
    assert both == [0, 1, 2, 2, 3]


@pytest.fixture
def fallback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Fallback:
    """What a run that wants to be online says when it cannot be, and after how many seconds.

    `fallback(port, key, *settings)`: W&B is said to be at that port of this machine
    """

    def call(port: int, key: str | None, *settings: str) -> tuple[str, float]:
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{port}")
        if key is not None:
            monkeypatch.setenv("WANDB_API_KEY", key)
        began = time.monotonic()
        run = mirrored(config("online", *settings), tmp_path, 0)
        took = time.monotonic() - began
        assert run.numbers() == [{"iteration": 0, **numbers(0)}]
        (note,) = capfd.readouterr().err.splitlines()
        begins = "note: W&B records offline, to be uploaded with `wandb sync`, because "
        assert note.startswith(begins)
        return note.removeprefix(begins), took

    return call


@pytest.mark.slow
def test_online_without_a_network_records_offline_at_once(
    fallback: Fallback, closed_port: int
) -> None:
    why, took = fallback(closed_port, KEY)
    assert why == f"http://127.0.0.1:{closed_port} does not answer"
    assert took < 5


@pytest.mark.slow
def test_a_server_that_says_nothing_is_given_up(fallback: Fallback, silent_port: int) -> None:
    why, took = fallback(silent_port, KEY, "wandb.init_timeout=2")
    # in the library's words: that it took the call, and that there was a key, is not the trouble
    assert why and "does not answer" not in why and "no API key" not in why
    assert 2 < took < 20  # it was waited for, and not for ever


@pytest.mark.slow
def test_online_without_a_key_records_offline_at_once(fallback: Fallback, silent_port: int) -> None:
    why, took = fallback(silent_port, None)
    assert why == "there is no API key; `wandb login` stores one"
    assert took < 5


def test_the_question_whether_a_server_answers_has_an_end(
    monkeypatch: pytest.MonkeyPatch, silent_port: int, closed_port: int
) -> None:
    assert is_reachable(f"http://127.0.0.1:{silent_port}", 1)
    assert not is_reachable(f"http://127.0.0.1:{closed_port}", 1)

    def nothing_comes_back(*_: object) -> None:
        """As where packets, or questions for a name, get no answer at all."""
        time.sleep(2)
        raise OSError("timed out")

    monkeypatch.setattr(socket, "create_connection", nothing_comes_back)
    began = time.monotonic()
    assert not is_reachable("https://nowhere.example", 0.2)
    assert time.monotonic() - began < 1
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")  # nobody but it can say
    assert is_reachable("https://nowhere.example", 0.2)
    monkeypatch.setenv("no_proxy", "nowhere.example")
    assert not is_reachable("https://nowhere.example", 0.2)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    """A stand-in for W&B that the environment points to."""
    server = WandbServer()
    monkeypatch.setenv("WANDB_BASE_URL", server.url)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    yield server
    server.leave()


@pytest.mark.slow
def test_online_a_resumed_run_goes_on_in_the_same_run(
    server: WandbServer, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for iterations in ((0, 1, 2), (2, 3)):
        mirror = WandbMirror(config("online"), tmp_path, COMMIT)
        for iteration in iterations:
            mirror.log(iteration, numbers(iteration))
        mirror.finish()
    ((run, lines),) = server.history.items()
    assert run == (tmp_path / "wandb_id").read_text()
    assert [line["iteration"] for line in lines] == [0, 1, 2, 2, 3]
    assert [line["_step"] for line in lines] == [0, 1, 2, 3, 4]
    scores = [line["objective/score/agent_0"] for line in lines]
    assert scores == [numbers(i)["objective/score/agent_0"] for i in (0, 1, 2, 2, 3)]
    assert server.finished == [run, run]
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_server_that_leaves_holds_nobody_up(server: WandbServer, tmp_path: Path) -> None:
    mirror = WandbMirror(config("online", "wandb.finish_timeout=2"), tmp_path, COMMIT)
    mirror.log(0, numbers(0))
    server.leave()
    began = time.monotonic()
    mirror.log(1, numbers(1))
    mirror.finish()
    assert time.monotonic() - began < 10
    (log,) = (tmp_path / "wandb").glob("run-*")
    assert OfflineRun(log).numbers() == [{"iteration": i, **numbers(i)} for i in (0, 1)]


@pytest.mark.slow
def test_a_run_survives_the_death_of_the_process_that_wandb_runs_in(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    mirror = WandbMirror(config("offline"), tmp_path, COMMIT)
    (core,) = [p for p in psutil.Process().children() if "wandb-core" in p.name()]
    core.kill()
    core.wait()
    began = time.monotonic()
    for iteration in range(3):
        mirror.log(iteration, numbers(iteration))
    mirror.finish()
    assert time.monotonic() - began < 10
    notes = [line for line in capfd.readouterr().err.splitlines() if line.startswith("note:")]
    assert len(notes) == 1 and "W&B broke down" in notes[0]


def log_and_wait(folder: Path) -> None:
    mirror = WandbMirror(config("offline"), folder, COMMIT)
    for iteration in range(3):
        mirror.log(iteration, numbers(iteration))
    time.sleep(2)
    print("said", flush=True)
    time.sleep(60)


@pytest.mark.slow
def test_a_killed_run_keeps_what_it_said_more_than_a_second_before(tmp_path: Path) -> None:
    fork = Fork(tmp_path, partial(log_and_wait, tmp_path))
    until(lambda: fork.out == "said\n")
    fork.kill()
    fork.wait()
    (run,) = offline_runs(tmp_path)
    assert run.numbers() == [{"iteration": i, **numbers(i)} for i in range(3)]
