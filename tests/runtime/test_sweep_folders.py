"""Requests to stop a job elsewhere, and what a sweep that never began leaves."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from cory.runtime.launch import COMMAND_STOP, ask_to_stop, listen, stop_code, stopping
from cory.runtime.sweeps.folder import MULTIRUN, SweepFolder, remove_empty, remove_unbegun_sweep
from tests.support.warm import WarmCommand


@pytest.mark.parametrize("there", ["elsewhere", None])
def test_a_job_on_another_machine_stops_by_a_folder_of_its_own(
    there: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the jobs of Slurm: the login node's folder is not there."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    ends: list[Path] = []
    monkeypatch.setattr(atexit, "register", lambda _, folder, **__: ends.append(Path(folder)))
    monkeypatch.setenv(COMMAND_STOP, str(tmp_path / "elsewhere" / "stop"))
    if there is None:
        monkeypatch.delenv(COMMAND_STOP)
    listen()
    assert not stopping()
    ask_to_stop(signal.SIGTERM)
    assert stopping() and stop_code() == 143
    (folder,) = ends
    assert [path.name for path in folder.iterdir()] == ["stop"]
    before = os.environ[COMMAND_STOP]
    listen()  # a sweep's next job in this process
    assert os.environ[COMMAND_STOP] == before
    shutil.rmtree(folder)


def test_empty_folders_that_another_command_removes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on two nodes that share a file system."""
    folder = tmp_path / "outputs" / "today"
    folder.mkdir(parents=True)
    remove = Path.rmdir

    def first(path: Path) -> None:
        remove(path)
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "rmdir", first)
    remove_empty(folder)
    assert not folder.exists()


def test_a_sweep_that_never_began_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("outputs/adhoc/today")

    def begin() -> None:
        folder.mkdir(parents=True)
        (folder / MULTIRUN).touch()
        SweepFolder().on_multirun_start(
            OmegaConf.create({"hydra": {"sweep": {"dir": str(folder)}}})
        )

    begin()
    remove_unbegun_sweep()
    assert not list(tmp_path.iterdir())
    begin()
    (folder / "seed0").mkdir()
    remove_unbegun_sweep()
    assert (folder / MULTIRUN).exists()


@pytest.mark.slow
def test_sweeps_that_are_refused_leave_nothing(tmp_path: Path) -> None:
    """By Hydra, which knows no such setting; by the settings' own checks."""
    for word, said in {
        "algorithm.kl_coeff=0.1,0.2": "error: algorithm.kl_coeff is not a setting",
        "algorithm.kl_coef=-1,-2": "error: algorithm.kl_coef must be at least 0",
    }.items():
        command = WarmCommand(tmp_path, ["-m", word])
        assert command.wait() == 1
        assert command.err.startswith(said), command.err
        assert not (tmp_path / "outputs").exists()
