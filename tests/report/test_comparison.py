"""The table of a sweep: groups of seeds, their means and intervals, and differences by seed."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from cory.report.comparison import Comparison, compare, end_values
from cory.report.comparison_text import as_csv, written
from cory.runs.run_dir import SCORES
from tests.support.composing import compose_config
from tests.support.warm import run_script

SCORE, KL = "eval/score/agent_0", "objective/kl/agent_0"
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a finished run: its words, its seed, and the score and KL that it ended with."""
    numbers = itertools.count()

    def write(*words: str, seed: int, score: float | None = 0.0, kl: float = 1.0) -> Path:
        run_dir = tmp_path / f"run_{next(numbers)}"
        run_dir.mkdir()
        cfg = compose_config(f"run_dir={run_dir}", f"seed={seed}", *words)
        OmegaConf.save(cfg, run_dir / "config.yaml")
        # twelve iterations, of which the last ten count
        lines = [{"iteration": i, KL: kl if i > 1 else 99.0} for i in range(12)]
        lines[0][SCORE] = -5.0
        if score is not None:
            lines[-1][SCORE] = score
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (run_dir / "metrics.jsonl").write_text(text)
        (run_dir / "record.json").write_text("{}")
        return run_dir

    return write


@pytest.fixture
def two_by_three(write: Write) -> list[Path]:
    """Seeds differ by far more than settings do: 0.1 and 0.3, higher by 0.1, 0.2 and 0.3."""
    return [
        write(f"algorithm.kl_coef={eta}", seed=seed, score=10.0 * seed + more)
        for eta, gains in (("0.1", (0, 0, 0)), ("0.3", (0.1, 0.2, 0.3)))
        for seed, more in enumerate(gains)
    ]


def entries(comparison: Comparison, metric: str = SCORE) -> list[object]:
    return [comparison.entry(group, metric) for group in comparison.groups]


def test_a_run_ends_with_its_last_evaluation_and_the_mean_of_its_last_iterations(
    write: Write,
) -> None:
    assert end_values(write(seed=0, score=0.5, kl=3.0)) == {SCORE: 0.5, KL: 3.0}


def test_seeds_are_pooled_and_differences_are_paired_by_seed(two_by_three: list[Path]) -> None:
    comparison = compare(two_by_three)
    assert [group.label for group in comparison.groups] == ["kl_coef=0.1", "kl_coef=0.3"]
    first, second = (comparison.entry(group, SCORE) for group in comparison.groups)
    assert first is not None and second is not None
    assert (first.count, first.mean, first.std) == (3, 10.0, 10.0)
    assert first.interval == pytest.approx((10 - 24.8414, 10 + 24.8414), abs=1e-3)
    assert first.difference is None and first.verdict == ""
    # without the seeds' own spread: 0.2 ± t 0.1 / sqrt(3)
    assert (second.pairs, second.difference) == (3, pytest.approx(0.2))
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert second.difference_interval == pytest.approx((0.2 - half, 0.2 + half), abs=1e-5)
    assert second.verdict == "undecided"


def test_an_interval_on_one_side_of_zero_is_a_verdict(write: Write) -> None:
    def verdict(*gains: float) -> str:
        runs = [
            write(f"algorithm.kl_coef={eta}", seed=seed, score=seed + (gain if eta == 0.3 else 0))
            for eta in (0.1, 0.3)
            for seed, gain in enumerate(gains)
        ]
        entry = compare(runs).entry(compare(runs).groups[1], SCORE)
        assert entry is not None
        return entry.verdict

    assert verdict(0.5, 0.51, 0.52) == "higher"
    assert verdict(-0.5, -0.51, -0.52) == "lower"
    assert verdict(0.0, 0.0) == "equal"
    assert verdict(0.5) == ""


def test_seeds_that_only_one_row_has_make_no_pairs(write: Write) -> None:
    runs = [
        write("algorithm.kl_coef=0.1", seed=0, score=1.0),
        write("algorithm.kl_coef=0.1", seed=1, score=2.0),
        write("algorithm.kl_coef=0.3", seed=1, score=4.0),
        write("algorithm.kl_coef=0.3", seed=7, score=9.0),
        write("algorithm.kl_coef=0.5", seed=8, score=9.0),
    ]
    _, second, third = entries(compare(runs))
    assert (second.count, second.pairs, second.difference) == (2, 1, 2.0)  # type: ignore[attr-defined]
    assert third.difference is None  # type: ignore[attr-defined]


