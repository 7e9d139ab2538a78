"""Algorithm 2 as a command: agents of a finished run debate about questions from anywhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from cory.config import Config, ConfigError, builder
from cory.episode import Metrics
from cory.evaluation.responses import EvalRequest
from cory.inference.debaters import DebateOptions, Debaters, settings_of
from cory.inference.exported import require_device
from cory.inference.question_files import DebateFile, Question, read_questions
from cory.inference.transcript import accuracy_lines, readable
from cory.runs.partial_results import PartialResults
from cory.runtime.exporting import export_agents
from cory.runtime.worker import build_parts
from cory.tasks.questions import QuestionsForm
from scripts import debate as command

AS_THERE = DebateOptions(None, None, None, None, None, None, None)
SETTINGS = {"seed": 0, "agents": 3}
TWO = [Question("1 and 6?", "7"), Question("2 and 5?", None)]


def run_of(config: Config, run_dir: Path) -> tuple[list[list[str]], Metrics]:
    """A finished run of agents that all differ; what its evaluation's debates said, and found."""
    parts = build_parts(config)
    trainer = builder("algorithm", "maft")(config.algorithm, parts)
    stream = torch.Generator().manual_seed(1)
    for policy in trainer.agents.values():
        policy.engine.set_weights(
            {
                name: weight.detach() + 0.1 * torch.randn(weight.shape, generator=stream)
                for name, weight in policy.model.trainable().items()
            }
        )
    export_agents(trainer.agents, parts, run_dir)
    OmegaConf.save(OmegaConf.create(asdict(config)), run_dir / "config.yaml")
    pieces = PartialResults(run_dir / "evaluation", "settings")
    request = EvalRequest(config.evaluation, config.seed, 0, True)
    found = trainer.evaluate(request, pieces, lambda *_: None)
    said = [[turn["response"] for turn in line["turns"]] for line in pieces.lines]
    pieces.clear()
    return said, found


@pytest.fixture
def maft(questions: Callable[..., Config], tmp_path: Path) -> Callable[..., Config]:
    """Settings of two debaters of each kind about ten questions."""
    return lambda *words: questions(
        "experiment=maft/phi3_arithmetic_maft",
        *(
            "hardware=cpu",
            "model=tiny",
            "model.chat=false",
            "model.precision=fp32",
            f"run_dir={tmp_path}",
            "hardware.rollout_batch_size=4",
        ),
        *("algorithm.agents=2", "algorithm.evaluation_agents=2", "algorithm.summary=false"),
        *("evaluation.samples=1", "evaluation.k=[1]", "evaluation.prompts=6", "seed=3"),
        *words,
    )


def of_test(questions_file: Path) -> list[Question]:
    """What the run is evaluated on: the file's second half."""
    return read_questions(questions_file, ["question"], None)[10:16]


def responses(lines: list[dict[str, Any]]) -> list[list[str]]:
    return [[turn["response"] for turns in line["turns"] for turn in turns] for line in lines]


@pytest.mark.slow
def test_as_many_debates_at_once_as_the_option_says(
    maft: Callable[..., Config], tmp_path: Path
) -> None:
    config = asdict(maft("hardware.generation_batch_size=5"))
    OmegaConf.save(OmegaConf.create(config), tmp_path / "config.yaml")
    for asked, at_once in ((None, 5), (2, 2)):
        options = replace(AS_THERE, batch_size=asked)
        assert settings_of(tmp_path, options, "cpu").hardware.responses_at_once == at_once


