from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer

from cory.config import ConfigError, ExactMatchConfig
from cory.episode import Episode, Prompt, Turn
from cory.rewards.exact_match import ExactMatch
from cory.rollout.interactions import Roles, pioneer_observer
from cory.tasks.anli import AnliTask
from tests.support.composing import parsed

LABELS = ("entailment", "neutral", "contradiction")
TRAIN = [
    {"premise": f"Ada has {n} {{nuts}}.", "hypothesis": f"She has {2 * n}.", "label": n % 3}
    for n in range(30)
]
TEST = [
    {"premise": "It rained all day. ", "hypothesis": "The sun never shone.", "label": "neutral"},
    {"premise": "It rained all day.", "hypothesis": "It was wet.", "label": "entailment"},
    {"premise": "It rained all day.", "hypothesis": "It was dry.", "label": "contradiction"},
]


@pytest.fixture(scope="module")
def tokenizer(tiny_model: str) -> Any:
    return AutoTokenizer.from_pretrained(tiny_model)


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "train_r3.jsonl", TRAIN)
    write(tmp_path / "test_r3.jsonl", TEST)
    return tmp_path


def task(path: Path, tokenizer: Any, *overrides: str, seed: int = 0) -> AnliTask:
    settings = [
        "task=anli",
        "task.source=path",
        f"task.path={path}",
        "task.train_split='train_r3[10:]'",
        "task.max_prompt_tokens=2000",
    ]
    return AnliTask(parsed(*settings, *overrides).task, tokenizer, np.random.default_rng(seed))


def test_a_label_of_a_column_with_gaps_is_a_number_with_a_point(
    folder: Path, tokenizer: Any
) -> None:
    write(folder / "test_r3.jsonl", [{**TEST[0], "label": 2.0}])
    assert task(folder, tokenizer).held_out(1, "test")[0].answer == "contradiction"


def test_a_prompt_holds_premise_and_hypothesis_and_asks_for_a_box(
    folder: Path, tokenizer: Any
) -> None:
    anli = task(folder, tokenizer)
    prompt = anli.held_out(1, "test")[0]
    assert (prompt.id, prompt.answer) == ("anli-test-0", "neutral")
    assert prompt.text.startswith(
        "Premise: It rained all day.\nHypothesis: The sun never shone.\n\nHow does the hypothesis"
    )
    assert prompt.text.endswith("Answer: \\boxed{...}")
    assert all(prompt.text.count(f"- {label}: ") == 1 for label in LABELS)
    # an echo of the prompt is no answer
    assert anli.read(prompt.text) is None
    # braces of the data are left alone
    assert "Ada has 10 {nuts}.\n" in anli.parts["train"][0].text


def test_what_the_others_said_follows_the_prompt(folder: Path, tokenizer: Any) -> None:
    anli = task(folder, tokenizer)
    prompt = anli.held_out(1, "test")[0]
    seen = anli.observer_context(prompt.text, [" It is {wet}.\n", "It is dry."])
    assert seen.startswith(f"{prompt.text}\n\nSomebody else has answered:\nIt is {{wet}}.\n\n")
    assert seen.index("It is {wet}.") < seen.index("It is dry.")


def test_nobody_sees_the_answer(folder: Path, tokenizer: Any) -> None:
    anli = task(folder, tokenizer)
    contexts: list[str] = []

    def speak(agent: str, role: str, place: int, seen: list[str]) -> list[Turn]:
        contexts.extend(seen)
        return [Turn(agent, role, place, text, "I do not know.", [1], [2]) for text in seen]

    prompts = anli.sample(20)
    pioneer_observer(prompts, speak, Roles(["a", "b"]), anli.observer_context)
    assert len({prompt.answer for prompt in prompts}) == 3
    for prompt, context in zip(prompts * 2, contexts, strict=True):
        # all labels, whichever is right, stand there once
        assert [context.count(label) for label in LABELS] == [1, 1, 1], prompt


def test_training_rows_come_once_per_pass_and_go_on_where_they_were(
    folder: Path, tokenizer: Any
) -> None:
    anli, other = task(folder, tokenizer), task(folder, tokenizer, seed=1)
    passes = [[prompt.id for prompt in anli.sample(20)] for _ in range(2)]
    for ids in passes:
        assert sorted(ids) == sorted(f"anli-train-{n}" for n in range(20))
    assert passes[0] != passes[1]
    anli.sample(7)
    state, stream = anli.state_dict(), anli.sampler.stream.bit_generator.state
    expected = anli.sample(30)
    other.load_state_dict(json.loads(json.dumps(state)))
    other.sampler.stream.bit_generator.state = stream
    assert other.sample(30) == expected


