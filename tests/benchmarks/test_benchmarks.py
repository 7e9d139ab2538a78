"""Benchmarks by the real harness on a shipped model, with questions of our own; no network."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from cory.report.pages.write import checked, gather_tables
from cory.report.records.archive import read as read_archive
from datasets import Dataset, DatasetDict
from omegaconf import OmegaConf
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from cory.benchmarks import harness, measure
from cory.benchmarks.measure import BenchmarkRequest, chosen_benchmarks, measure_benchmarks
from cory.benchmarks.store import geometric_mean, read_scores
from cory.config import ConfigError, SuiteConfig, load_suite
from cory.models.places import ASSETS
from tests.support.close import assert_close
from tests.support.composing import CONF
from tests.support.made_up_runs import WriteRun, lines_of
from tests.support.reporting import places_in

TINY = ASSETS / "tiny"
CHOICES = [" good", " bad", " an awful waste of time"]
REVIEWS = ["This movie was", "I loved it. It is", "What a disaster, so", "The actors are"]
OPENINGS = ["The film was", "I think that", "Watching this", "In the end"]
SUITE = """
name: own
dtype: float16
cpu_dtype: float32
max_new_tokens: 6
bos: false
seed: 1
benchmarks:
  choice: {task: own_choices, shots: 0, metric: acc, filter: none, steps: null, cot: false}
  echo: {task: own_echoes, shots: 1, metric: exact_match, filter: clean,
    steps: [remove_whitespace, take_first], cot: false}
  raw: {task: own_echo, shots: 1, metric: exact_match, filter: none, steps: null, cot: false}
  mute: {task: own_mute, shots: 0, metric: exact_match, filter: none, steps: null, cot: true}
geometric_mean: [choice, echo]
"""


def choice_task(name: str, data: Path) -> str:
    return f"""
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{data}"}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{text}}}}"
doc_to_choice: {json.dumps(CHOICES)}
doc_to_target: answer
target_delimiter: ""
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}},
  {{metric: acc_norm, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 3.0}}
"""


def text_task(name: str, data: Path, until: str) -> str:
    return f"""
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{data}"}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{text}}}}"
doc_to_target: "{{{{answer}}}}"
fewshot_config: {{sampler: first_n, samples: [{{text: "It was", answer: "fun."}}]}}
generation_kwargs: {{until: ["{until}"], do_sample: false}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 1.0}}
"""


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


EXAMPLE = "It was fun.\n\n"


def said(opening: str, before: str = EXAMPLE) -> str:
    """What the model goes on with, by transformers alone."""
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    model = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    ids = tokenizer(before + opening, add_special_tokens=False, return_tensors="pt")
    ids = ids.input_ids
    new = model.generate(ids, max_new_tokens=6, do_sample=False)[0, ids.shape[1] :]
    return str(tokenizer.decode(new, skip_special_tokens=True))


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tasks of our own: two of choices in a group, one of generated texts, one of empty ones."""
    folder = tmp_path_factory.mktemp("tasks")
    for part, reviews in (("one", REVIEWS[:3]), ("two", REVIEWS[3:])):
        rows = [{"text": review, "answer": 0} for review in reviews]
        data = write_lines(folder / f"{part}.jsonl", rows)
        (folder / f"{part}.yaml").write_text(choice_task(f"own_{part}", data))
    (folder / "group.yaml").write_text(
        "group: own_choices\ntask: [own_one, own_two]\n"
        "aggregate_metric_list: [{metric: acc, weight_by_size: true}]\n"
    )
    (folder / "echoes.yaml").write_text(
        "group: own_echoes\ntask: [own_echo]\naggregate_metric_list: [{metric: exact_match}]\n"
    )
    # three right answers, which the model gives after a space, and a wrong one
    right = [{"text": text, "answer": said(text).strip()} for text in OPENINGS[:3]]
    data = write_lines(folder / "echo.jsonl", [*right, {"text": OPENINGS[3], "answer": "no"}])
    (folder / "echo.yaml").write_text(text_task("own_echo", data, "#"))
    (folder / "mute.yaml").write_text(text_task("own_mute", data, " "))
    (folder / "lost.yaml").write_text(choice_task("own_lost", folder / "nowhere.jsonl"))
    (folder / "suite.yaml").write_text(SUITE)
    return folder


