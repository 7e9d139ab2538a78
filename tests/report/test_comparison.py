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
from cory.report.comparison_verdict import closing
from cory.report.run_intervals import Spread, error_of, error_of_difference, seeds_needed, spread_of
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


@pytest.mark.slow
def test_seeds_are_pooled_and_differences_are_paired_by_seed(two_by_three: list[Path]) -> None:
    comparison = compare(two_by_three)
    assert [group.label for group in comparison.groups] == ["kl_coef=0.1", "kl_coef=0.3"]
    first, second = (comparison.entry(group, SCORE) for group in comparison.groups)
    assert first is not None and second is not None
    assert (first.own.count, first.own.mean, first.own.std) == (3, 10.0, 10.0)
    assert first.own.interval == pytest.approx((10 - 24.8414, 10 + 24.8414), abs=1e-3)
    assert first.difference is None and first.verdict == ""
    # without the seeds' own spread: 0.2 ± t 0.1 / sqrt(3)
    difference = second.difference
    assert difference is not None
    assert (difference.count, difference.mean) == (3, pytest.approx(0.2))
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert difference.interval == pytest.approx((0.2 - half, 0.2 + half), abs=1e-5)
    assert second.verdict == "undecided"


@pytest.mark.slow
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
    # seeds that agree to the last digit say nothing of what other seeds would do
    assert verdict(0.0, 0.0) == verdict(0.5, 0.5) == "undecided"
    assert verdict(0.5) == ""


@pytest.mark.slow
def test_seeds_that_only_one_row_has_make_no_pairs(write: Write) -> None:
    runs = [
        write("algorithm.kl_coef=0.1", seed=0, score=1.0),
        write("algorithm.kl_coef=0.1", seed=1, score=2.0),
        write("algorithm.kl_coef=0.3", seed=1, score=4.0),
        write("algorithm.kl_coef=0.3", seed=7, score=9.0),
        write("algorithm.kl_coef=0.5", seed=8, score=9.0),
    ]
    comparison = compare(runs)
    _, second, third = entries(comparison)
    assert "+2.000 (1 pair)" in written(comparison, comparison.headlines())
    assert second.own.count == 2  # type: ignore[attr-defined]
    assert second.difference == Spread(1, 2.0, None, None)  # type: ignore[attr-defined]
    assert third.difference is None  # type: ignore[attr-defined]


@pytest.mark.slow
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
    assert second.own.count == 4  # type: ignore[attr-defined]
    assert second.difference == Spread(4, 1.0, 0.0, None)  # type: ignore[attr-defined]
    assert "pooled although they differ: algorithm.clip_range" in written(comparison, {SCORE: "x"})
    assert len(compare(runs).groups) == 4


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_run_that_was_made_twice_counts_once(write: Write) -> None:
    comparison = compare([write(seed=0, score=1.0), write(seed=0, score=3.0), write(seed=1)])
    (entry,) = entries(comparison)
    assert comparison.repeated == 1 and (entry.own.count, entry.own.mean) == (2, 1.5)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_metrics_that_say_most_are_shown_first(write: Write) -> None:
    assert list(compare([write(seed=0), write(seed=1)]).headlines()) == [SCORE, KL]
    run = write(seed=2, score=None)
    assert list(compare([run]).headlines()) == [SCORE, KL]
    (run / "metrics.jsonl").write_text('{"iteration": 0, "offline/loss/agent_0": 1.0}\n')
    assert list(compare([run]).headlines()) == ["offline/loss/agent_0"]
    votes = {f"eval/vote/turn_{turn}": 0.5 for turn in (1, 2, 10)}
    (run / "metrics.jsonl").write_text(json.dumps({"iteration": 0, **votes}) + "\n")
    assert list(compare([run]).headlines()) == ["eval/vote/turn_10"]


@pytest.mark.slow
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
    assert (entry.own.count, entry.own.mean) == (2, 1.5)  # type: ignore[attr-defined]
    shown = comparison.headlines()
    assert list(shown) == [SCORE, f"change/{SCORE}", KL]
    assert shown[f"change/{SCORE}"] == "change by training: held-out reward of agent 0"


@pytest.mark.slow
def test_the_three_forms_hold_the_same_numbers(two_by_three: list[Path]) -> None:
    comparison = compare(two_by_three)
    text = written(comparison, {SCORE: "held-out task reward"})
    head, columns, first, second, _, *notes = text.splitlines()
    assert notes[-1] == (
        "Held-out reward of agent 0: kl_coef=0.3 has a higher mean than kl_coef=0.1 by 0.200 "
        "(95 % interval -0.048 to 0.448, 3 pairs): undecided; if the difference is real, about 5 "
        "seeds would show it in four of five studies."
    )
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