def test_verifier_and_agents_learn_from_other_rows(folder: Path, tokenizer: Any) -> None:
    paper = parsed("task=anli").task
    assert (paper.train_split, paper.test_split) == ("train_r3[10000:22800]", "test_r3")
    agents = task(folder, tokenizer)
    verifier = task(folder, tokenizer, "task.train_split='train_r3[:10]'")
    rows = [[prompt.text for prompt in each.parts["train"]] for each in (verifier, agents)]
    assert [len(texts) for texts in rows] == [10, 20] and not set(rows[0]) & set(rows[1])
    assert [prompt.answer for prompt in agents.parts["train"]] == [
        LABELS[n % 3] for n in range(10, 30)
    ]


def test_a_response_is_right_when_it_names_the_label(folder: Path, tokenizer: Any) -> None:
    anli = task(folder, tokenizer)
    assert anli.read(r"So it is. \boxed{Entailment}") == "entailment"
    assert anli.read("I do not know.") is None
    prompt = anli.held_out(2, "test")[1]
    said = [r"\boxed{entailment}", "Neutral, not an entailment", r"\boxed{?}", "It is entailed."]
    turns = [Turn("a", "solo", 0, "", text, [1], [2]) for text in said]
    ExactMatch(ExactMatchConfig(name="exact_match"), anli, None).score([Episode(prompt, turns)])
    assert [turn.score for turn in turns] == [1.0, 0.0, 0.0, 1.0]


def test_a_pair_from_elsewhere(folder: Path, tokenizer: Any) -> None:
    anli = task(folder, tokenizer)
    probe = anli.prompt_of("It rained.\nIt poured.\n It was wet. ")
    text = "Premise: It rained.\nIt poured.\nHypothesis: It was wet.\n"
    assert probe == Prompt("probe", probe.text) and probe.text.startswith(text)
    with pytest.raises(ConfigError, match=r"a line break and a hypothesis; got 'It rained.'$"):
        anli.prompt_of("It rained.")


def test_lengths(folder: Path, tokenizer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "train_r3.jsonl", [*TRAIN, {**TRAIN[0], "premise": "x" * 500}])
    limit = max(
        len(tokenizer(prompt.text)["input_ids"])
        for prompt in task(folder, tokenizer).parts["train"][:20]
    )
    short = task(folder, tokenizer, f"task.max_prompt_tokens={limit}")
    assert len(short.parts["train"]) == 20
    said = f"note: task.max_prompt_tokens={limit} leaves out 1 of 21 training prompts; the"
    assert said in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"tokens of test prompt anli-test-0$"):
        short.held_out(None, "test")
    assert len(task(folder, tokenizer).held_out(4, "test")) == 3  # all that there are


@pytest.mark.parametrize(
    ("overrides", "change", "said"),
    [
        ("", {"label": -1}, "task.path={tmp}: row train-20: 'label' must be 0, 1, 2 or one of "
         "entailment, neutral, contradiction, got -1"),
        ("", {"label": [1]}, "row train-20: 'label' must be 0, 1, 2 or one of "
         "entailment, neutral, contradiction, got [1]"),
        ("", {"label": None}, "row train-20: 'label' must be 0, 1, 2 or one of"),
        ("", {"premise": " "}, "task.path={tmp}: row train-20 has no text in 'premise'"),
        ("", {"hypothesis": None}, "row train-20 has no text in 'hypothesis'"),
        ("task.label_column=gold", {}, "task.label_column=gold is not in the data; it has"),
        ("task.source=package", {}, "task.source must be one of hub, path, got package"),
        ("task.source=hub task.path=nobody/nothing", {}, "work offline set task.source=path with"),
        ("task.prompt_template='{premise}'", {}, "task.prompt_template must contain {hypothesis}"),
        ("task.observer_template='{answers}'", {}, "task.observer_template must contain {query}"),
        ("task.answer_template=x", {}, "task.answer_template must contain {response}, got 'x'"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(
    overrides: str, change: dict[str, Any], said: str, folder: Path, tokenizer: Any
) -> None:
    write(folder / "train_r3.jsonl", [*TRAIN, {**TRAIN[0], **change}])
    with pytest.raises(ConfigError) as refusal:
        task(folder, tokenizer, *overrides.split())
    message = str(refusal.value)
    assert "\n" not in message and said.replace("{tmp}", str(folder)) in message
