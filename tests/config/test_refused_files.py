"""Models and data that cannot be used are refused in one line that names file and reason."""

import json
from pathlib import Path

import pytest
import torch

from cory.config import ConfigError
from cory.runtime.worker import build_components, check_devices
from tests.support.composing import parsed
from tests.support.refusals import refusal


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ("model.path=nobody/nothing", "model.path=nobody/nothing: cannot be loaded: Cannot"),
        ("model.path={judge}", "model.path={judge}: "),
        ("reward.path=nobody/nothing", "reward.path=nobody/nothing: |cannot be loaded: We couldn"),
        ("reward.path={model}", "the checkpoint has no weights for score.weight"),
        ("reward.label=JOY", "reward.label=JOY is not a class of {judge}; choose one of NEGATIVE"),
        ("task.source=hub task.path=nobody/nothing", "=nobody/nothing: |task.source=path"),
        ("task.prompt_column=body", "task.prompt_column=body is not in the data; it has text, la"),
        ("task.path={tmp}/bad.parquet", "task.path={tmp}/bad.parquet: cannot be"),
        ("task.test_split=test", "|is one file|train[:90%]"),
        ("task.min_characters=500", "no train review of task.source=path is that long"),
        ("task.max_prompt_tokens=49", "task.max_prompt_tokens (49) and algorithm.sampling."
         "max_response_tokens (16) exceed the context of model=tiny_model0 (64 tokens)"),
    ],
)  # fmt: skip
def test_models_and_data_that_cannot_be_used_are_refused(
    overrides: str, said: str, tiny_model: str, tiny_judge: str, tmp_path: Path
) -> None:
    rows = [{"text": text, "label": 1} for text in ("a fine film", "a bad film")]
    (tmp_path / "ok.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "bad.parquet").write_text("PAR?")
    names = {"tmp": tmp_path, "model": tiny_model, "judge": tiny_judge}
    words = (
        *(f"model.path={tiny_model}", f"reward.path={tiny_judge}", "task.source=path"),
        *(f"task.path={tmp_path}/ok.jsonl", "task.min_characters=1"),
        *("task.train_split='train[:50%]'", "task.test_split='train[50%:]'"),
        *overrides.format(**names).split(),
    )
    message = refusal(lambda: build_components(parsed(*words)))
    for part in said.format(**names).split("|"):
        assert part in message, message


def test_devices_that_are_not_there_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    said = r"^hardware\.device=cuda hardware\.processes=4: each process needs a GPU, and .+ has 1;"
    with pytest.raises(ConfigError, match=said):
        check_devices(parsed("hardware=gpu4_zero2").hardware)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ConfigError, match=r"processes=1: .+ has 0; hardware=cpu needs none"):
        check_devices(parsed("hardware=gpu1").hardware)
