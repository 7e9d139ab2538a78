"""What a sweep will cost."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import DictConfig

from cory.memory.workload import longest_context
from cory.report.checks import load_table
from cory.report.cost import cost, estimated, operations_of, operations_of_games
from cory.report.records import archive, gather
from cory.runs.provenance import device_name
from tests.support.composing import CONF, compose_config, parsed
from tests.support.made_up_runs import lines_of, run_writer

TABLE = load_table(CONF, "cory", "fig3", "small")
DEBATE = ("experiment=maporl/gsm8k_maporl_exact", "scale=small")
HERE = device_name("cpu")


def composed(experiment: str, scale: str) -> DictConfig:
    return compose_config(f"experiment={experiment}", f"scale={scale}")


def asked(experiment: str) -> int:
    return int(composed(experiment, "small").algorithm.iterations)


def test_records_say_how_long_a_run_takes(tmp_path: Path) -> None:
    write = run_writer(tmp_path)
    for seed, wall in enumerate((60.0, 180.0)):
        lines = lines_of(2, 20, 1, seed, asked("cory/imdb_ppo"))
        write("cory/imdb_ppo", seed, lines, wall_s=wall, device=HERE)
    head, ppo, *_ = cost(TABLE, tmp_path, [], composed)
    assert head == "cory fig3 at scale small: 9 runs (3 experiments x 3 seeds), 7 to do"
    n = asked("cory/imdb_ppo")
    measured = f"2 min each (measured: 2 runs on {HERE})"
    assert ppo == f"  cory/imdb_ppo: 1 to do x {n} iterations, {measured}"


def test_the_archive_says_it_where_outputs_hold_nothing(tmp_path: Path) -> None:
    run_dir = run_writer(tmp_path / "elsewhere")(
        "cory/imdb_ppo", 0, lines_of(2, 20, 1, 0, asked("cory/imdb_ppo")), wall_s=10_800.0,
        device="other",
    )  # fmt: skip
    run = archive.decode(archive.encode(gather.load(run_dir, "cory/imdb_ppo", "small")))
    lines = cost(TABLE, tmp_path, [run], composed)
    assert "3 to do" in lines[1] and "3.0 h each (measured: 1 run on other, which" in lines[1]
    shorter = {**run.record, "iterations": 7}
    (other,) = [archive.decode(archive.encode(run)) for _ in range(1)]
    other.record.update(shorter)
    assert "ESTIMATE" in cost(TABLE, tmp_path, [other], composed)[1]


def test_an_estimate_says_that_it_is_one(tmp_path: Path) -> None:
    lines = cost(TABLE, tmp_path, [], composed)
    assert all("ESTIMATE, no record yet" in line and "assumed" in line for line in lines[1:4])
    assert re.match(r"in all about .+ on hardware=cpu, one run after another$", lines[4])


def test_what_is_not_known_is_not_invented(tmp_path: Path) -> None:
    def nowhere(experiment: str, scale: str) -> DictConfig:
        cfg = composed(experiment, scale)
        cfg.model.path = "asset:nothing"
        return cfg

    lines = cost(TABLE, tmp_path, [], nowhere)
    assert all("time unknown (no record, and no estimate: model.path=" in x for x in lines[1:4])
    assert lines[4] == "in all: unknown, on hardware=cpu"


def test_nothing_is_left_to_do(tmp_path: Path) -> None:
    write = run_writer(tmp_path)
    for experiment in TABLE.experiments:
        for seed in range(3):
            write(experiment, seed, lines_of(2, 20, 1, seed))
    head = "cory fig3 at scale small: 9 runs (3 experiments x 3 seeds), 0 to do"
    assert cost(TABLE, tmp_path, [], composed) == [head]


def test_operations_by_hand() -> None:
    config = parsed("scale=small", "experiment=cory/imdb_ppo")
    # 100 iterations of 32 turns: a query of 8 tokens and a response of (4 + 16) / 2; sampling (2),
    # policy and reference (2 x 2), and 4 epochs of forward and backward (4 x 6)
    training = 100 * 32 * (8 + 10) * 1000 * (2 + 4 + 24)
    config.algorithm.iterations, config.evaluation.prompts = 100, 128
    total, left_out = operations_of(config, 1000, {})
    assert total == training + 128 * (8 + 16) * 1000 * 2 and left_out == ""
    config.evaluation.prompts = None
    total, left_out = operations_of(config, 1000, {})
    assert total == training and "unknown size" in left_out
    total, _ = operations_of(config, 1000, {"imdb": 10})
    assert total == pytest.approx(training + 10 * (8 + 16) * 1000 * 2)


def test_operations_of_a_debate_by_hand() -> None:
    config = parsed("scale=small", "experiment=cory/gsm8k_ppo")
    ppo, sampling = config.algorithm, config.algorithm.sampling
    config.algorithm = parsed(*DEBATE).algorithm
    config.algorithm.sampling, config.algorithm.epochs = sampling, 1
    config.algorithm.iterations, config.algorithm.prompts_per_iteration = 10, 8
    config.evaluation.prompts, config.evaluation.samples = 20, 2
    config.evaluation.greedy, config.evaluation.team = False, True
    longest = longest_context(config)
    # 2 agents x 3 turns are sampled (2), those of 2 turns learn (2 x 2 and 6)
    training = 10 * 8 * (longest + 16) * 1000 * (6 * 2 + 4 * (4 + 6))
    # two samples of 2 policies alone, and of a debate of 3 agents x 3 turns
    tested = 20 * 2 * (2 + 9) * (longest + 16) * 1000 * 2
    assert operations_of(config, 1000, {}) == (training + tested, "")
    assert longest > ppo.sampling.max_response_tokens * 3


def test_what_is_no_ppo_has_no_estimate() -> None:
    config = parsed("scale=small", "experiment=cory/gsm8k_ppo")
    config.algorithm = SimpleNamespace(name="other")
    assert estimated(config, {}) == (None, "no record, and no estimate for algorithm=other")


def test_operations_of_games_by_hand() -> None:
    config = parsed("scale=small", "experiment=spag/llama2_spag_1")
    algorithm, evaluation = config.algorithm, config.evaluation
    algorithm.iterations, algorithm.prompts_per_iteration, algorithm.epochs = 10, 8, 1
    algorithm.instructions.per_iteration, algorithm.instructions.max_tokens = 3, 50
    sampling = algorithm.sampling
    sampling.min_response_tokens = sampling.max_response_tokens = 20
    config.task.max_turns, config.task.max_prompt_tokens = 5, 80
    evaluation.prompts, evaluation.samples = 7, 2
    algorithm.opponents = {"itself": "itself", "scripted": "scripted", "im": "a/run"}
    # 80 games of 5 turns: both roles speak (2 each), one is learnt (reference 2, and 6), 100 tokens
    training = 80 * 5 * 100 * (2 * 2 + 2 + 6) + 30 * 50 * 6
    # 7 words twice; in both roles of 5 turns; against `im` both are models
    tested = 7 * 2 * 2 * 5 * (1 + 1 + 2) * 100 * 2
    total = 1000 * (training + tested)
    assert operations_of_games(config, 1000, {}) == (total, "")
    algorithm.games = "scripted"
    less = 1000 * 80 * 5 * 100 * 4
    assert operations_of_games(config, 1000, {}) == (total - less, "")
    algorithm.opponents["endpoint"] = "endpoint"
    assert "endpoint" in operations_of_games(config, 1000, {})[1]
    evaluation.prompts = None
    assert operations_of_games(config, 1000, {}) == (
        1000 * training - less,
        "; without its evaluation on a whole split of unknown size",
    )