@pytest.mark.slow
def test_one_seed_says_nothing_about_how_sure_a_number_is(write: Write) -> None:
    runs = [write(f"algorithm.kl_coef={eta}", seed=0) for eta in (0.1, 0.3)]
    assert "one run in each row: nothing says how much seeds differ" in written(
        compare(runs), {SCORE: "x"}
    )


@pytest.mark.slow
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


VOTE = "eval/vote/turn_1"


def put(run_dir: Path, metric: str, *values: float, tries: int | None = None) -> Path:
    """Give a run another metric, with what its prompts contributed."""
    lines = [json.loads(row) for row in (run_dir / "metrics.jsonl").read_text().splitlines()]
    if metric != SCORE:
        lines[0].pop(SCORE)
    lines[-1][metric] = sum(values) / len(values)
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    scores = {
        "iteration": 11,
        "prompts": list(range(len(values))),
        "shares": {} if tries is None else {metric: tries},
        "values": {metric: values},
    }
    (run_dir / SCORES).write_text(json.dumps(scores) + "\n")
    return run_dir


@pytest.mark.slow
def test_seeds_without_spread_leave_the_word_to_prompts(write: Write) -> None:
    """Equal shares at all seeds: the standard errors over prompts, with a normal law."""
    answers = {"0.1": [0, 0, 1, 1] * 5, "0.3": [0, 1, 1, 1] * 5}
    runs = [
        put(write(f"algorithm.kl_coef={eta}", seed=seed, score=None), VOTE, *own, tries=1)
        for eta, own in answers.items()
        for seed in (0, 1)
    ]
    comparison = compare(runs)
    _, second = (comparison.entry(group, VOTE) for group in comparison.groups)
    assert second is not None and second.difference is not None
    found = second.difference
    assert (found.mean, found.std, found.over_prompts) == (0.25, 0.0, True)
    # the paired interval of one seed is 0.227 ± 0.208 (Agresti and Min); two share their prompts
    scores = [group.scores for group in comparison.groups]
    pair = next(iter(scores[0]))
    error = error_of_difference(VOTE, scores[1][pair], scores[0][pair])
    assert error == pytest.approx(0.0993, abs=1e-3)
    half = 1.95996 * error
    assert found.interval == pytest.approx((0.25 - half, 0.25 + half), abs=1e-4)
    assert second.verdict == "higher (over prompts)"
    text = written(comparison, {VOTE: "majority right"})
    assert "over prompts: where seeds do not differ" in text
    # without prompts, and with prompts that do not differ either, there is no interval
    assert spread_of([0.5, 0.5], [0.1, None], None).interval is None
    assert spread_of([0.5, 0.5], [0.0, 0.0], None).interval is None


@pytest.mark.slow
def test_the_note_on_prompts_is_about_the_intervals_that_are_shown(write: Write) -> None:
    """The first row's seeds agree; differences, and the second row, vary over seeds."""
    answers = {("0.1", 0): (0, 1), ("0.1", 1): (0, 1), ("0.3", 0): (1, 1), ("0.3", 1): (0, 0)}
    runs = [
        put(write(f"algorithm.kl_coef={eta}", seed=s, score=None, kl=s), VOTE, *own * 8, tries=1)
        for (eta, s), own in answers.items()
    ]
    comparison = compare(runs)
    first, second = (comparison.entry(group, VOTE) for group in comparison.groups)
    assert first is not None and first.own.over_prompts
    assert second is not None and second.difference is not None
    assert not second.own.over_prompts and not second.difference.over_prompts
    assert "over prompts" in written(comparison, {VOTE: VOTE})
    # the other way round the row with a difference is the one whose own interval is over prompts
    turned = compare(runs[::-1])
    _, second = (turned.entry(group, VOTE) for group in turned.groups)
    assert second is not None and second.own.over_prompts and second.difference is not None
    assert "over prompts" in written(turned, {VOTE: VOTE})
    assert "over prompts" not in written(comparison, {KL: KL})  # a headline that is not shown


@pytest.mark.slow
def test_rounding_makes_no_difference(write: Write) -> None:
    scores = {"0.1": (0.3, 0.3, 0.3, 0.6), "0.3": (3 * 0.1, 3 * 0.1, 3 * 0.1, 3 * 0.2)}
    runs = [
        write(f"algorithm.kl_coef={eta}", seed=seed, score=score)
        for eta, own in scores.items()
        for seed, score in enumerate(own)
    ]
    _, second = entries(compare(runs))
    assert second.difference.mean > 0 and second.verdict == "undecided"  # type: ignore[attr-defined]


