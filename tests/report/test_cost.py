"""What a sweep will cost."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cory.report.checks import load_table
from cory.report.records import archive, gather
from omegaconf import DictConfig

from cory.report.costs.cost import cost
from cory.runs.provenance import device_name
from tests.support.composing import CONF, compose_config
from tests.support.made_up_runs import lines_of, run_writer

TABLE = load_table(CONF, "cory", "fig3", "small")
HERE = device_name("cpu")


def composed(experiment: str, scale: str) -> DictConfig:
    return compose_config(f"experiment={experiment}", f"scale={scale}")


def asked(experiment: str) -> int:
    return int(composed(experiment, "small").algorithm.iterations)


@pytest.mark.slow
def test_requests_to_an_endpoint_are_counted(tmp_path: Path) -> None:
    # 30,000 games, 5 turns of both roles; about 168 words in both roles, before and after 4 runs
    table = load_table(CONF, "spag", "fig4l", "paper")
    last = cost(table, tmp_path, [], composed, [0, 1])[-1]
    held_out = 168 * 2 * 5
    requests = 2 * (300_000 + 2 * 4 * held_out)
    assert last.endswith(f"; besides up to {requests:,} requests to its endpoint"), last


@pytest.mark.slow
def test_records_say_how_long_a_run_takes(tmp_path: Path) -> None:
    write = run_writer(tmp_path)
    for seed, wall in enumerate((60.0, 180.0)):
        lines = lines_of(2, 20, 1, seed, asked("cory/imdb_ppo"))
        write("cory/imdb_ppo", seed, lines, wall_s=wall, device=HERE)
    head, ppo, *_ = cost(TABLE, tmp_path, [], composed)
    assert head == "cory fig3 at scale small: 15 runs (3 experiments x 5 seeds), 13 to do"
    n = asked("cory/imdb_ppo")
    measured = f"2 min each (measured: 2 runs on {HERE})"
    assert ppo == f"  cory/imdb_ppo: 3 to do x {n} iterations, {measured}"


@pytest.mark.slow
def test_some_seeds_cost_a_part(tmp_path: Path) -> None:
    write = run_writer(tmp_path)
    write("cory/imdb_ppo", 3, lines_of(2, 20, 1, 3, 100), wall_s=60.0, device=HERE)
    head, *lines = cost(TABLE, tmp_path, [], composed, [3])
    assert head == "cory fig3 at scale small: 3 runs (3 experiments x 1 seed), 2 to do"
    assert ["1 to do" in line for line in lines[:-1]] == [True, True]
    for seeds in ([5], [0, -1]):
        with pytest.raises(
            ValueError, match=rf"has the seeds \[0, 1, 2, 3, 4\], and not {seeds[-1]}"
        ):
            cost(TABLE, tmp_path, [], composed, seeds)


@pytest.mark.slow
def test_the_archive_says_it_where_outputs_hold_nothing(tmp_path: Path) -> None:
    run_dir = run_writer(tmp_path / "elsewhere")(
        "cory/imdb_ppo", 0, lines_of(2, 20, 1, 0, asked("cory/imdb_ppo")), wall_s=10_800.0,
        device="other",
    )  # fmt: skip
    run = archive.decode(archive.encode(gather.load_run(run_dir, "cory/imdb_ppo", "small")))
    lines = cost(TABLE, tmp_path, [run], composed)
    assert "5 to do" in lines[1] and "3.0 h each (measured: 1 run on other, which" in lines[1]
    shorter = {**run.record, "iterations": 7}
    (other,) = [archive.decode(archive.encode(run)) for _ in range(1)]
    other.record.update(shorter)
    assert "ESTIMATE" in cost(TABLE, tmp_path, [other], composed)[1]


@pytest.mark.slow
def test_an_estimate_says_that_it_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cory.memory.preflight.cores", lambda: 3)
    lines = cost(TABLE, tmp_path, [], composed)
    assert all("ESTIMATE, no record yet" in line and "assumed" in line for line in lines[1:4])
    assert re.match(
        r"in all about .+ on hardware=cpu, 3 runs at a time but counted one after another$",
        lines[4],
    )


@pytest.mark.parametrize(
    ("parallel_runs", "threads", "said"),
    [
        ("3", 2, "in all about 13 min on hardware=cpu, 3 runs at a time"),
        (  # no gain is assumed
            *("3", 6),
            "in all about 40 min on hardware=cpu, 3 runs at a time but counted one after another",
        ),
        ("1", 6, "in all about 40 min on hardware=cpu, one run after another"),
        ("null", 1, "in all about 7 min on hardware=cpu, 6 runs at a time"),
    ],
)
def test_runs_side_by_side_take_their_share_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallel_runs: str, threads: int, said: str
) -> None:
    for module in ("cory.config.hardware", "cory.memory.preflight"):
        monkeypatch.setattr(f"{module}.cores", lambda: 6)
    write = run_writer(tmp_path)
    for experiment in TABLE.experiments:
        run_dir = write(
            experiment, 0, lines_of(2, 20, 1, 0, asked(experiment)), wall_s=200.0, device=HERE
        )
        record = json.loads((run_dir / "record.json").read_text())
        (run_dir / "record.json").write_text(json.dumps({**record, "threads": threads}))

    def compose(experiment: str, scale: str) -> DictConfig:
        cfg = composed(experiment, scale)
        cfg.parallel_runs = None if parallel_runs == "null" else int(parallel_runs)
        return cfg

    # three experiments, of which four seeds each are left: 2,400 s of work
    assert cost(TABLE, tmp_path, [], compose)[-1] == said
    # two of three runs of one seed: no less than one of them takes
    for experiment in TABLE.experiments[:1]:
        write(experiment, 1, lines_of(2, 20, 1, 1, asked(experiment)), wall_s=200.0, device=HERE)
    alone = cost(TABLE, tmp_path, [], compose, [1])[-1]
    assert alone.startswith(
        f"in all about {'7' if threads == 6 or parallel_runs == '1' else '3'} min"
    )


def test_the_runs_without_a_known_gain_are_counted_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("cory.config.hardware", "cory.memory.preflight"):
        monkeypatch.setattr(f"{module}.cores", lambda: 6)
    write = run_writer(tmp_path)
    for experiment, threads in zip(TABLE.experiments, (6, 2, 2), strict=True):
        lines = lines_of(2, 20, 1, 0, asked(experiment))
        write(experiment, 0, lines, wall_s=300.0, device=HERE, threads=threads)

    def compose(experiment: str, scale: str) -> DictConfig:
        cfg = composed(experiment, scale)
        cfg.parallel_runs = 3
        return cfg

    # four runs of 300 s each alone, and two times four of them by three
    assert cost(TABLE, tmp_path, [], compose)[-1] == (
        "in all about 33 min on hardware=cpu, 3 runs at a time but 4 of them counted one after "
        "another"
    )


def test_what_is_not_known_is_not_invented(tmp_path: Path) -> None:
    def nowhere(experiment: str, scale: str) -> DictConfig:
        cfg = composed(experiment, scale)
        cfg.model.path = "asset:nothing"
        return cfg

    lines = cost(TABLE, tmp_path, [], nowhere)
    assert all("time unknown (no record, and no estimate: model.path=" in x for x in lines[1:4])
    assert lines[4] == "in all: unknown, on hardware=cpu"


@pytest.mark.slow
def test_nothing_is_left_to_do(tmp_path: Path) -> None:
    write = run_writer(tmp_path)
    for experiment in TABLE.experiments:
        for seed in range(5):
            write(experiment, seed, lines_of(2, 20, 1, seed))
    head = "cory fig3 at scale small: 15 runs (3 experiments x 5 seeds), 0 to do"
    assert cost(TABLE, tmp_path, [], composed) == [head]