@pytest.mark.slow
@pytest.mark.parametrize(
    "sharing",
    [[], ["model.sharing=adapters", "model.adapter.targets=null"]],
    ids=["copies", "adapters"],
)
def test_they_say_what_the_run_said_to_the_same_questions(
    maft: Callable[..., Config],
    questions_file: Path,
    tmp_path: Path,
    sharing: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # a random model's answers cannot be read: let something else be the answer
    monkeypatch.setattr(
        QuestionsForm, "read", lambda self, text: sum(map(ord, text.removeprefix("#### "))) % 3
    )
    said, found = run_of(maft(*sharing), tmp_path)
    wanted = of_test(questions_file)
    there = settings_of(tmp_path, AS_THERE, "cpu")
    debaters = Debaters(tmp_path, there, "cpu", base=False)
    debaters.check(wanted)
    first = debaters.debate(wanted[:4])
    assert responses(first) == said[:4]
    names = [[turn["agent"] for turn in turns] for turns in first[0]["turns"]]
    assert names == [["generation_0", "generation_1"], ["critic_0", "critic_1"]]
    # another command goes on, with other batches
    again = Debaters(tmp_path, there, "cpu", base=False)
    assert again.settings == debaters.settings
    for key, value in (
        ("compute_precision", "tf32"),
        ("attention", "eager"),
        ("double_quantisation", not there.model.double_quantisation),
    ):
        changed = replace(there, model=replace(there.model, **{key: value}))
        monkeypatch.setattr(again, "config", changed)
        assert again.settings != debaters.settings, key
        monkeypatch.setattr(again, "config", there)
    again.skip(4)
    rest = [*again.debate(wanted[4:5]), *again.debate(wanted[5:])]
    assert responses(rest) == said[4:] and [line["row"] for line in rest] == [4, 5]
    right = [line["right"] for line in (*first, *rest)]
    assert sum(one["first"] for one in right) / 6 == found["eval/single/turn_1"]
    for turn in (0, 1):  # two agents: half of the votes are ties
        votes = [one["votes"][turn] for one in right]
        assert sum(votes) / 6 == found[f"eval/vote/turn_{turn + 1}"]
    base = Debaters(tmp_path, there, "cpu", base=True)
    (untrained,) = base.debate(wanted[:1])
    assert base.settings["weights"] == "base" and responses([untrained]) != said[:1]
    assert {turn["agent"] for turns in untrained["turns"] for turn in turns} == {"base"}


@pytest.mark.slow
def test_a_run_from_elsewhere_does_not_let_code_run(
    maft: Callable[..., Config], tmp_path: Path
) -> None:
    config = maft()
    allowed = replace(config, model=replace(config.model, remote_code=True))
    OmegaConf.save(OmegaConf.create(asdict(allowed)), tmp_path / "config.yaml")
    with pytest.raises(ConfigError, match=r"model\.remote_code=true.* only with --remote-code"):
        settings_of(tmp_path, AS_THERE, "cpu")
    typed = replace(AS_THERE, remote_code=True)
    assert settings_of(tmp_path, typed, "cpu").model.remote_code
    OmegaConf.save(OmegaConf.create(asdict(config)), tmp_path / "config.yaml")
    assert not settings_of(tmp_path, AS_THERE, "cpu").model.remote_code


@pytest.mark.slow
def test_options_change_the_debate_and_are_refused_by_name(
    maft: Callable[..., Config], tmp_path: Path
) -> None:
    OmegaConf.save(OmegaConf.create(asdict(maft())), tmp_path / "config.yaml")
    wanted = DebateOptions(3, 1, 9, 0.5, 0.8, 4, 7)
    there = Debaters(tmp_path, settings_of(tmp_path, wanted, "cpu"), "cpu", base=True)
    (line,) = there.debate([Question("1 and 6?", None)])
    assert [len(turns) for turns in line["turns"]] == [3] and line["right"] is None
    found = {key: there.settings[key] for key in ("seed", "temperature", "top_p", "max_tokens")}
    assert found == {"seed": 9, "temperature": 0.5, "top_p": 0.8, "max_tokens": 4}
    with pytest.raises(ConfigError, match=r"RUN_DIR=.* the run has no agents"):
        Debaters(tmp_path, settings_of(tmp_path, AS_THERE, "cpu"), "cpu", base=False)
    for question, message in (
        (Question("1 and " * 60, None), "question 0: its .* tokens and --max-tokens"),
        (Question("1 and 6?", "seven"), "question 0: task=gsm8k reads no answer in 'seven'"),
        (Question(" ", None), "question 0 is empty"),
    ):
        with pytest.raises(ConfigError, match=message):
            there.check([question])
    with pytest.raises(ConfigError, match="--turns must be at least 1, got 0"):
        DebateOptions(None, 0, None, None, None, None, None)
    with pytest.raises(ConfigError, match="there is no run"):
        settings_of(tmp_path / "nowhere", AS_THERE, "cpu")
    with pytest.raises(ConfigError, match="--device=tpu: this machine has none"):
        settings_of(tmp_path, AS_THERE, "tpu")


def line_about(row: int, question: Question, **settings: Any) -> dict[str, Any]:
    return {
        "row": row,
        "question": question.text,
        "answer": question.answer,
        "settings": SETTINGS | settings,
    }


def test_a_file_of_debates_goes_on_and_refuses_what_is_not_its_own(tmp_path: Path) -> None:
    path = tmp_path / "out" / "debates.jsonl"
    file = DebateFile(path, SETTINGS, TWO)
    file.add([line_about(0, TWO[0])])
    file.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"row": 1, "questi')  # killed while it wrote
    again = DebateFile(path, SETTINGS, TWO)
    assert len(again.lines) == 1 and path.read_bytes() == whole
    again.add([line_about(1, TWO[1])])
    again.close()
    assert [json.loads(line)["row"] for line in path.open()] == [0, 1]
    for settings, questions, message in (
        (SETTINGS | {"seed": 1}, TWO, "holds debates with seed=0, not 1"),
        (SETTINGS, TWO[:1], "holds 2 debates, --questions has 1"),
        (SETTINGS, TWO[::-1], "line 1 is about another question than row 0"),
        (SETTINGS | {"turns": 2}, TWO, "line 1 is no debate of this command"),
    ):
        with pytest.raises(ConfigError, match=message):
            DebateFile(path, settings, questions)
    for text in ("a note of mine", "a note\n"):
        (tmp_path / "note").write_text(text)
        with pytest.raises(ConfigError, match="choose another file"):
            DebateFile(tmp_path / "note", SETTINGS, TWO)
        assert (tmp_path / "note").read_text() == text


def test_questions_come_from_files_of_many_kinds(tmp_path: Path) -> None:
    def written(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    read = read_questions
    assert read(written("a.txt", "one\n\n two \n"), ["question"], None) == [
        Question("one", None),
        Question("two", None),
    ]
    table = written("b.csv", "question,answer,gold\none,1,2\n")
    assert read(table, ["question"], None) == [Question("one", "1")]
    assert read(table, ["question"], "gold") == [Question("one", "2")]
    lists = written("c.jsonl", '{"q": "which?", "options": ["x", "y"]}\n')
    assert read(lists, ["q", "options"], None) == [Question("which?\nx\ny", None)]
    for path, columns, answer, message in (
        (tmp_path / "d.txt", ["question"], None, "there is no such file"),
        (written("e.xls", ""), ["question"], None, "must end in one of"),
        (table, ["text"], None, "--question-column=text is not in the data; it has question"),
        (table, ["question"], "x", "--answer-column=x is not in the data"),
        (tmp_path / "a.txt", ["question"], "x", "a text without columns"),
        (written("f.txt", "\n"), ["question"], None, "there is no question in it"),
        (written("g.jsonl", '{"question": ""}\n'), ["question"], None, "row 0 has no text in"),
    ):
        with pytest.raises(ConfigError, match=message):
            read(path, columns, answer)


def test_accuracies_and_a_debate_to_read() -> None:
    right = [(True, 1.0, 0.5), (False, 1.0, 1.0), (False, 0.0, 1.0), (False, 0.0, 1.0)]
    lines = [{"right": {"first": one, "votes": [a, b]}} for one, a, b in right]
    assert accuracy_lines([*lines, {"right": None}]) == [
        "first agent, first answer  25.00 ± 21.65 % of 4",
        "vote of turn 1             50.00 ± 25.00 % of 4",
        "vote of turn 2             87.50 ± 16.54 % of 4",
    ]
    assert accuracy_lines([{"right": None}]) == []
    said = {"agent": "critic_0", "summary": "Six.", "response": "It is 7.", "read": "7"}
    other = {"agent": "critic_1", "summary": None, "response": "", "read": None}
    line = {
        **{"turns": [[said, other]], "votes": ["7"], "agreeing": [1], "vote": "7"},
        **{"right": None, "answer": None},
    }
    assert readable(line).splitlines() == [
        "Turn 1",
        "  agent 0 (critic agent 0): 7",
        "    | was told: Six.",
        "    It is 7.",
        "  agent 1 (critic agent 1): no answer read",
        "    (nothing)",
        "  vote: 7 (1 of 2)",
        "",
        "Answer: 7",
    ]


@pytest.mark.slow
def test_the_command_answers_files_and_people(
    maft: Callable[..., Config],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    OmegaConf.save(OmegaConf.create(asdict(maft())), tmp_path / "config.yaml")
    (tmp_path / "q.csv").write_text("question,answer\n1 and 6?,7\n2 and 5?,7\n3 and 4?,7\n")
    out = tmp_path / "out.jsonl"

    def run(*words: str, typed: str = "") -> str:
        monkeypatch.setattr(sys, "argv", ["debate.py", str(tmp_path), "--base", *words])
        lines = iter([typed, ""])
        monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
        command.main()
        return capsys.readouterr().out

    about = ("--questions", str(tmp_path / "q.csv"), "--out", str(out), "--batch-size", "2")
    assert "vote of turn 2" in run(*about)
    whole = out.read_bytes()
    out.write_bytes(b"".join(whole.splitlines(keepends=True)[:1]))
    run(*about)
    assert out.read_bytes() == whole
    first = json.loads(whole.splitlines()[0])["turns"][0][0]["response"].strip()
    assert first.split()[0] in run("--question", "1 and 6?")
    assert "Answer:" in run(typed="1 and 6?")
    with pytest.raises(SystemExit):
        run("--questions", str(tmp_path / "q.csv"))
    assert capsys.readouterr().err == (
        "error: --questions and --out go together: the debates about a file are kept in a file\n"
    )


@pytest.mark.parametrize(
    ("device", "there"),
    [("cpu", True), ("cuda", True), ("cuda:1", True), ("cuda:2", False), ("cudax", False)],
)
def test_a_device_that_is_not_here_is_refused(
    device: str, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    if there:
        require_device(device, "--device")
        return
    with pytest.raises(ConfigError, match=f"--device={device}: this machine has none"):
        require_device(device, "--device")