def test_errors_over_prompts() -> None:
    line = {"values": {"m": [0.0, 1.0, 2.0]}, "shares": {}, "prompts": ["a", "b", "c"]}
    assert error_of("m", line) == pytest.approx(1 / math.sqrt(3))
    assert error_of("n", line) is None and error_of("m", None) is None
    shifted = line | {"values": {"m": [1.0, 2.0, 3.5]}}
    paired = error_of_difference("m", shifted, line)
    assert paired == pytest.approx(math.sqrt(0.25 / 3 / 3))  # of 1, 1 and 1.5
    others = shifted | {"prompts": ["x", "y", "z"]}
    apart = error_of_difference("m", others, line)
    assert apart is not None and apart > 0.9
    assert error_of_difference("m", None, line) is None
    share = {"values": {"m": [0.0] * 8}, "shares": {"m": 1}, "prompts": ["a"] * 8}
    assert 0.05 < (error_of("m", share) or 0) < 0.15  # Wilson's, which is no point at 0


@pytest.mark.slow
def test_intervals_of_shares_stay_where_shares_can_be(write: Write) -> None:
    """With two seeds t reaches 12.7 standard errors, far past 0 and 1."""
    shares = {("0.1", 0): 0.2, ("0.1", 1): 0.6, ("0.3", 0): 0.5, ("0.3", 1): 0.4}
    runs = []
    for (eta, seed), share in shares.items():
        run = write(f"algorithm.kl_coef={eta}", seed=seed, score=share)
        text = (run / "metrics.jsonl").read_text().replace(SCORE, VOTE)
        (run / "metrics.jsonl").write_text(text)
        runs.append(run)
    comparison = compare(runs)
    first, second = (comparison.entry(group, VOTE) for group in comparison.groups)
    assert first is not None and first.own.interval == (0.0, 1.0)
    assert second is not None and second.difference is not None
    assert second.difference.interval == (-1.0, 1.0)
    # rewards are no shares unless the run's own evaluation says so
    loose = compare([write(seed=seed, score=0.5 * seed) for seed in (0, 1)])
    entry = loose.entry(loose.groups[0], SCORE)
    assert entry is not None and entry.own.interval is not None and entry.own.interval[0] < -2
    told = compare([put(write(seed=s, score=0), SCORE, 0, s, s, s, tries=1) for s in (0, 1)])
    entry = told.entry(told.groups[0], SCORE)
    assert entry is not None and entry.own.interval == (0.0, 1.0)


@pytest.mark.slow
def test_a_difference_stands_once(write: Write) -> None:
    """What training changed differs as what it ended with, where runs began alike."""

    def shown(begins: tuple[float, float]) -> str:
        runs = []
        for eta, begin in zip(("0.1", "0.3"), begins, strict=True):
            for seed in (0, 1):
                end = float(eta) + seed
                run = write(f"algorithm.kl_coef={eta}", seed=seed, score=end + 1)
                lines = [
                    {"iteration": at, "values": {SCORE: [value, value + 2]}, "shares": {},
                     "prompts": "same"}
                    for at, value in ((-1, begin), (11, end))
                ]  # fmt: skip
                (run / SCORES).write_text("".join(json.dumps(line) + "\n" for line in lines))
                runs.append(run)
        comparison = compare(runs)
        _, block, *_ = written(comparison, comparison.headlines()).split("\n\n")
        assert block.startswith("change by training: held-out reward of agent 0")
        return block

    assert "difference" not in shown((0.0, 0.0))
    assert "difference" in shown((0.0, 0.5))


@pytest.mark.slow
def test_methods_that_are_judged_by_other_metrics_are_all_shown(write: Write) -> None:
    """Rewards of one method, votes of another: a table has the rows that have its metric."""
    runs = [write("algorithm.kl_coef=0.1", seed=seed, score=1.0 + seed) for seed in (0, 1)]
    runs += [
        put(write("algorithm.kl_coef=0.3", seed=seed, score=None), VOTE, 0, 1, 1, tries=1)
        for seed in (0, 1)
    ]
    runs += [write("algorithm.kl_coef=0.5", seed=seed, score=3.0 + seed) for seed in (0, 1)]
    comparison = compare(runs)
    assert list(comparison.headlines()) == [VOTE, SCORE, KL]
    text = written(comparison, comparison.headlines())
    vote, score, *_ = text.split("\n\n")
    assert vote.splitlines()[-1] == "  not measured by kl_coef=0.1; kl_coef=0.5"
    assert [row.split()[0] for row in score.splitlines()[2:4]] == ["kl_coef=0.1", "kl_coef=0.5"]
    assert "+2.000" in score  # to the first row that has the metric
    second = comparison.entry(comparison.groups[1], VOTE)
    assert second is not None and second.difference is None


