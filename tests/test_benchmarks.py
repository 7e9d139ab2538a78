"""Benchmarks by the real harness on a shipped model, with questions of our own; no network."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import lm_eval
import pytest
import torch
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from omegaconf import OmegaConf
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from cory import benchmarks
from cory.benchmarks import Measurement, measure
from cory.config import ConfigError
from cory.inference import load_team
from cory.models.paths import ASSETS
from scripts import benchmarks as paper
from scripts.benchmarks import geometric_mean, suite_scores
from tests.support.building import plain_logprobs
from tests.support.close import assert_close
from tests.support.composing import parsed

TINY = ASSETS / "tiny"
CHOICES = [" good", " bad", " an awful waste of time"]
REVIEWS = ["This movie was", "I loved it. It is", "What a disaster, so", "The actors are"]
SUITE = OmegaConf.create("""
name: own
benchmarks:
  choice: {task: own_choices, shots: 0, metric: acc, filter: none, cot: false}
  normed: {task: own_one, shots: 0, metric: acc_norm, filter: none, cot: false}
  worded: {task: own_words, shots: 0, metric: exact_match, filter: words, cot: true}
geometric_mean: [choice, normed]
""")
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def own_task(name: str, data: Path, **more: Any) -> str:
    """A task of lm_eval about the texts of a file, which is answered well."""
    about = {
        **{
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(data)}},
        },
        **{"test_split": "test", "doc_to_text": "{{text}}", "doc_to_target": "good", **more},
    }
    means = {"aggregation": "mean", "higher_is_better": True}
    about["metric_list"] = [{"metric": metric, **means} for metric in about["metric_list"]]
    return json.dumps(about)


CHOSEN = {
    **{"output_type": "multiple_choice", "doc_to_choice": CHOICES, "doc_to_target": "answer"},
    **{"target_delimiter": "", "metric_list": ["acc", "acc_norm"], "metadata": {"version": 3.0}},
}
WORDED = {
    **{"output_type": "generate_until", "metric_list": ["exact_match"], "fewshot_split": "test"},
    **{"generation_kwargs": {"until": [" a", "zz"], "max_gen_toks": 5}},
    **{"fewshot_config": {"sampler": "first_n"}},
    "filter_list": [{"name": "words", "filter": [{"function": "take_first"}]}],
}


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tasks of our own: two of choices in a group, and of answers in words."""
    folder = tmp_path_factory.mktemp("tasks")
    for part, reviews in (("one", REVIEWS[:3]), ("two", REVIEWS[3:])):
        rows = [{"text": review, "answer": 0} for review in reviews]
        data = folder / f"{part}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / f"{part}.yaml").write_text(own_task(f"own_{part}", data, **CHOSEN))
    (folder / "group.yaml").write_text(
        "group: own_choices\ntask: [own_one, own_two]\n"
        "aggregate_metric_list: [{metric: acc, weight_by_size: true}, {metric: acc_norm}]\n"
    )
    further = {"own_words": {}, "own_begun": {"gen_prefix": "So:"}, "own_bare": {"num_fewshot": 0}}
    for name, more in further.items():
        text = own_task(name, folder / "one.jsonl", **WORDED, **more)
        (folder / f"{name}.yaml").write_text(text)
    return folder


@pytest.fixture
def wanted(tasks: Path, tmp_path: Path, monkeypatch) -> Measurement:
    """Of a finished run whose agents are the shipped model."""
    # its own 14,000 tasks take twenty seconds to list
    monkeypatch.setattr("lm_eval.tasks.TaskManager", partial(TaskManager, include_defaults=False))
    return measurement(tmp_path / "run", tasks, "algorithm=ppo")


@pytest.fixture
def answers(monkeypatch) -> Callable[[str], list[Any]]:
    """What was said to each question of a task, in the order of the questions."""
    outputs: list[Any] = []
    evaluate = lm_eval.simple_evaluate

    def noted(*words: Any, **how: Any) -> Any:
        outputs.append(evaluate(*words, **how | {"log_samples": True}))
        return outputs[-1]

    monkeypatch.setattr(lm_eval, "simple_evaluate", noted)

    def of_task(task: str) -> list[Any]:
        samples = sorted(outputs[-1]["samples"][task], key=lambda one: int(one["doc_id"]))
        return [[resps[0] for resps in one["resps"]] for one in samples]

    return of_task


def measurement(run_dir: Path, tasks: Path, *words: str) -> Measurement:
    config = parsed("model=tiny", *words)
    for name in config.algorithm.names():
        shutil.copytree(TINY, run_dir / "agents" / name)
    OmegaConf.save(OmegaConf.create(config.model_dump()), run_dir / "config.yaml")
    return Measurement(run_dir, include=(tasks,), batch_size="2", device="cpu")


