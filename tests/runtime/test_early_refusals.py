"""What a command refuses before any worker starts: at once, leaving nothing."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from cory import train
from cory.config import Config, parse_config
from cory.runs.run_dir import AGENTS, METRICS, RECORD, write_settings
from cory.runtime import worker
from cory.runtime.launch import REFUSED
from cory.train import refuse_early
from tests.support.composing import compose_config, parsed
from tests.support.refusals import refusal

GAMES = ("experiment=spag/llama2_im", "scale=small")
TEAM = ("algorithm=team", "algorithm.play=mine.py:play", "algorithm.agents=[one,two]")
PROMPTS = ("task=prompts", "reward=sentiment", "task.test_split=null", "task.held_out_share=0.5")


def refused(config: Config, run_dir: Path) -> str:
    """What is said of a run."""
    return refusal(lambda: refuse_early(run_dir, config))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["model.path={tmp}/no"], "model.path={tmp}/no: there is no such folder"),
        (["model.path={tmp}"], "model.path={tmp}: the folder has no config.json"),
        ([*PROMPTS, "task.path={tmp}/a.csv"], "task.path={tmp}/a.csv: there is no such file"),
        (["init_from={tmp}/none"], "init_from={tmp}/none: there is no run"),
        (["init_from={tmp}/begun"], "init_from={tmp}/begun: the run has no agents; they appear"),
        (
            [*GAMES, "+algorithm.opponents.other={tmp}/none"],
            "algorithm.opponents.other={tmp}/none: there is no run",
        ),
        (
            [*GAMES, "algorithm.games={tmp}/a.json"],
            "algorithm.games={tmp}/a.json: there is no such",
        ),
        (
            [*TEAM, "algorithm.fixed={{two:{tmp}/a}}"],
            "algorithm.fixed.two={tmp}/a: there is no run",
        ),
        (["reward.path={tmp}/no"], "reward.path={tmp}/no: there is no such folder"),
        (["run_dir={tmp}/mine"], "run_dir={tmp}/mine"),
    ],
)
def test_what_a_setting_names_is_refused(words: list[str], said: str, tmp_path: Path) -> None:
    write_settings(tmp_path / "begun", compose_config(), [])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    run_dir = tmp_path / ("mine" if words[0].startswith("run_dir") else "run")
    found = refusal(  # a model's folder is read while the settings are composed
        lambda: refuse_early(run_dir, parsed(*(word.format(tmp=tmp_path) for word in words)))
    )
    assert found.startswith(said.format(tmp=tmp_path))


def test_without_its_package_a_run_is_refused(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(train, "find_spec", {"tensorboard": None}.__getitem__)
    said = 'tensorboard needs the package tensorboard: pip install ".[tensorboard]"'
    assert refused(parsed("tensorboard=true"), tmp_path / "run") == said
    refuse_early(tmp_path / "run", parsed())


def test_a_finished_run_needs_nothing_any_more(tmp_path: Path) -> None:
    cfg = compose_config(f"init_from={tmp_path}/gone")
    write_settings(tmp_path / "run", cfg, [])
    (tmp_path / "run" / METRICS).write_text("{}")
    done = {"iterations": cfg.algorithm.iterations}
    (tmp_path / "run" / RECORD).write_text(json.dumps(done))
    (tmp_path / "run" / AGENTS).mkdir()
    refuse_early(tmp_path / "run", parse_config(cfg))
    assert "gone: there is no run" in refused(parse_config(cfg), tmp_path / "other")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "m.jsonl"), "error: [Errno 28] No space"),
        (OSError(errno.ENOENT, "No such file", "libx.so"), "Traceback (most recent call last):"),
    ],
)
def test_a_full_disk_is_said_in_a_line_and_no_other_error_of_the_system(
    error: OSError, said: str, monkeypatch, capsys: Any
) -> None:
    def work(run_dir: Path) -> None:
        raise error

    monkeypatch.setattr(worker, "work", work)
    for name in ("silence_libraries", "stop_process_group"):  # this process goes on
        monkeypatch.setattr(worker, name, lambda: None)
    assert worker.attempt(Path("run")) == REFUSED
    told = capsys.readouterr().err
    assert told.startswith(said)
    assert ("the same command goes on" in told) == (error.errno == errno.ENOSPC)
