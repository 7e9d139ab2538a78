"""The evaluation before the training: in whole runs, shared, killed, and where there is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cory import train
from cory.config import Config, parse_config
from cory.episode import Metrics, Prompt
from cory.evaluation.shared_evaluations import key_of
from cory.report.summary import before_after
from cory.runs.checkpoint import Checkpoints
from cory.runs.partial_results import PartialResults
from cory.runs.recorder import Recorder
from cory.runs.run_dir import read_lines
from cory.runs.stop import StopPoint, StopRequest
from cory.runtime import untrained
from cory.runtime.loop import Loop
from cory.runtime.untrained import TRAINING_ONLY, Untrained, decisive, may_be_shared, wanted
from cory.runtime.worker import build_parts
from cory.trainers.divergence import TrainingDiverged
from tests.support.building import build, require_contributions
from tests.support.commands import last_wins, metrics, short_settings
from tests.support.composing import compose_config, parsed
from tests.support.warm import WarmCommand

ConfigOf = Callable[..., Config]


def lines_of(run_dir: Path, kind: str) -> list[dict[str, object]]:
    return [line for line in read_lines(run_dir / "samples.jsonl") if line["kind"] == kind]


def test_an_iteration_that_diverges_is_logged_with_what_was_measured_before_it(
    config_of: ConfigOf, tmp_path: Path
) -> None:
    logged: list[Metrics] = []

    class Diverges:
        def state_dict(self) -> dict[str, object]:
            return {}

        def step(self, iteration: int, stop_point: StopPoint) -> Metrics:
            raise TrainingDiverged(iteration, "no loss", {"loss": 1.0})

    def log(iteration: int, metrics: Metrics) -> None:
        logged.append(metrics)

    algorithm: Any = Diverges()
    record: Any = SimpleNamespace(log=log)
    config = config_of("algorithm=ppo")
    checkpoints = Checkpoints(tmp_path, "settings", config.hardware, 2)
    pieces = PartialResults(tmp_path / "evaluation", "settings")
    reward: Any = SimpleNamespace(at=lambda iteration: None, metrics=lambda: {"reward/own": 2.0})
    stop = StopRequest(tmp_path)
    loop = Loop(algorithm, config, record, checkpoints, pieces, stop, lambda done: None, reward)
    with pytest.raises(TrainingDiverged, match="there is none before it"):
        loop._iterate(0, {"before/score/agent_0": 0.5}, None)
    assert logged == [{"before/score/agent_0": 0.5, "loss": 1.0, "reward/own": 2.0}]


@pytest.mark.slow
def test_a_run_ends_with_what_training_changed(
    tiny_model: str, tiny_judge: str, reviews_file: Path, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    base = short_settings(tiny_model, tiny_judge, reviews_file)
    command = WarmCommand(tmp_path, last_wins([*base, "algorithm=cory", f"run_dir={run_dir}"]))
    assert command.wait() == 0, command.err
    before, *_, after = read_lines(run_dir / "prompt_scores.jsonl")
    assert (before["iteration"], after["iteration"]) == (-1, 1)
    assert before["prompts"] == after["prompts"] and len(before["prompts"]) == 8
    # the values are those of the responses that samples.jsonl keeps
    asked = lines_of(run_dir, "before")
    assert {line["iteration"] for line in asked} == {-1}
    assert {line["who"] for line in asked} == {"agent_0"}  # agent_1 is still alike
    scores = [line["turns"][0]["score"] for line in asked]  # type: ignore[index]
    for agent in ("agent_0", "agent_1"):
        assert before["values"][f"eval/score/{agent}"] == scores
    first, *_, last = metrics(run_dir)
    assert first["before/score/agent_1"] == pytest.approx(sum(scores) / 8)
    assert "before/score/agent_1" not in last
    table = before_after(run_dir)
    assert list(table.index) == [
        f"{name}/agent_{n}"
        for name in ("eval/score", "objective/kl", "objective/combined")
        for n in (0, 1)
    ]
    own = table.loc["eval/score/agent_1"]
    assert own["after"] == pytest.approx(last["eval/score/agent_1"])
    assert own["before"] == first["before/score/agent_1"] and own["prompts"] == 8
    assert own["low"] < own["change"] < own["high"]
    record = json.loads((run_dir / "record.json").read_text())
    assert record["files"]["prompt_scores.jsonl"][0] == (
        run_dir / "prompt_scores.jsonl"
    ).stat().st_size  # fmt: skip
    assert "held-out reward, agent 1" in command.out
    assert not (run_dir / "evaluation").exists()
    assert len(list((tmp_path / "outputs" / "untrained").glob("*.jsonl"))) == 1


@pytest.fixture
def config(
    tiny_model: str, tiny_judge: str, reviews_file: Path, tmp_path: Path, process_group: None
) -> ConfigOf:
    base = short_settings(tiny_model, tiny_judge, reviews_file)
    words = ["algorithm=ppo", f"run_dir={tmp_path}/run", f"untrained_store={tmp_path}/store"]
    return lambda *more: parsed(*last_wins([*base, *words, *more]))


def measured(config: Config, **sources: str) -> tuple[Untrained, list[dict[str, object]], int]:
    """The evaluation, its lines, and how many batches were asked."""
    trainer = build(config)
    task = build_parts(config).task
    asked: list[int] = []
    found = Untrained(trainer, config, task, sources)
    lines = found.measure(lambda done, rows: asked.append(done))
    require_contributions(
        replace(found.request), {name.replace("before/", "eval/"): value
                                 for name, value in found.request.scores.metrics().items()}
    )  # fmt: skip
    return found, lines, len(asked)


@pytest.mark.slow
def test_runs_that_start_alike_ask_once(config: ConfigOf, tmp_path: Path) -> None:
    first, lines, asked = measured(config())
    assert asked > 0 and {line["kind"] for line in lines} == {"before"}
    other = config("algorithm.learning_rate=0.5", "algorithm.kl_coef=9", f"run_dir={tmp_path}/b")
    second, again, none = measured(other)
    assert none == 0 and again == lines and second.request.scores == first.request.scores
    second.put_away()
    assert not (tmp_path / "b" / "evaluation").exists()
    for word in ("algorithm.sampling.temperature=0.5", "evaluation.samples=2", "seed=1"):
        _, _, asked = measured(config(word, f"run_dir={tmp_path}/{len(word)}"))
        assert asked > 0, word
    # the run's own responses are there until a checkpoint is, but for other code that scores them
    assert measured(config())[2] == 0
    assert measured(config(f"run_dir={tmp_path}/own"), mine="1")[2] > 0
    assert measured(config(f"run_dir={tmp_path}/own"), mine="1")[2] == 0
    assert measured(config(f"run_dir={tmp_path}/own"), mine="2")[2] > 0
    (shared,) = [
        p for p in (tmp_path / "store").iterdir() if p.read_bytes() == first.place.read_bytes()
    ]
    shared.unlink()
    assert measured(config(f"run_dir={tmp_path}/c"))[2] > 0
    assert measured(config("untrained_store=null", f"run_dir={tmp_path}/d"))[2] > 0


def test_where_there_is_none() -> None:
    for word in ("evaluation.before=false", "algorithm.iterations=0"):
        assert wanted(parsed()) and not wanted(parsed(word))
    games = ("experiment=spag/llama2_im", "scale=small", "evaluation.before=true")
    assert wanted(parsed(*games))
    collecting = ("algorithm.collect_only=true", "algorithm.iterations=1")
    assert not wanted(parsed(*games, *collecting, "algorithm.iterations_per_epoch=null"))


def test_what_cannot_be_known_from_settings_is_not_shared() -> None:
    assert may_be_shared(parsed())
    assert not may_be_shared(parsed("reward=python", "reward.function=tests.rewards.own:mine"))
    games = ("experiment=spag/llama2_im", "scale=small")
    assert may_be_shared(parsed(*games))
    assert not may_be_shared(parsed(*games, "+algorithm.opponents.gpt=endpoint"))


def test_settings_that_only_training_reads_are_settings() -> None:
    """And what decides what is said is not among them."""
    known: set[str] = set()
    for word in ("ppo", "cory", "maporl", "sft", "verifier", "maft", "spag", "imitation"):
        known |= set(compose_config(*_chosen(word)).algorithm)
    assert known >= TRAINING_ONLY
    decided = {"name", "sampling", "agents", "turns", "knowledge_transfer", "param_sharing"}
    assert not decided & TRAINING_ONLY
    config = parsed()
    assert {"sampling", "agents"} <= decisive(config, []).pop("algorithm").keys()


def _chosen(algorithm: str) -> list[str]:
    return {
        "maporl": ["experiment=maporl/gsm8k_maporl_exact"],
        "sft": ["experiment=maporl/gsm8k_sft", "reward=exact_match"],
        "verifier": ["experiment=maporl/verifier_gsm8k"],
        "maft": ["experiment=maft/phi3_arithmetic_maft"],
        "spag": ["experiment=spag/llama2_spag_1"],
        "imitation": ["experiment=spag/llama2_im"],
    }.get(algorithm, [f"algorithm={algorithm}"])


def test_the_iteration_is_before_the_first() -> None:
    assert untrained.BEFORE_ANY == -1


@pytest.mark.parametrize("checkpoint", [False, True])
def test_records_begin_anew_without_a_checkpoint(tmp_path: Path, checkpoint: bool) -> None:
    """Else the responses of the evaluation before the training would stand there twice."""
    config = parsed(f"run_dir={tmp_path}")
    first = Recorder(tmp_path, config, 0)
    assert first.start(0, None) == 0
    first.log_lines([{"iteration": -1, "kind": "before"}])
    first.log_scores({"iteration": -1})
    first.sync()
    state = first.state_dict() if checkpoint else None
    first.close()
    again = Recorder(tmp_path, config, 0)
    again.start(0, state)
    again.close()
    for name in ("samples.jsonl", "prompt_scores.jsonl"):
        assert len(read_lines(tmp_path / name)) == checkpoint


def test_the_place_of_a_model_from_the_hub_names_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = f"{tmp_path}/snapshots/abc/config.json"
    monkeypatch.setattr(untrained, "try_to_load_from_cache", lambda name, file: cached)
    assert untrained.place_of("some/model", "model.path") == cached
    assert "assets" in untrained.place_of("asset:tiny", "model.path")
    monkeypatch.setattr(untrained, "try_to_load_from_cache", lambda name, file: None)
    assert untrained.place_of("some/model", "model.path") == "some/model"


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_run_without_a_checkpoint_says_that_it_begins_anew(
    tmp_path: Path,
    checkpoint: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(train, "typed_words", list)
    cfg = compose_config(f"run_dir={tmp_path}/run")
    assert train.prepare_run_dir(tmp_path / "run", cfg, parse_config(cfg), None)
    assert capsys.readouterr().out == ""
    (tmp_path / "run" / "metrics.jsonl").touch()
    if checkpoint:
        place = tmp_path / "run" / "checkpoints" / "000001"
        place.mkdir(parents=True)
        (place / "manifest.json").touch()
    assert train.prepare_run_dir(tmp_path / "run", cfg, parse_config(cfg), None)
    said = capsys.readouterr().out
    assert ("goes on with the unfinished run in" in said) is checkpoint
    assert ("anew: it ended before its first checkpoint" in said) is not checkpoint


def test_prompts_decide_by_their_texts_and_name_no_file(
    config_of: ConfigOf, tmp_path: Path
) -> None:
    config, file = config_of("algorithm=ppo"), tmp_path / "file"
    file.write_text("1")
    prompts = [Prompt("a", str(file)), Prompt("b", "~5 minutes")]
    first = key_of(decisive(config, prompts))
    file.write_text("12")
    assert key_of(decisive(config, prompts)) == first
    assert key_of(decisive(config, prompts[:1])) != first