def stored(wanted: Measurement) -> Any:
    return json.loads((wanted.run_dir / "agents" / "benchmarks.json").read_text())


def likelihoods(model: Any, text: str) -> list[float]:
    """The log-likelihood of each choice after a text, by transformers alone."""
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    found = []
    for choice in CHOICES:
        context, whole = (
            tokenizer(t, add_special_tokens=False).input_ids for t in (text, text + choice)
        )
        assert whole[: len(context)] == context
        found.append(float(plain_logprobs(model, context, whole[len(context) :]).sum()))
    return found


@pytest.mark.slow
def test_a_paper_has_its_numbers_and_their_mean_once(wanted: Measurement, monkeypatch) -> None:
    wanted = replace(wanted, agent="agent_0", suite="own")
    assert "geometric_mean" not in suite_scores(wanted, SUITE, ["normed"])
    found = suite_scores(wanted, SUITE, ["choice", "normed"])
    both = [found[name] for name in ("choice", "normed")]
    raw = stored(wanted)["agent_0"]
    assert both == [raw["own_choices/acc"], raw["own_one/acc_norm"]]
    mean = found["geometric_mean"]
    expected = geometric_mean([(one["value"], one["stderr"]) for one in both])
    assert (mean["value"], mean["stderr"]) == expected
    assert stored(wanted)["agent_0"].items() >= found.items()
    monkeypatch.setattr(paper, "measure", lambda *words: pytest.fail("measured again"))
    assert suite_scores(wanted, SUITE, ["choice", "normed"]) == found
    assert paper.chosen(SUITE, None) == ["choice", "normed"]


@pytest.mark.slow
def test_an_adapter_is_measured_on_its_base_and_the_base_alone(wanted, answers) -> None:
    agent = wanted.run_dir / "agents" / "agent_0"
    shutil.rmtree(agent)
    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    how = LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False)
    get_peft_model(base, how).save_pretrained(agent)
    said = []  # of each choice after the second review
    for base in (False, True):
        found = measure(replace(wanted, base=base), {"own_choices": None})["own_choices/acc"]
        said.append([float(answer[0]) for answer in answers("own_one")[1]])
    asked = (found["questions"], found["shots"], found["precision"], found["harness"])
    assert asked == (4, 0, "fp32", "0.4.13")
    adapted, alone = said
    plain = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    assert_close(alone, likelihoods(plain, REVIEWS[1]))
    assert_close(adapted, likelihoods(PeftModel.from_pretrained(plain, str(agent)), REVIEWS[1]))
    assert max(abs(a - b) for a, b in zip(adapted, alone, strict=True)) > 0.1
    assert stored(wanted).keys() == {"agent_0", "base/agent_0"}


@pytest.mark.slow
def test_a_chat_model_is_asked_in_the_template_of_its_run(wanted: Measurement, monkeypatch) -> None:
    (wanted.run_dir / "agents" / "agent_0" / "chat_template.jinja").write_text(TEMPLATE)
    config = OmegaConf.load(wanted.run_dir / "config.yaml")
    config.model.chat = True
    OmegaConf.save(config, wanted.run_dir / "config.yaml")
    asked: list[list[int]] = []
    generate = HFLM._model_generate

    def noted(lm: HFLM, context: Tensor, **how: Any) -> Any:
        assert how["max_length"] - context.shape[1] == 5
        asked.extend(context.tolist())
        return generate(lm, context, **how)

    monkeypatch.setattr(HFLM, "_model_generate", noted)
    tokenizer = AutoTokenizer.from_pretrained(TINY)

    def texts(task: str, shots: int | None, **how: Any) -> set[str]:
        asked.clear()
        measure(replace(wanted, batch_size="1", **how), {task: shots})
        rows = [tokenizer(tokenizer.decode(row), add_special_tokens=False) for row in asked]
        assert [row.input_ids for row in rows] == asked
        return {*map(tokenizer.decode, asked)}

    example = f"[user] {REVIEWS[0]}\n[assistant] good\n"
    first, second = (f"[user] {review}\n[assistant]" for review in REVIEWS[:2])
    assert texts("own_words", None, limit=1) == {first}
    assert texts("own_words", None, limit=1, chat=False) == {REVIEWS[0]}
    assert texts("own_begun", None, limit=1) == {f"{first} So:"}
    assert example + second in texts("own_words", 1)
    by = stored(wanted)
    assert by.keys() == {"agent_0", "agent_0/first_1"}
    entries = [by[who]["own_words/exact_match/words"] for who in by]
    about = [[entry[key] for key in ("chat", "limit", "shots", "questions")] for entry in entries]
    assert about == [[False, 1, 0, 1], [True, None, 1, 3]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "heard"), [("<think>zz</think> good zz more", "good "), ("<think>good", "")]
)
def test_thinking_is_private_and_not_ended_as_an_answer(
    wanted: Measurement, monkeypatch, answers: Callable[[str], list[Any]], said: str, heard: str
) -> None:
    config = OmegaConf.load(wanted.run_dir / "config.yaml")
    config.model.chat, config.model.thinking = True, "private"
    OmegaConf.save(config, wanted.run_dir / "config.yaml")
    (wanted.run_dir / "agents" / "agent_0" / "chat_template.jinja").write_text(TEMPLATE)
    ids = torch.tensor([AutoTokenizer.from_pretrained(TINY)(said).input_ids])

    def answered(lm: HFLM, context: Tensor, stop: list[str], **how: Any) -> Tensor:
        assert stop == []
        return torch.cat([context, ids], dim=1)

    monkeypatch.setattr(HFLM, "_model_generate", answered)
    measure(replace(wanted, batch_size="1", limit=1), {"own_words": None})
    assert answers("own_words") == [[heard]]


