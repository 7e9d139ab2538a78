"""What a command refuses before any worker starts: all of it together, at once, leaving nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cory.config import Config, ConfigError
from cory.runs.run_dir import AGENTS, METRICS, RECORD, write_settings
from cory.runtime import refusals as early
from cory.runtime.refusals import parsed, refusals, refuse_early
from tests.support.composing import compose_config
from tests.support.composing import parsed as checked

PROMPTS = ("task=prompts", "task.test_split=null", "task.held_out_share=0.5")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["model.path={tmp}/no"], "model.path={tmp}/no: there is no such folder"),
        (["model.path={tmp}"], "model.path={tmp}: the folder has no config.json"),
        (["reward.path=./none"], "reward.path=./none: there is no such folder"),
        (["reward=verifier", "reward.path={tmp}/none"], "reward.path={tmp}/none: there is no"),
        (["init_from={tmp}/none"], "init_from={tmp}/none: there is no run"),
        (["init_from={tmp}/begun"], "init_from={tmp}/begun: the run has no agents; they appear"),
    ],
)  # fmt: skip
def test_what_a_setting_names_is_refused(words: list[str], said: str, tmp_path: Path) -> None:
    write_settings(tmp_path / "begun", compose_config(), [])
    sampling = [f"algorithm.sampling.{end}_response_tokens=8" for end in ("min", "max")]
    typed = [*sampling, *(word.format(tmp=tmp_path) for word in words)]
    found = refusals(checked_of(typed))
    assert len(found) == 1 and said.format(tmp=tmp_path) in found[0], found


def checked_of(words: list[str]) -> Config:
    needs_answers = ["task=arithmetic"] if "reward=verifier" in words else []
    return checked(*needs_answers, *words)


def test_opponents_are_looked_at(tmp_path: Path) -> None:
    words = ["experiment=spag/llama2_im", "scale=small"]
    config = checked(*words, f"+algorithm.opponents.other={tmp_path}/none")
    assert refusals(config) == [f"algorithm.opponents.other={tmp_path}/none: there is no run"]


@pytest.mark.parametrize(
    ("name", "content", "words", "said"),
    [
        ("a.txt", "x", [], "must end in one of .jsonl, .json, .csv, .parquet"),
        ("a.jsonl", "", [], "has no rows"),
        ("a.jsonl", '{"prompt": "a"}\n\n{"prompt": "b"}\n', [], "line 2: Expecting value"),
        ("a.jsonl", '{"promt": "a"}\n', [], "; it has promt; did you mean promt?"),
        ("a.jsonl", '{"prompt": "a"}\n', ["task.columns=[b]"], "task.columns=b is not in the data"),
        ("a.csv", "prompt\na\n", ["task.answer_column=z"], "task.answer_column=z is not in the"),
    ],
)
def test_files_and_their_columns_are_looked_at(
    name: str, content: str, words: list[str], said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    path = f"task.path={tmp_path / name}"
    found = refusals(checked(*PROMPTS, "task.prompt_column=prompt", path, *words))
    assert len(found) == 1 and said in found[0], found


def test_a_gpu_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(early, "DEVICES", tmp_path)
    config = checked("hardware=gpu1")
    said = "hardware.device=cuda: this machine has no CUDA device; use hardware=cpu"
    assert refusals(config) == [said]
    (tmp_path / "nvidiactl").touch()
    assert refusals(config) == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert refusals(config) == [said]


JUDGE = ("reward=judge", "reward.endpoint.model=m", "reward.endpoint.key_variable=NOT_SET")
GAMES = ("experiment=spag/llama2_im", "scale=small", "endpoint@algorithm.endpoint=local")
GAMES += ("algorithm.endpoint.model=m", "algorithm.endpoint.key_variable=NOT_SET")


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (JUDGE, "reward"),
        ((*GAMES, "++algorithm.games=endpoint"), "algorithm"),
        ((*GAMES, "++algorithm.opponents.teacher=endpoint"), "algorithm"),
        (GAMES, None),  # nothing asks it
        ((*GAMES, "algorithm.games=endpoint", "algorithm.iterations=0"), None),  # nobody plays
    ],
)
def test_a_key_that_is_not_set_is_refused(
    words: tuple[str, ...], key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    config = checked(*words)
    said = f"{key}.endpoint.key_variable=NOT_SET: this environment variable is not set; it has to "
    assert refusals(config) == ([] if key is None else [f"{said}hold the key"])
    monkeypatch.setenv("NOT_SET", "key")
    assert refusals(config) == []


@pytest.mark.parametrize("word", ["trackio=films", "tensorboard=true"])
def test_without_its_package_a_run_is_refused(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = word.partition("=")[0]
    monkeypatch.setattr(early, "find_spec", {name: None}.__getitem__)
    said = f'{word} needs the package {name}: pip install ".[{name}]"'
    assert refusals(checked(word)) == [said] and refusals(checked()) == []


def test_a_finished_run_needs_nothing_any_more(tmp_path: Path) -> None:
    cfg = compose_config(f"init_from={tmp_path}/gone")
    write_settings(tmp_path / "run", cfg, [])
    (tmp_path / "run" / METRICS).write_text("{}")
    done = {"iterations": cfg.algorithm.iterations}
    (tmp_path / "run" / RECORD).write_text(json.dumps(done))
    (tmp_path / "run" / AGENTS).mkdir()
    refuse_early(tmp_path / "run", parsed(cfg))
    with pytest.raises(ConfigError, match="gone: there is no run"):
        refuse_early(tmp_path / "other", parsed(cfg))
