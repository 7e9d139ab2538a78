"""Benchmarks by the real harness on a shipped model, with questions of our own; no network."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import lm_eval
import pytest
import torch
from omegaconf import OmegaConf
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from cory import benchmarks
from cory.benchmarks import Measurement, geometric_mean, measure
from cory.models.paths import ASSETS
from scripts import benchmarks as command
from tests.support.close import assert_close
from tests.support.composing import parsed

TINY = ASSETS / "tiny"
CHOICES = [" good", " bad", " an awful waste of time"]
REVIEWS = ["This movie was", "I loved it. It is", "What a disaster, so", "The actors are"]
SUITE = """
name: own
dtype: float16
cpu_dtype: float32
max_new_tokens: 6
bos: false
seed: 1
benchmarks:
  choice: {task: own_choices, shots: 0, metric: acc, filter: none, cot: false}
  normed: {task: own_choices, shots: 0, metric: acc_norm, filter: none, cot: false}
geometric_mean: [choice, normed]
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


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tasks of our own: two of choices in a group."""
    folder = tmp_path_factory.mktemp("tasks")
    for part, reviews in (("one", REVIEWS[:3]), ("two", REVIEWS[3:])):
        rows = [{"text": review, "answer": 0} for review in reviews]
        data = folder / f"{part}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / f"{part}.yaml").write_text(choice_task(f"own_{part}", data))
    (folder / "group.yaml").write_text(
        "group: own_choices\ntask: [own_one, own_two]\n"
        "aggregate_metric_list: [{metric: acc, weight_by_size: true}, {metric: acc_norm}]\n"
    )
    (folder / "suite.yaml").write_text(SUITE)
    return folder


@pytest.fixture
def wanted(tasks: Path, tmp_path: Path) -> Measurement:
    """Of a finished run whose only agent is the shipped model."""
    run_dir = tmp_path / "run"
    shutil.copytree(TINY, run_dir / "agents" / "agent_0")
    settings = parsed("model=tiny", "algorithm=ppo").model_dump()
    OmegaConf.save(OmegaConf.create(settings), run_dir / "config.yaml")
    (run_dir / "record.json").write_text('{"seed": 3, "final": {"eval/x": 0.1, "y": NaN}}')
    suite, include = command.suite_of(str(tasks / "suite.yaml")), (command.TASKS, tasks)
    return Measurement(run_dir, "agent_0", False, suite, include, None, 2, "cpu")


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


@pytest.mark.slow
def test_scores_are_kept_and_change_nothing_else(
    wanted: Measurement, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wanted.run_dir / "record.json"
    before = json.loads(path.read_text())
    assert "geometric_mean" not in measure(wanted, ["normed"])
    measure(replace(wanted, limit=1), ["choice"])  # to try: not kept
    assert json.loads(path.read_text())["benchmarks"]["agent_0"].keys() == {"normed"}
    found = measure(wanted, ["choice", "normed"])
    record = json.loads(path.read_text())
    assert record.pop("benchmarks") == {"agent_0": found}
    assert json.dumps(record) == json.dumps(before)
    both = [found[name] for name in ("choice", "normed")]
    expected = geometric_mean([(one["value"], one["stderr"]) for one in both])
    mean = found["geometric_mean"]
    assert (mean["value"], mean["stderr"]) == expected

    # nothing is measured twice,
    monkeypatch.setattr(benchmarks, "harness", lambda wanted: pytest.fail("measured again"))
    content = path.read_text()
    assert measure(wanted, ["choice", "normed"]) == found
    assert path.read_text() == content


@pytest.mark.slow
def test_an_adapter_is_measured_on_its_base_and_the_base_alone(
    wanted: Measurement, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[list[float]] = []  # by the harness: of each choice after the second review
    evaluate = lm_eval.simple_evaluate

    def noted(*words: Any, **how: Any) -> Any:
        output = evaluate(*words, **how | {"log_samples": True})
        (asked,) = [one for one in output["samples"]["own_one"] if one["doc_id"] == 1]
        said.append([float(answers[0][0]) for answers in asked["resps"]])
        return output

    monkeypatch.setattr(lm_eval, "simple_evaluate", noted)
    agent = wanted.run_dir / "agents" / "agent_0"
    shutil.rmtree(agent)
    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    how = LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False)
    get_peft_model(base, how).save_pretrained(agent)
    measure(wanted, ["choice"])
    found = measure(replace(wanted, base=True), ["choice"])["choice"]
    asked = (found["questions"], found["dtype"], found["harness"])
    assert asked == (4, "float32", "0.4.13")
    adapted, alone = said
    plain = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    assert_close(alone, likelihoods(plain, REVIEWS[1]))
    assert_close(adapted, likelihoods(PeftModel.from_pretrained(plain, str(agent)), REVIEWS[1]))
    assert max(abs(a - b) for a, b in zip(adapted, alone, strict=True)) > 0.1
    record = json.loads((wanted.run_dir / "record.json").read_text())
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
