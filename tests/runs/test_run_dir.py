"""Whose run a directory holds: only an empty folder, or this run, may be written into."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from omegaconf import DictConfig

from cory.config import ConfigError
from cory.runs.run_dir import (
    CHECKPOINTS,
    GAMES,
    MANIFEST,
    METRICS,
    PART,
    RECORD,
    SETTINGS,
    lock,
    prepare,
    require_own,
    unfinished_run,
    write_settings,
)
from tests.support.commands import files_of
from tests.support.composing import compose_config
from tests.support.refusals import refusal


def begun(run_dir: Path, cfg: DictConfig) -> None:
    """A run that has written records."""
    write_settings(run_dir, cfg, [])
    (run_dir / METRICS).write_text('{"iteration": 0}\n')


def started(run_dir: Path, *words: str) -> bool:
    return prepare(run_dir, compose_config(*words), [*words])


def one_file(name: str, content: bytes = b"mine") -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    return make


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (one_file("agents/mine.txt"), "holds agents but no config.yaml: it is no run; name a new"),
        (one_file(SETTINGS, b"host: example\n"), "holds a config.yaml that is not of a run"),
        (one_file(SETTINGS, b"- 1\n"), "cannot be read (it is no mapping)"),
    ],
)
def test_a_folder_of_others_is_refused_and_stays_as_it_was(make, said: str, tmp_path) -> None:
    make(tmp_path)
    before = files_of(tmp_path)
    for refuse in (require_own, started):
        text = refusal(partial(refuse, tmp_path))
        assert text.startswith(f"run_dir={tmp_path}") and said in text, text
    assert files_of(tmp_path) == before


def test_new_and_empty_folders_and_runs_are_taken(tmp_path: Path) -> None:
    require_own(tmp_path / "new")
    require_own(tmp_path)
    with lock(tmp_path):  # as a command does that is refused after it
        pass
    require_own(tmp_path)
    (tmp_path / f".{SETTINGS}.host.17").touch()  # killed within `write_whole`
    require_own(tmp_path)
    write_settings(tmp_path, compose_config(), [])
    (tmp_path / "slurm-1.out").touch()  # beside a run, nobody's files are in the way
    require_own(tmp_path)
    assert started(tmp_path)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("seed=1", "holds a run with seed=0, not 1"),
        ("algorithm.clip_range=0.3", "holds a run with algorithm.clip_range=0.2, not 0.3"),
        ("algorithm=ppo", "holds a run with algorithm."),
        ("scale=small", "holds a run with "),
    ],
)
def test_a_directory_with_another_run_is_refused(override: str, said: str, tmp_path: Path) -> None:
    write_settings(tmp_path, compose_config(), [])
    (tmp_path / METRICS).touch()
    assert started(tmp_path, override)  # nothing was done there
    begun(tmp_path, compose_config())
    before = files_of(tmp_path)
    with pytest.raises(ConfigError, match=f"^run_dir={tmp_path} {said}"):
        started(tmp_path, override)
    assert files_of(tmp_path) == before
    assert started(tmp_path, "hardware=cpu2", "wandb.project=x", "checkpoint_every=1")


@pytest.mark.parametrize("what", [f"{CHECKPOINTS}/000000/{MANIFEST}", f"{GAMES}/epoch_000.jsonl"])
def test_what_was_collected_is_of_these_settings(what: str, tmp_path: Path) -> None:
    """Of a run that was left in its first iteration."""
    write_settings(tmp_path, compose_config(), [])
    (tmp_path / what).parent.mkdir(parents=True)
    (tmp_path / what).write_text("{}\n")
    with pytest.raises(ConfigError, match="holds a run with seed=0, not 1"):
        started(tmp_path, "seed=1")
    assert started(tmp_path)


def test_a_checkpoint_counts_once_it_has_its_name(tmp_path: Path, capsys) -> None:
    begun(tmp_path, compose_config())
    for name in ("000003", f"000004{PART}", "000003_copy"):
        (tmp_path / CHECKPOINTS / name).mkdir(parents=True)
        (tmp_path / CHECKPOINTS / name / MANIFEST).write_text("{}")
    assert started(tmp_path) and " after iteration 3 (" in capsys.readouterr().out


def test_who_samples_is_a_setting_that_stays(tmp_path: Path) -> None:
    """Other tokens are drawn then."""
    begun(tmp_path, compose_config("algorithm=ppo"))
    said = "holds a run with hardware.sampler=own, not vllm"
    with pytest.raises(ConfigError, match=said):
        started(tmp_path, "algorithm=ppo", "hardware.sampler=vllm")


def test_a_run_goes_on_and_once_it_is_finished_stays_as_it_is(tmp_path: Path, capsys) -> None:
    run_dir = tmp_path / "run"
    assert started(run_dir) and capsys.readouterr().out == ""
    begun(run_dir, compose_config())
    assert started(run_dir)
    where = f"goes on with the run in {run_dir} from its start"
    assert capsys.readouterr().out.startswith(where)
    begun(run_dir, compose_config())
    (run_dir / RECORD).write_text("{}")
    (run_dir / CHECKPOINTS / "000001").mkdir(parents=True)  # it was killed at its very end
    assert not started(run_dir) and "is complete" in capsys.readouterr().out
    assert not (run_dir / CHECKPOINTS).exists()
    with pytest.raises(ConfigError, match=r"a run with algorithm\.iterations=24, not 41"):
        started(run_dir, "algorithm.iterations=41")


def test_the_newest_unfinished_run_with_equal_settings_is_gone_on_with(tmp_path, capsys) -> None:
    cfg = compose_config()
    for day, override in enumerate(["", "", "", "algorithm.gamma=0.9", "seed=1"], 1):
        folder = tmp_path / f"2026-01-0{day}_12-00-00_seed{override[5:] or 0}"
        write_settings(folder, compose_config(*([override] if override else [])), [])
    first, second, third = (tmp_path / f"2026-01-0{day}_12-00-00_seed0" for day in (1, 2, 3))
    new = tmp_path / "2026-02-01_12-00-00_seed0"
    assert unfinished_run(new, cfg) == third
    assert unfinished_run(new, compose_config("hardware=cpu2", "wandb.mode=offline")) == third
    (third / RECORD).write_text("{}")  # finished
    assert unfinished_run(new, cfg) == second
    assert unfinished_run(tmp_path / "chosen", cfg) is None
    assert unfinished_run(new, compose_config("algorithm.gamma=0.8")) is None
    (second / SETTINGS).write_bytes(b"a: [\n")
    assert unfinished_run(new, cfg) == first
    note = capsys.readouterr().err
    assert note.startswith(f"note: left out as no run to go on with: {second} ")
    assert note.count("\n") == 1