def test_what_is_pooled_is_named_and_still_paired(write: Write) -> None:
    runs = [
        write(f"algorithm.kl_coef={eta}", f"algorithm.clip_range={clip}", seed=seed, score=value)
        for (eta, clip, seed), value in zip(
            itertools.product(("0.1", "0.3"), ("0.1", "0.2"), (0, 1)),
            (1, 2, 30, 40, 2, 3, 31, 41),
            strict=True,
        )
    ]
    comparison = compare(runs, ["kl_coef"])
    assert (comparison.keys, comparison.pooled) == (["algorithm.kl_coef"], ["algorithm.clip_range"])
    _, second = entries(comparison)
    assert (second.count, second.pairs) == (4, 4)  # type: ignore[attr-defined]
    assert second.difference_interval == (1.0, 1.0)  # type: ignore[attr-defined]
    assert "pooled although they differ: algorithm.clip_range" in written(comparison, {SCORE: "x"})
    assert len(compare(runs).groups) == 4


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("seed", "seeds are what is pooled"),
        ("nothing", r"nothing is no setting of these runs; they differ in algorithm\.kl_coef"),
        ("epochs", r"algorithm\.\w*epochs is the same in all of these runs; they differ in"),
    ],
)
def test_what_cannot_tell_groups_apart_is_refused(
    two_by_three: list[Path], setting: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        compare(two_by_three, [setting])


def test_a_run_that_was_made_twice_counts_once(write: Write) -> None:
    comparison = compare([write(seed=0, score=1.0), write(seed=0, score=3.0), write(seed=1)])
    (entry,) = entries(comparison)
    assert comparison.repeated == 1 and (entry.count, entry.mean) == (2, 1.5)  # type: ignore[attr-defined]


def test_metrics_that_say_most_are_shown_first(write: Write) -> None:
    assert list(compare([write(seed=0), write(seed=1)]).headlines()) == [SCORE, KL]
    run = write(seed=2, score=None)
    assert list(compare([run]).headlines()) == [SCORE, KL]
    (run / "metrics.jsonl").write_text('{"iteration": 0, "offline/loss/agent_0": 1.0}\n')
    assert list(compare([run]).headlines()) == ["offline/loss/agent_0"]
    votes = {f"eval/vote/turn_{turn}": 0.5 for turn in (1, 2, 10)}
    (run / "metrics.jsonl").write_text(json.dumps({"iteration": 0, **votes}) + "\n")
    assert list(compare([run]).headlines()) == ["eval/vote/turn_10"]


def test_what_training_changed_is_compared_where_runs_evaluated_before_it(write: Write) -> None:
    """Prompt by prompt, as a run's own table of before and after says it."""
    runs = [write(seed=seed) for seed in (0, 1)]
    for number, run in enumerate(runs):
        scores = [
            {"iteration": at, "values": {SCORE: values}, "shares": {}, "prompts": "same"}
            for at, values in ((-1, [0.0, 1.0]), (11, [1.0 + number, 2.0 + number]))
        ]
        (run / SCORES).write_text("".join(json.dumps(line) + "\n" for line in scores))
    comparison = compare(runs)
    (entry,) = entries(comparison, f"change/{SCORE}")
    assert (entry.count, entry.mean) == (2, 1.5)  # type: ignore[attr-defined]
    shown = comparison.headlines()
    assert list(shown) == [SCORE, f"change/{SCORE}", KL]
    assert shown[f"change/{SCORE}"] == "change by training: held-out reward of agent 0"


def test_the_three_forms_hold_the_same_numbers(two_by_three: list[Path]) -> None:
    comparison = compare(two_by_three)
    text = written(comparison, {SCORE: "held-out task reward"})
    head, columns, first, second, _, *notes = text.splitlines()
    assert head == "held-out task reward (eval/score/agent_0)"
    assert " ".join(columns.split()) == ("seeds mean ± std 95 % interval difference 95 % interval")
    assert " ".join(first.split()) == "kl_coef=0.1 3 10.000 ± 10.000 -14.841 to 34.841"
    cells = "kl_coef=0.3 3 10.200 ± 10.100 -14.890 to 35.290 +0.200 -0.048 to +0.448 undecided"
    assert " ".join(second.split()) == cells
    assert "paired by seed" in " ".join(notes)
    table = written(comparison, {SCORE: SCORE}, "markdown").splitlines()
    assert [cell.strip() for cell in table[5].split("|")[1:5]] == [
        "kl_coef=0.3", "3", "10.200 ± 10.100", "-14.890 to 35.290"
    ]  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(as_csv(comparison, [SCORE, KL]))))
    assert len(rows) == 4 and rows[1]["kl_coef"] == "0.3"
    assert float(rows[1]["difference_high"]) == pytest.approx(0.448, abs=1e-3)
    assert rows[0]["difference"] == "" and rows[0]["pairs"] == "0"


def test_one_seed_says_nothing_about_how_sure_a_number_is(write: Write) -> None:
    runs = [write(f"algorithm.kl_coef={eta}", seed=0) for eta in (0.1, 0.3)]
    assert "one run in each row: nothing says how sure" in written(compare(runs), {SCORE: "x"})


def test_the_command(two_by_three: list[Path], write: Write, tmp_path: Path) -> None:
    unfinished = write(seed=9)
    (unfinished / "record.json").unlink()
    done = run_script("scripts/compare.py", str(tmp_path), "--metric", "eval/score")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("eval/score/agent_0\n") and "kl_coef=0.3" in done.stdout
    assert done.stderr.startswith("note: left out, as not finished: ")
    wrong = run_script("scripts/compare.py", str(tmp_path), "--metric", "eval/scor/agent_0")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr == (
        "error: eval/scor/agent_0 is no metric of these runs; did you mean eval/score/agent_0?\n"
    )
    form = run_script("scripts/compare.py", str(tmp_path), "--format", "csv")
    assert form.stdout.startswith("metric,group,kl_coef,runs,mean,std,low,high,pairs,difference")
