"""A run directory that is moved or deleted while the run works: one line, nothing made again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cory.runs.stored_settings import SETTINGS
from cory.runtime.folder_watch import FolderWatch
from cory.runtime.watchdog import REFUSED
from tests.support.commands import metrics, until
from tests.support.warm import WarmCommand


class First:
    """Stands in for a `WorkerWatch`: this process speaks."""

    def first_to_fail(self) -> bool:
        return True


def watch_of(run_dir: Path) -> FolderWatch:
    watch = FolderWatch(run_dir, First())  # type: ignore[arg-type]  # all that is used of it
    watch.close()
    return watch


def test_what_counts_as_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / SETTINGS).touch()
    watch = watch_of(run_dir)
    assert not watch.gone()
    (run_dir / "more").mkdir()
    assert not watch.gone() and watch._look() is None
    run_dir.rename(tmp_path / "moved")
    assert watch.gone()
    run_dir.mkdir()  # made again, as a checkpoint would
    assert watch.gone() and watch._look() == watch._look() == REFUSED
    said = capsys.readouterr().err
    assert said.startswith(f"error: run_dir={run_dir} is gone: it was moved or deleted while")
    assert said.count("\n") == 1
    run_dir.rmdir()
    (tmp_path / "moved").rename(run_dir)
    assert not watch.gone()


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["moved", "deleted"])
def test_a_run_without_its_directory_ends_with_one_line(loss: str, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    words = ["scale=small", "algorithm.iterations=400", "checkpoint_every=1", f"run_dir={run_dir}"]
    command = WarmCommand(tmp_path, words)
    until(lambda: metrics(run_dir) or command.poll() is not None)
    if loss == "moved":
        run_dir.rename(tmp_path / "elsewhere")
    else:
        shutil.rmtree(run_dir, ignore_errors=True)
        shutil.rmtree(run_dir, ignore_errors=True)  # what was written meanwhile
    assert command.wait() == 1
    assert command.err.startswith(f"error: run_dir={run_dir} is gone: "), command.err
    assert command.err.count("\n") == 1 and "Traceback" not in command.out
    if loss == "moved":
        assert (tmp_path / "elsewhere" / SETTINGS).exists()
