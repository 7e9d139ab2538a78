"""Algorithm 2 as a command: agents of a finished run debate about questions from anywhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from cory.algorithms import ALGORITHMS
from cory.config import Config, ConfigError
from cory.debate_text import accuracies, readable
from cory.evaluation import Request
from cory.inference import Debaters, Wanted, settings_of
from cory.pieces import Pieces
from cory.question_files import DebateFile, Question, read_questions
from cory.worker import build_parts, export_agents
from scripts import debate as command

AS_THERE = Wanted(None, None, None, None, None, None, None)
SETTINGS = {"seed": 0, "agents": 3}
TWO = [Question("1 and 6?", "7"), Question("2 and 5?", None)]


def run_of(config: Config, run_dir: Path) -> list[list[str]]:
    """A finished run of agents that all differ; what each debate of its evaluation said."""
    parts = build_parts(config)
    trainer = ALGORITHMS["maft"](config.algorithm, parts)
    stream = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for voice in trainer.agents.values():
            for name, weight in voice.model.trainable().items():
                if not name.startswith("value_head."):
                    weight += 0.1 * torch.randn(weight.shape, generator=stream)
    export_agents(trainer.agents, parts, run_dir)
    OmegaConf.save(OmegaConf.create(asdict(config)), run_dir / "config.yaml")
    pieces = Pieces(run_dir / "evaluation", "settings")
    trainer.evaluate(Request(config.evaluation, config.seed, 0, True), pieces, lambda *_: None)
    said = [[turn["response"] for turn in line["turns"]] for line in pieces.lines]
    pieces.clear()
    return said


@pytest.fixture
def maft(questions: Callable[..., Config], tmp_path: Path) -> Callable[..., Config]:
    """Settings of two debaters of each kind about ten questions."""
    return lambda *words: questions(
        "experiment=maft/phi3_arithmetic_maft",
        *("hardware=cpu", "model=tiny", f"run_dir={tmp_path}", "hardware.rollout_batch_size=4"),
        *("algorithm.agents=2", "algorithm.evaluation_agents=2", "algorithm.summary=false"),
        *("evaluation.samples=1", "evaluation.k=[1]", "evaluation.prompts=6", "seed=3"),
        *words,
    )


def test_questions(questions_file: Path) -> list[Question]:
    ...


def of_test(questions_file: Path) -> list[Question]:
    """What the run is evaluated on: the file's second half."""
    return read_questions(questions_file, ["question"], None)[10:16]


def responses(lines: list[dict[str, Any]]) -> list[list[str]]:
    return [[turn["response"] for turns in line["turns"] for turn in turns] for line in lines]


@pytest.mark.parametrize(
    "sharing", [[], ["model.sharing=adapters", "model.adapter.targets=null"]], ids=["copies", "adapters"]
)
def test_they_say_what_the_run_said_to_the_same_questions(
    maft: Callable[..., Config], questions_file: Path, tmp_path: Path, sharing: list[str]
) -> None:
    said = run_of(maft(*sharing), tmp_path)
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
    again.skip(4)
    rest = [*again.debate(wanted[4:5]), *again.debate(wanted[5:])]
    assert responses(rest) == said[4:] and [line["row"] for line in rest] == [4, 5]
    base = Debaters(tmp_path, there, "cpu", base=True)
    (untrained,) = base.debate(wanted[:1])
    assert base.settings["weights"] == "base" and responses([untrained]) != said[:1]
    assert {turn["agent"] for turns in untrained["turns"] for turn in turns} == {"base"}
