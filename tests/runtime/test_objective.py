"""The number that a run tells a sweeper, without training: what workers would record is made up."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus

from cory import train
from cory.config import ConfigError
from cory.runs.run_dir import METRICS, RECORD, read_settings, settings_digest
from cory.runtime.launch import JobFailed
from cory.train import objective_of
from tests.support.composing import compose_config

SCORE = "eval/score/agent_0"


def worth(run_dir: Path) -> float:
    """The score of a made-up run: highest at a clip range of 0.3."""
    settings = read_settings(run_dir)
    return 1.0 - abs(settings.algorithm.clip_range - 0.3) + settings.seed


def made_up(run_dir: Path, *_: Any, **how: Any) -> bool:
    """In place of workers: a run that has finished; above a clip range of 0.8 one that has not."""
    score = worth(run_dir)
    if score < 0.5:
        return False
    final = {SCORE: score, "objective/kl/agent_0": float("nan")}
    (run_dir / METRICS).write_text(json.dumps({"iteration": 0, **final}) + "\n")
    with (run_dir / RECORD).open("x", encoding="utf-8") as record:  # only once in a directory
        json.dump(
            {"final": final, "iterations": read_settings(run_dir).algorithm.iterations}, record
        )
    return True


@pytest.mark.slow
def test_each_job_tells_its_own_number_and_failed_ones_are_told_as_failed(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(train, "launch", made_up)
    words = ("algorithm.clip_range=0.1,0.3,0.9", "parallel_runs=null", f"objective={SCORE}")
    for _ in range(2):  # at the second time they are complete, and tell the same
        told: list[JobReturn] = []
        # Hydra imports its plugins by itself, and anew where its state was put back
        named = Plugins.instance().class_name_to_class
        launcher: Any = named["hydra._internal.core_plugins.basic_launcher.BasicLauncher"]
        whole = launcher.launch

        def noting(
            self: Any, words: Any, initial_job_idx: int, whole: Any = whole, told: Any = told
        ) -> Sequence[JobReturn]:
            own: Sequence[JobReturn] = whole(self, words, initial_job_idx)
            told += own
            return own

        monkeypatch.setattr(launcher, "launch", noting)
        code, _, err = command("-m", *words, f"hydra.sweep.dir={tmp_path}/sweep")
        assert (code, err) == (1, "")
        statuses = [JobStatus.COMPLETED, JobStatus.COMPLETED, JobStatus.FAILED]
        assert [one.status for one in told] == statuses
        assert [one.return_value for one in told[:2]] == pytest.approx([0.8, 1.0])
        with pytest.raises(JobFailed):
            _ = told[2].return_value


def test_the_nearest_metric_is_named(tmp_path: Path) -> None:
    final = {SCORE: 0.5, "role/agent_0": 1.0, "lost": math.nan}
    (tmp_path / RECORD).write_text(json.dumps({"final": final}))
    assert objective_of(tmp_path, SCORE) == 0.5
    assert objective_of(tmp_path, None) is None
    with pytest.raises(ConfigError, match=rf"no such metric; did you mean {SCORE}\?"):
        objective_of(tmp_path, "evl/score/agent_0")
    with pytest.raises(ConfigError, match="is nan, not a number"):
        objective_of(tmp_path, "lost")


def test_a_run_with_an_objective_is_the_same_run() -> None:
    """An unfinished run goes on with another one, or without."""
    plain, told = compose_config(), compose_config(f"objective={SCORE}")
    assert (plain.objective, told.objective) == (None, SCORE)
    assert settings_digest(told) == settings_digest(plain)