@pytest.fixture
def suite(tasks: Path) -> SuiteConfig:
    return load_suite(tasks / "suite.yaml")


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A finished run whose only agent is the shipped model."""
    folder = tmp_path / "run"
    shutil.copytree(TINY, folder / "agents" / "agent_0")
    model = {"path": "asset:tiny", "quantisation": "none"}
    OmegaConf.save({"model": model, "partner": None}, folder / "config.yaml")
    (folder / "record.json").write_text('{"seed": 3, "final": {"eval/x": 0.1, "y": NaN}}')
    return folder


@pytest.fixture
def request_(run_dir: Path, suite: SuiteConfig, tasks: Path) -> BenchmarkRequest:
    names = suite.names(cot=False)
    return BenchmarkRequest(run_dir, "agent_0", False, suite, names, tasks, None, 2, "cpu", False)


@torch.no_grad()
def likelihoods(model: Any, text: str) -> list[float]:
    """The log-likelihood of each choice after a text, by transformers alone."""
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    found = []
    for choice in CHOICES:
        context, whole = (
            tokenizer(t, add_special_tokens=False).input_ids for t in (text, text + choice)
        )
        assert whole[: len(context)] == context
        logits: Tensor = model(torch.tensor([whole])).logits[0].log_softmax(-1)
        places = range(len(context), len(whole))
        found.append(sum(float(logits[place - 1, whole[place]]) for place in places))
    return found


def by_hand(model: Any) -> float:
    """Share of reviews after which the first choice is the likeliest."""
    best = [max(range(3), key=likelihoods(model, review).__getitem__) for review in REVIEWS]
    return best.count(0) / len(best)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[harness.Benchmark]:
    """The benchmarks that are measured during a test, with their answers."""
    kept: list[harness.Benchmark] = []

    def load(*words: Any) -> harness.Benchmark:
        kept.append(harness.load_benchmark(*words))
        return kept[-1]

    monkeypatch.setattr(measure, "load_benchmark", load)
    return kept


def harness_says(benchmark: harness.Benchmark) -> list[float]:
    """The log-likelihood of each choice after the second review, by the harness."""
    (task,) = [task for task in benchmark.tasks if task.config.task == "own_one"]
    asked = [request for request in task.instances if request.doc_id == 1]
    return [request.resps[0][0] for request in sorted(asked, key=lambda request: request.idx)]


@pytest.mark.slow
def test_choices_are_scored_as_by_hand(
    request_: BenchmarkRequest, loaded: list[harness.Benchmark]
) -> None:
    found = measure_benchmarks(replace(request_, names=["choice"]))["choice"]
    model = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    assert_close(harness_says(loaded[0]), likelihoods(model, REVIEWS[1]))
    assert (found["value"], found["questions"]) == (by_hand(model), 4)
    assert found["included"] and found["empty_share"] is None
    parts = found["parts"]
    assert [parts[name]["questions"] for name in ("own_one", "own_two")] == [3, 1]
    assert parts["own_two"]["stderr"] is None and parts["own_one"]["version"] == "3.0"
    assert found["dtype"] == "float32" and found["harness"] == "0.4.13" and found["seed"] == 1


@pytest.mark.slow
def test_generated_answers_are_filtered_and_empty_ones_counted(request_: BenchmarkRequest) -> None:
    found = measure_benchmarks(replace(request_, names=["echo", "raw", "mute"]))
    assert all(said(text).startswith(" ") for text in OPENINGS[:3])
    assert {name: found[name]["value"] for name in found} == {"echo": 0.75, "raw": 0, "mute": 0}
    # sqrt(3/4 * 1/4 / (4 - 1)), with the variance of a sample
    assert_close(found["echo"]["stderr"], 0.25)
    empty = [said(text, before="").startswith(" ") for text in OPENINGS]
    assert found["mute"]["empty_share"] == sum(empty) / 4 == 0.75
    assert found["echo"]["empty_share"] == 0


@pytest.mark.slow
def test_scores_are_kept_and_change_nothing_else(
    request_: BenchmarkRequest, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = json.loads((run_dir / "record.json").read_text())
    assert "geometric_mean" not in measure_benchmarks(replace(request_, names=["echo"]))
    found = measure_benchmarks(replace(request_, names=["choice", "echo"]))
    record = json.loads((run_dir / "record.json").read_text())
    scores = record.pop("benchmarks")["agent_0"]
    assert json.dumps(record) == json.dumps(before)
    assert scores.keys() == {"choice", "echo", "geometric_mean"}
    for name in ("choice", "echo"):
        said_there = {key: scores[name][key] for key in ("value", "stderr", "metric", "shots")}
        assert said_there == {key: found[name][key] for key in said_there}
    expected = geometric_mean([(found[n]["value"], found[n]["stderr"]) for n in ("choice", "echo")])
    mean = scores["geometric_mean"]
    assert (mean["value"], mean["stderr"]) == expected

    # nothing is measured twice
    monkeypatch.setattr(measure, "_load", lambda *words: pytest.fail("measured again"))
    files = [run_dir / name for name in ("record.json", "benchmarks.json")]
    contents = [path.read_text() for path in files]
    measure_benchmarks(replace(request_, names=["choice", "echo"]))
    assert [path.read_text() for path in files] == contents
    with pytest.raises(ConfigError, match=r"has echo of agent_0 with harness=0\.4\.13, not 9"):
        monkeypatch.setattr(measure, "harness_version", lambda: "9")
        measure_benchmarks(replace(request_, names=["choice"], again=True))


@pytest.mark.slow
def test_a_few_questions_are_never_a_score(request_: BenchmarkRequest, run_dir: Path) -> None:
    before = (run_dir / "record.json").read_bytes()
    found = measure_benchmarks(replace(request_, names=["choice", "echo"], limit=1))
    assert found["choice"]["limit"] == 1 and found["choice"]["questions"] == 2
    assert (run_dir / "record.json").read_bytes() == before
    assert list(read_scores(run_dir)) == ["limited"]


@pytest.mark.slow
def test_an_adapter_is_measured_on_its_base_and_the_base_alone(
    request_: BenchmarkRequest, run_dir: Path, loaded: list[harness.Benchmark]
) -> None:
    agent = run_dir / "agents" / "agent_0"
    shutil.rmtree(agent)
    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    how = LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False)
    get_peft_model(base, how).save_pretrained(agent)
    AutoTokenizer.from_pretrained(TINY).save_pretrained(agent)
    settings = json.loads((agent / "adapter_config.json").read_text())
    # trained where cory lay in another folder
    settings["base_model_name_or_path"] = "/elsewhere/cory/assets/tiny"
    (agent / "adapter_config.json").write_text(json.dumps(settings))
    one = replace(request_, names=["choice"])
    measure_benchmarks(one)
    measure_benchmarks(replace(one, base=True))
    adapted, alone = map(harness_says, loaded)
    plain = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    assert_close(alone, likelihoods(plain, REVIEWS[1]))
    assert_close(adapted, likelihoods(PeftModel.from_pretrained(plain, str(agent)), REVIEWS[1]))
    assert max(abs(a - b) for a, b in zip(adapted, alone, strict=True)) > 0.1
    record = json.loads((run_dir / "record.json").read_text())
    assert record["benchmarks"].keys() == {"agent_0", "base"}


def test_the_error_of_a_geometric_mean_is_the_delta_methods() -> None:
    numbers = [(0.5, 0.01), (0.2, 0.02), (0.8, 0.03)]
    value, stderr = geometric_mean(numbers)
    assert_close(value, 0.08 ** (1 / 3))
    squares, h = 0.0, 1e-6
    for place, (own, error) in enumerate(numbers):
        moved = []
        for step in (h, -h):
            others = [*numbers]
            others[place] = (own + step, error)
            moved.append(geometric_mean(others)[0])
        squares += ((moved[0] - moved[1]) / (2 * h) * error) ** 2
    assert stderr is not None
    assert_close(stderr, squares**0.5)
    assert geometric_mean([(0.5, 0.1), (0.5, None)]) == (pytest.approx(0.5), None)
    assert geometric_mean([(0.5, 0.1), (0.0, 0.1)]) == (0.0, None)


def refusal(request: BenchmarkRequest) -> str:
    with pytest.raises(ConfigError) as error:
        measure_benchmarks(request)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.slow
def test_what_cannot_be_measured_is_refused(
    request_: BenchmarkRequest, run_dir: Path, suite: SuiteConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asking(**changes: Any) -> BenchmarkRequest:
        other = replace(suite.benchmarks["choice"], **changes)
        changed = replace(suite, benchmarks={**suite.benchmarks, "choice": other})
        return replace(request_, suite=changed, names=["choice"])

    assert "choice.task=nothing: lm-evaluation-harness 0.4.13 has no such task" in refusal(
        asking(task="nothing")
    )
    assert "choice.task=own_lost: its data cannot be loaded: " in refusal(asking(task="own_lost"))
    assert "choice.task=piqa: its data cannot be loaded: " in refusal(asking(task="piqa"))
    assert "has no metric=f1 with filter=none; it has acc,none" in refusal(asking(metric="f1"))
    long = replace(request_, suite=replace(suite, max_new_tokens=256), names=["echo"])
    assert "the model sees 256 tokens" in refusal(long)
    assert "--agent=agent_1: " in refusal(replace(request_, agent="agent_1"))
    assert "no CUDA device" in refusal(replace(request_, device="cuda"))
    assert "--tasks: mmlu is no benchmark of suite own; choose" in refusal_of_choice(suite)
    assert "there is no such folder" in refusal(replace(request_, include=run_dir / "x"))
    (run_dir / "record.json").unlink()
    assert refusal(request_).endswith("the run is not finished: it has no record.json")
    assert "there is no run" in refusal(replace(request_, run_dir=run_dir / "x"))
    monkeypatch.setattr(harness.importlib.util, "find_spec", lambda name: None)
    assert refusal(request_) == "benchmarks need the package lm_eval: pip install '.[eval]'"


def refusal_of_choice(suite: SuiteConfig) -> str:
    with pytest.raises(ConfigError) as error:
        chosen_benchmarks(suite, "choice,mmlu", cot=False)
    return str(error.value)


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "script", CONF.parent / "scripts" / "benchmarks.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_command_says_scores_or_one_line(
    run_dir: Path,
    tasks: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["benchmarks.py", str(run_dir), *words])
        script().main()

    own = ["--suite", str(tasks / "suite.yaml"), "--include", str(tasks), "--device", "cpu"]
    command(*own, "--cot")
    assert "mute              0.00 ± 0.00 % (exact_match, 0 shots)" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command("--suite", "spagg")
    error = capsys.readouterr().err
    assert error.startswith("error: --suite=spagg: there is no ") and error.count("\n") == 1


def test_a_wrong_suite_is_refused(tasks: Path, tmp_path: Path) -> None:
    for old, new, said_ in (
        ("shots: 0", "shots: -1", "benchmarks.choice.shots must be at least 0, got -1"),
        ("[choice, echo]", "[choice, mute]", "mute is no benchmark of the suite that is asked pl"),
        ("dtype: float16", "dtype: half", "dtype must be one of float16, bfloat16, float32, got"),
        ("seed: 1", "sed: 1", "Key 'sed' not in 'SuiteConfig'"),
        ("seed: 1\n", "", "no value given for seed"),
    ):
        path = tmp_path / "suite.yaml"
        path.write_text(SUITE.replace(old, new, 1))
        with pytest.raises(ConfigError) as error:
            load_suite(path)
        assert said_ in str(error.value) and "\n" not in str(error.value)


@pytest.mark.slow
def test_the_papers_suite_names_what_the_harness_has(tasks: Path) -> None:
    suite = load_suite(CONF / "benchmarks" / "spag.yaml")
    index = harness.manager(tasks).task_index  # reading all task files takes seconds: once
    assert suite.names(cot=False) == suite.geometric_mean and len(suite.geometric_mean) == 8

    def leaves(task: str) -> list[dict[str, Any]]:
        entry = index[task]
        if entry.cfg is None:  # a tag: the tasks that bear it
            members = sorted(entry.tags)
        else:
            members = entry.cfg["task"] if isinstance(entry.cfg["task"], list) else []
        return [leaf for name in members for leaf in leaves(name)] or [entry.cfg]

    for name, benchmark in suite.benchmarks.items():
        parts = leaves(benchmark.task)
        for part in parts:
            metrics = [entry["metric"] for entry in part["metric_list"]]
            assert benchmark.metric in metrics, name
            filters = [entry["name"] for entry in part.get("filter_list", [{"name": "none"}])]
            assert benchmark.steps is not None or benchmark.filter in filters, name
        assert len(parts) == {"mmlu": 57, "bbh": 27, "bbh_cot": 27}.get(name, 1)


MADE_UP: dict[str, dict[str, Any]] = {
    "cais/mmlu": {"question": "1 + 1?", "choices": ["1", "2", "3", "4"], "answer": 1},
    "SaylorTwift/bbh": {"input": "Is it?", "target": "Yes"},
    "EleutherAI/mutual": {"article": "m : hi", "options": ["a", "b", "c", "d"], "answers": "B"},
    "allenai/ai2_arc": {
        "question": "1 + 1?",
        "choices": {"text": ["1", "2"], "label": ["A", "B"]},
        "answerKey": "B",
    },
    "baber/logiqa2": {"text": "All.", "question": "So?", "options": [*"abcd"], "answer": 2},
    "allenai/winogrande": {"sentence": "The _ is.", "option1": "a", "option2": "b", "answer": "1"},
    "baber/piqa": {"goal": "Eat.", "sol1": "Bite.", "sol2": "Sit.", "label": 0},
}


@pytest.mark.slow
def test_the_papers_suite_runs_on_made_up_questions(
    request_: BenchmarkRequest, tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(path: str, **_: Any) -> DatasetDict:
        several = Dataset.from_list([MADE_UP[path]] * 5)
        return DatasetDict(dict.fromkeys(("train", "dev", "validation", "test"), several))

    monkeypatch.setattr("datasets.load_dataset", rows)
    suite = replace(load_suite(CONF / "benchmarks" / "spag.yaml"), max_new_tokens=4)
    for cot in (False, True):
        names = suite.names(cot)
        found = measure_benchmarks(
            replace(request_, suite=suite, names=names, limit=1, batch_size=64)
        )
        assert all(found[name]["shots"] == suite.benchmarks[name].shots for name in names)
    assert found.keys() == {*suite.benchmarks, "geometric_mean"}
    assert found["geometric_mean"]["value"] == 0  # the small model is never right on BBH
    assert [found[name]["questions"] for name in ("mmlu", "bbh", "piqa")] == [57, 27, 1]
    assert found["mutual"]["others"].keys() == {"mrr,none", "r@2,none"}
    assert "acc_norm,none" in found["arc_easy"]["others"]


def test_every_line_of_a_suite_is_explained() -> None:
    for path in (CONF / "benchmarks").glob("*.yaml"):
        above = ""
        for text in path.read_text().splitlines():
            value = text.partition(":")[2].strip()
            known = " # " in text or above.lstrip().startswith("#") or "name:" in text
            assert text.lstrip().startswith("#") or not value or known, text
            above = text


def with_scores(run_dir: Path, **scores: float) -> None:
    path = run_dir / "record.json"
    record = json.loads(path.read_text())
    record.pop("benchmarks", None)
    if scores:
        numbers = {name: {"value": value, "stderr": 0.01} for name, value in scores.items()}
        record["benchmarks"] = {"agent_0": numbers}
    path.write_text(json.dumps(record))


@pytest.mark.slow
def test_the_archive_takes_benchmarks_later_and_loses_none(
    write_run: WriteRun, tmp_path: Path
) -> None:
    places = places_in(tmp_path)
    table = checked(places, "cory", "fig3", "small")

    def archived() -> dict[str, float]:
        gather_tables([table], places, tmp_path / "outputs", allow_dirty=False)
        (kept,) = read_archive(places.records("cory", "small"))
        scores = kept.record.get("benchmarks", {}).get("agent_0", {})
        start = "benchmark/"
        shown = {key: value for key, value in kept.lines[-1].items() if key.startswith(start)}
        for name, score in scores.items():
            assert shown.pop(f"{start}{name}/agent_0") == score["value"]
            assert shown.pop(f"{start}{name}_stderr/agent_0") == score["stderr"]
        assert not shown
        return {name: score["value"] for name, score in scores.items()}

    run_dir = write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    assert archived() == {}
    with_scores(run_dir, mmlu=0.4)
    assert archived() == {"mmlu": 0.4}
    with_scores(run_dir, mmlu=0.5, bbh=0.3)
    assert archived() == {"mmlu": 0.5, "bbh": 0.3}
    with_scores(run_dir)  # another copy of the run directory, from before
    assert archived() == {"mmlu": 0.5, "bbh": 0.3}
    with_scores(run_dir, mmlu=0.6, piqa=0.7)  # never a mixture
    assert archived() == {"mmlu": 0.5, "bbh": 0.3}
    shutil.rmtree(run_dir)
    later = {"began": "2027-01-01T00:00:00+00:00"}
    again = write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0), **later)
    assert archived() == {"mmlu": 0.5, "bbh": 0.3}  # the same numbers: no need for another run
    with_scores(again, mmlu=0.5, bbh=0.3, piqa=0.7)
    assert archived() == {"mmlu": 0.5, "bbh": 0.3, "piqa": 0.7}