@pytest.mark.slow
def test_of_a_team_the_last_answer_counts(tasks, wanted, answers, tmp_path, monkeypatch) -> None:
    cory = measurement(tmp_path / "cory", tasks, "algorithm=cory")
    cory = replace(cory, team=True, batch_size=None, max_tokens=7)
    found = measure(cory, {"own_words": None})
    team = load_team(cory.run_dir, "cpu")
    said = team.ask_all(REVIEWS[:3], greedy=True, max_tokens=7)
    assert all([turn.role for turn in turns] == ["pioneer", "observer"] for turns in said)
    whole = [turns[-1].text for turns in said]
    cut = [text.split(" a")[0].split("zz")[0] for text in whole]
    assert answers("own_words") == [[text] for text in cut] and cut != whole
    assert stored(cory) == {"team": found}

    monkeypatch.setattr(benchmarks, "load_team", lambda *words: pytest.fail("loaded"))
    with pytest.raises(ConfigError, match=r"--team: own_one asks .*output_type=multiple_choice"):
        measure(cory, {"own_choices": None})


@pytest.mark.parametrize(
    ("how", "task", "line"),
    [
        ({}, "own_wrds", "--tasks=own_wrds: lm_eval .* has no such task; did you mean own_words"),
        ({"agent": "agent_7"}, "own_words", "--agent=agent_7: .*run has agent_0$"),
        ({"run_dir": Path("elsewhere")}, "own_words", "elsewhere: there is no run"),
        ({"team": True, "chat": True}, "own_words", "--chat: with --team all agents answer"),
        ({"team": True, "batch_size": None, "base": True}, "own_words", "--base: with --team"),
        ({"include": (Path("no"),)}, "own_words", "--include-path=no: there is no such folder"),
        ({"limit": 0}, "own_words", "--limit: must be at least 1"),
        ({"device": "tpu"}, "own_words", "device=tpu: this machine has cpu"),
        ({}, "own_bare", "--few-shot=2: the harness asks own_bare without examples"),
    ],
)
def test_what_cannot_be_measured_is_a_line_before_a_model_is_loaded(
    how: dict[str, Any], task: str, line: str, wanted: Measurement, monkeypatch
) -> None:
    monkeypatch.setattr(benchmarks, "ModelBundle", lambda *words: pytest.fail("loaded"))
    with pytest.raises(ConfigError, match=line):
        measure(replace(wanted, **how), {task: 2})


@pytest.mark.slow
def test_the_command_prints_a_table(tasks: Path, wanted: Measurement, monkeypatch, capsys) -> None:
    words = ["--tasks", "own_one,own_words", "--include-path", str(tasks), "--few-shot", "1"]
    typed = ["cory-benchmark", str(wanted.run_dir), *words, "--device", "cpu"]
    monkeypatch.setattr("sys.argv", typed)
    benchmarks.main()
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["questions", "shots", "score", "±", "standard", "error"]
    assert [row.split()[:3] for row in rows] == [
        ["own_one/acc", "3", "1"],
        ["own_one/acc_norm", "3", "1"],
        ["own_words/exact_match/words", "3", "1"],
    ]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"error: benchmarks need .* pip install '\.\[eval\]'"):
        benchmarks.main()


def test_the_error_of_a_geometric_mean_is_the_delta_methods() -> None:
    numbers = [(0.5, 0.01), (0.2, 0.02), (0.8, 0.03)]
    value, stderr = geometric_mean(numbers)
    assert_close(value, 0.08 ** (1 / 3))
    # a third of the mean, by relative errors of 2, 10 and 3.75 %
    assert stderr == pytest.approx(value / 3 * 0.01180625**0.5)
    assert geometric_mean([(0.5, 0.1), (0.5, None)]) == (pytest.approx(0.5), None)
    assert geometric_mean([(0.5, 0.1), (0.0, 0.1)]) == (0.0, None)
