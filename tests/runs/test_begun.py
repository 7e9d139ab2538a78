"""Values of conf/ that changed after runs had begun: new runs have them, old ones keep theirs."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from cory.config import ConfigError
from cory.runs.begun import keep_begun
from cory.runs.precision import as_begun
from cory.runs.run_dir import is_complete, write_settings
from tests.support.composing import compose_config

EXPERIMENT = "experiment=maporl/gsm8k_untrained"  # whose evaluation.greedy is written this way


def test_a_new_run_has_the_value_and_an_old_one_keeps_its_own() -> None:
    cfg = compose_config(EXPERIMENT)
    assert cfg.evaluation.greedy is True
    stored = OmegaConf.create({"evaluation": {"greedy": False, "team": False}})
    kept = as_begun(cfg, stored)
    assert kept.evaluation.greedy is False
    assert kept.evaluation.team is True  # a plain value of conf/ is compared
    assert cfg.evaluation.greedy is True
    assert as_begun(cfg, OmegaConf.create({})).evaluation.greedy is True


def test_a_run_of_before_a_setting_keeps_what_it_did_without_it() -> None:
    cfg = compose_config()
    assert cfg.evaluation.before is True
    assert (
        as_begun(cfg, OmegaConf.create({"evaluation": {"probes": []}})).evaluation.before is False
    )
    typed = compose_config("evaluation.before=true")
    assert as_begun(typed, OmegaConf.create({"evaluation": {"probes": []}})).evaluation.before


def test_what_was_typed_is_kept() -> None:
    cfg = compose_config(EXPERIMENT, "evaluation.greedy=true")
    keep_begun(cfg, OmegaConf.create({"evaluation": {"greedy": False}}))
    assert cfg.evaluation.greedy is True


def test_the_same_command_finishes_a_run_of_before(tmp_path: Path) -> None:
    before = compose_config(EXPERIMENT, "evaluation.greedy=false", f"run_dir={tmp_path}")
    write_settings(tmp_path, before, [])
    (tmp_path / "metrics.jsonl").touch()
    assert not is_complete(tmp_path, compose_config(EXPERIMENT, f"run_dir={tmp_path}"))
    typed = compose_config(EXPERIMENT, "evaluation.greedy=true", f"run_dir={tmp_path}")
    with pytest.raises(ConfigError, match=r"a run with evaluation\.greedy=False, not True"):
        is_complete(tmp_path, typed)