@pytest.mark.slow
def test_the_end_says_which_is_better(write: Write) -> None:
    def said(*scores: tuple[float, ...]) -> str:
        runs = [
            write(f"algorithm.kl_coef=0.{number + 1}", seed=seed, score=score)
            for number, own in enumerate(scores)
            for seed, score in enumerate(own)
        ]
        (line,) = closing(compare(runs), [SCORE, KL])
        return line.removeprefix("Held-out reward of agent 0: ")

    assert said((0.0, 1.0, 2.0), (0.5, 1.51, 2.52), (-1.0, 0.0, 1.0)) == (
        "kl_coef=0.2 is better than kl_coef=0.1 by 0.510 (95 % interval 0.485 to 0.535, 3 pairs)."
    )
    assert said((1.0,), (3.0,)) == (
        "kl_coef=0.2 has a higher mean than kl_coef=0.1 by 2.000 (1 pair, no interval): undecided; "
        "more seeds say more, as seed=0,1,2."
    )
    assert said((1.0, 2.0), (1.0, 2.0)) == (
        "kl_coef=0.2 and kl_coef=0.1 have equal means: undecided."
    )
    assert "all seeds agree to the last digit" in said((1.0, 2.0), (3.0, 4.0))
    assert "more than 1000 seeds" in said((0.0, 1.0), (1.001, 0.0))


@pytest.mark.slow
def test_the_end_ranks_by_the_seeds_that_both_have(write: Write) -> None:
    """0.1 has the higher mean over its four seeds, and the lower one in those of 0.3."""

    def said(**scores: tuple[float, ...]) -> str:
        runs = [
            write(f"algorithm.kl_coef=0.{eta[1]}", seed=seed, score=score)
            for eta, own in scores.items()
            for seed, score in enumerate(own)
        ]
        (line,) = closing(compare(runs), [SCORE, KL])
        return line.removeprefix("Held-out reward of agent 0: ")

    both = "over the seeds that both have, "
    assert said(k1=(0.5, 0.5, 1.0, 1.0), k3=(0.60, 0.61)) == (
        f"{both}kl_coef=0.3 is better than kl_coef=0.1 by 0.105 (95 % interval 0.041 to 0.169, "
        "2 pairs)."
    )
    assert said(k1=(0.5, 0.5, 1.0, 1.0), k3=(0.60, 0.90)).startswith(
        f"{both}kl_coef=0.3 has a higher mean than kl_coef=0.1 by 0.250 (95 % interval -1.656 to "
        "2.156, 2 pairs): undecided; "
    )
    assert said(k1=(0.5, 0.7, 1.0), k3=(0.5, 0.7)) == (
        f"{both}kl_coef=0.1 and kl_coef=0.3 have equal means: undecided."
    )


@pytest.mark.slow
def test_the_end_says_what_training_changed_over_seeds(write: Write) -> None:
    runs = [write(seed=seed) for seed in range(3)]
    for number, run in enumerate(runs):
        lines = [
            {"iteration": at, "values": {SCORE: [value, value]}, "shares": {}, "prompts": "same"}
            for at, value in ((-1, 0.0), (11, 1.0 + 0.1 * number))
        ]
        (run / SCORES).write_text("".join(json.dumps(line) + "\n" for line in lines))
    comparison = compare(runs)
    assert closing(comparison, list(comparison.headlines())) == [
        "Held-out reward of agent 0 changed by +1.100 (95 % interval 0.852 to 1.348, 3 runs): "
        "it rose."
    ]


def test_seeds_that_would_decide() -> None:
    """(t + 0.842) s / sqrt(n) with s = 0.1 is 0.201 for n = 4, and 0.162 for n = 5."""
    assert seeds_needed(Spread(3, 0.2, 0.1, None)) == 5
    assert seeds_needed(Spread(3, -0.2, 0.1, None)) == 5
    assert seeds_needed(Spread(3, 0.21, 0.1, None)) == 4
    assert seeds_needed(Spread(3, 0.0001, 0.1, None)) is None
    assert seeds_needed(Spread(2, 0.2, 0.0, None)) is None
