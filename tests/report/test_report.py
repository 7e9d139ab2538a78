"""Pages from made-up run directories: gathered into an archive, then written from it alone."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cory.evaluation.evaluate
from cory.report.claims.judge import CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED
from cory.report.pages.claim_numbers import Numbers
from cory.report.pages.counting import controls_work
from cory.report.pages.minute import Main
from cory.report.pages.verdicts import ClaimVerdict, by_chance
from cory.report.pages.write import checked, gather_tables, write_page
from cory.report.records import gather
from tests.support.made_up_runs import OTHER, WriteRun, lines_of, passing, run_writer
from tests.support.reporting import ROOT, composed, made, places_in, row, write_all


@pytest.mark.slow
def test_a_whole_sweep(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    found, text = made(tmp_path)
    assert len(found.runs) == 15 and not found.refused and not found.notes
    assert text.startswith("# Fig. 3: training curves on IMDB (small scale, not the paper's")
    assert row(text, "small | paper") == [
        "small",
        "paper",
        "CPU x86_64, 2 cores",
        "fp32",
        "aaaaaaa",
        "2026-01-02",
        "22 min: 15 runs of 1.5 to 1.5 min",
    ]
    # the last 10 of 40 iterations on a line from 0 to 4: 4 * 34.5 / 39
    assert row(text, "CORY (tiny) LLM1 |")[2] == f"{4 * 34.5 / 39:.2f} ± 0.03"
    assert row(text, "CORY (tiny) LLM2 |")[4:] == ["2.00 ± 0.00", "0.86 ± 0.00", "0.04 ± 0.00", "5"]
    assert row(text, "PPO (tiny_2x) | ")[2] == f"{30 * 34.5 / 39:.2f} ± 0.01"
    assert "](fig3_small.png)" in text
    verdicts = [line.rsplit(" | ", 1)[1] for line in text.splitlines() if ", fig. 3(" in line]
    assert verdicts.count("holds |") == 11 and len(verdicts) == 12
    assert row(text, "`cory/imdb_ppo_xl/seed2`")[1:] == [
        "paper", "aaaaaaa", "CPU x86_64, 2 cores", "2026-01-02T03:04:05+00:00", "40", "1.5",
    ]  # fmt: skip


@pytest.mark.slow
def test_small_pages_list_what_was_changed(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, (0,))
    _, text = made(tmp_path)
    assert "- `source: package`: the hub's data set is out of reach offline" in text
    assert row(text, "`algorithm.prompts_per_iteration`")[1:] == ["256", "128", "all"]
    assert row(text, "`model.path` | openai-community/gpt2-xl")[3] == "PPO (tiny_2x)"
    assert row(text, "`algorithm.learning_rate`")[1:] == ["1.41e-05", "4.2e-05", "all"]
    assert "algorithm.clip_range" not in text
    assert "number printed" not in text  # the paper's column is for runs at its own scale


def test_the_paper_stands_beside_runs_at_its_scale(tmp_path: Path) -> None:
    write = run_writer(tmp_path / "outputs", "paper")
    for seed in range(3):
        lines = lines_of(0.2, 4.0, 2, seed)
        lines[-1] |= passing(0.17, 2)
        write("cory/gsm8k_cory", seed, lines)
    places = places_in(tmp_path)
    table = checked(places, "cory", "fig5", "paper")
    gather_tables([table], places, tmp_path / "outputs", False)
    _, path = write_page(table, places, composed)
    assert path is not None and path.name == "fig5.md"
    text = path.read_text()
    measure = text.split("### ")[1]
    assert row(measure, "CORY LLM1")[7:9] == ["18 %", "-1.0 points"]
    assert row(measure, "CORY, team")[7:9] == ["no number printed", "-"]
    assert row(measure, "PPO")[1:7] == ["-"] * 6
    assert row(text, "PPO (learning rate 1e-5; 3e-5")[-1] == "not run (3 of 3 seeds)"
    alone = "cannot be judged here; its interval alone: "
    assert row(text, "CORY (LLM1) passes 18 %")[-1].startswith(alone)
    assert row(text, "Our question, not the paper's: Does CORY (LLM1) pass more problems than PPO")[
        -1
    ].startswith("not run (3 of 3 seeds)")


@pytest.mark.slow
def test_a_missing_seed_is_named(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, (1,))
    open_run = write_run("cory/imdb_ppo", 2, lines_of(2, 20, 1, 2))
    (open_run / "record.json").unlink()
    _, text = made(tmp_path)
    assert row(text, "PPO (tiny) | ")[-1] == "1; not run (4 of 5 seeds): 0, 2, 3, 4"
    asked = composed("cory/imdb_ppo", "small").algorithm.iterations
    why = f"failed or stopped (40 of {asked} iterations, no record.json)"
    assert f"- `cory/imdb_ppo/seed2`: {why}" in text
    assert row(text, "PPO's combined")[-1] == "not run (4 of 5 seeds)"


def test_a_diverged_run_is_named(write_run: WriteRun, tmp_path: Path) -> None:
    lines = lines_of(2, 20, 1, 2)
    lines[-1]["objective/kl/agent_0"] = float("nan")
    (write_run("cory/imdb_ppo", 2, lines) / "record.json").unlink()
    _, text = made(tmp_path)
    assert "- `cory/imdb_ppo/seed2`: diverged (40 of " in text


def test_nothing_was_run(tmp_path: Path) -> None:
    found, text = made(tmp_path)
    assert (found.runs, text) == ([], "")
    assert not (tmp_path / "docs").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("record", "overrides", "why"),
    [
        ({"clean": False}, (), "from a dirty tree (commit aaaaaaa)"),
        (
            {"commits": ["a" * 40, OTHER], "clean": False},
            (),
            "went on under other code (commits aaaaaaa, bbbbbbb)",
        ),
        ({"commit": None, "clean": False}, (), "no commit is known"),
        ({}, ("algorithm.kl_coef=0.1",), "started with algorithm.kl_coef=0.1"),
        ({}, ("+experimental=1",), "started with +experimental=1"),
        ({}, ("fidelity=official",), "started with fidelity=official"),
        ({}, ("model=gpt2", "seed=0"), "started with model=gpt2"),
        ({"scale": "paper"}, (), "scale paper, not small"),
        ({"experiment": "cory/imdb_cory"}, (), "experiment cory/imdb_cory, not cory/imdb_ppo"),
        ({"seed": 7}, (), "seed 7 is not of the sweep"),
        ({"settings_sha256": "0"}, (), "config.yaml was changed after the run"),
        ({"iterations": 100}, (), "metrics.jsonl holds 40 of 100 iterations"),
    ],
)
def test_a_run_that_cannot_count_is_refused_by_name(
    write_run: WriteRun,
    tmp_path: Path,
    record: dict[str, Any],
    overrides: tuple[str, ...],
    why: str,
) -> None:
    for seed in (1, 2, 3, 4):
        write_run("cory/imdb_ppo", seed, lines_of(2.0, 20.0, 1, seed))
    # so far off that the mean shows it if it counts
    write_run("cory/imdb_ppo", 0, lines_of(99, 99, 1, 0), overrides=overrides, **record)
    found, text = made(tmp_path)
    assert f"- `cory/imdb_ppo/seed0`: {why}" in text.splitlines()
    assert set(found.counted["cory/imdb_ppo"]) == {1, 2, 3, 4}
    cells = row(text, "PPO (tiny) | ")
    assert cells[1].startswith("1.77 ± ")
    assert cells[-1] in ("4; refused (1 of 5 seeds): 0", "4; not run (1 of 5 seeds): 0")


def test_one_table_refuses_no_seed_of_another(write_run: WriteRun, tmp_path: Path) -> None:
    """CORY on word problems has five seeds in fig. 4, three in the study of more agents."""
    write_run("cory/gsm8k_cory", 4, lines_of(2, 20, 2, 4))
    write_run("cory/gsm8k_cory", 5, lines_of(2, 20, 2, 5))
    places = places_in(tmp_path)
    table = checked(places, "cory", "agents", "small")
    assert table.seeds == [0, 1, 2]
    done = gather_tables([table], places, tmp_path / "outputs", False)
    assert done.written == ["cory/gsm8k_cory/seed4"]
    assert [refused.name for refused in done.refused] == ["cory/gsm8k_cory/seed5"]


def test_a_run_too_short_for_the_window_is_named(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0, iterations=19))
    found, text = made(tmp_path)
    assert not found.runs
    assert "`cory/imdb_ppo/seed0`: 19 iterations are fewer than two windows of 10" in text


@pytest.mark.slow
def test_speed_and_logging_may_differ(write_run: WriteRun, tmp_path: Path) -> None:
    typed = ("hardware=gpu1", "hardware.microbatch_size=8", "wandb.mode=offline", "parallel_runs=2")
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0), overrides=typed)
    found, _ = made(tmp_path)
    assert not found.refused


@pytest.mark.slow
def test_runs_of_other_commits_count_and_are_named(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, (0, 2))
    write_run("cory/imdb_ppo", 1, lines_of(2, 20, 1, 1), commit=OTHER, commits=[OTHER])
    found, text = made(tmp_path)
    assert set(found.counted["cory/imdb_ppo"]) == {0, 1, 2}
    assert "Counted, although:" in text
    assert "- `cory/imdb_ppo/seed1`: commit bbbbbbb, whose code is not its neighbours'" in text
    assert row(text, "small | paper")[4] == "aaaaaaa, bbbbbbb"


@pytest.mark.slow
def test_runs_on_several_devices_count_and_are_named(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, (2, 3, 4))
    found, _ = made(tmp_path)
    assert not found.notes
    for seed in (0, 1):
        write_run("cory/imdb_ppo", seed, lines_of(2, 20, 1, seed), device="NVIDIA H100")
    found, text = made(tmp_path)
    assert {0, 1, 2} <= {*found.counted["cory/imdb_ppo"]}
    [said] = [line for line in text.splitlines() if "draws other samples" in line]
    usual = found.counted["cory/imdb_ppo"][2].record["device"]
    assert said.startswith(f"- on each device a seed draws other samples: {usual} (`cory/imdb_ppo`")
    assert said.endswith("); NVIDIA H100 (`cory/imdb_ppo`)")


def test_commits_that_agree_in_what_trains_are_alike(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    head = git("rev-parse", "HEAD")
    if not head:  # an unpacked archive of the sources knows no commits
        assert gather.training_code("0" * 40) is None
        return
    assert gather.training_code(head) == gather.training_code(git("rev-parse", "HEAD^0"))
    assert gather.training_code("0" * 40) is None
    listed = git("ls-tree", "-r", "--name-only", head, "--", *gather.TRAINS).splitlines()
    counted = [name for name in listed if not gather.ELSE.match(name)]
    assert "cory/models/ppo_policy.py" in counted and "pyproject.toml" in counted
    assert not [name for name in counted if name.startswith(("conf/", "docs/", "cory/report/"))]


@pytest.mark.slow
def test_a_run_with_settings_that_conf_no_longer_has_is_named(
    write_run: WriteRun, tmp_path: Path
) -> None:
    write_all(write_run, (0,))
    changed = {"algorithm.kl_coef": 0.5, "checkpoint_every": 7}  # the latter changes no result
    write_run("cory/imdb_ppo", 1, lines_of(2, 20, 1, 1), settings=changed)
    write_run("cory/imdb_ppo", 2, lines_of(2, 20, 1, 1), settings={"seed": 3})
    found, text = made(tmp_path)
    assert found.notes == [
        "`cory/imdb_ppo/seed1`: algorithm.kl_coef was 0.5, conf/ has 0.03",
        "`cory/imdb_ppo/seed2`: seed was 3, conf/ has 2",
    ]
    assert "- " + found.notes[0] in text


@pytest.mark.slow
def test_a_dirty_run_counts_when_asked_and_stays_named(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, (0,))
    write_run("cory/imdb_ppo", 2, lines_of(2, 20, 1, 2), clean=False)
    write_run("cory/imdb_cory", 1, lines_of(2, 4, 2, 1), overrides=("algorithm.kl_coef=0",))
    found, text = made(tmp_path, allow_dirty=True)
    assert set(found.counted["cory/imdb_ppo"]) == {0, 2}
    assert "- `cory/imdb_ppo/seed2`: from a dirty tree (commit aaaaaaa)" in text
    assert "- `cory/imdb_cory/seed1`: started with algorithm.kl_coef=0" in text
    assert 1 not in found.counted["cory/imdb_cory"]


@pytest.mark.slow
def test_a_seed_counts_once(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    write_run("cory/imdb_ppo", 0, lines_of(9, 20, 1, 0), folder="seed0_again")
    _, text = made(tmp_path)
    assert "`cory/imdb_ppo/seed0_again`: seed 0 is already there as cory/imdb_ppo/seed0" in text
    assert row(text, "PPO (tiny) | ")[1].startswith("1.7")


@pytest.mark.slow
def test_a_claim_shows_its_difference_and_interval(write_run: WriteRun, tmp_path: Path) -> None:
    for seed, kl in enumerate((4.0, 5.0, 12.0, 12.0, 5.0)):
        write_run("cory/imdb_cory", seed, lines_of(2.0, kl, 2, seed))
        write_run("cory/imdb_ppo", seed, lines_of(2.0, 20.0, 1, seed))
    _, text = made(tmp_path)
    cells = row(text, "PPO's KL ends at more than twice that of CORY (LLM1)")
    assert cells[2].split("<br>")[2] == "2: 17.7 vs 2 x 10.6"
    assert cells[3] == "17.7 ± 0 vs 2 x (6.72 ± 3.57)"
    # 17.7 less twice 3.54, 4.42, 10.6, 10.6 and 4.42: mean 4.25, s = 7.14, half width
    # 2.132 s / sqrt(5) = 6.81
    assert cells[4:] == ["4.25 [-2.56, 11.1], claim: > 0", "5", "9.71", "undecided"]
    # of nine with runs, all but the one on the KL of LLM1 and LLM2, which is equal at every seed
    close = row(text, "CORY's LLM1 and LLM2 end close to each other in KL")
    assert "[no interval]" in close[4] and close[-1] == "undecided"
    assert "8 claims and questions are judged by intervals here." in text
    assert "would let 0.4 of them hold" in text


@pytest.mark.slow
def test_a_page_says_what_claims_with_several_comparisons_ask(
    write_run: WriteRun, tmp_path: Path
) -> None:
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    write_run("cory/gsm8k_cory", 0, lines_of(0.2, 4, 2, 0))
    said = "is contradicted only by a wider interval, with 5 % / k left out at each end"
    assert said not in made(tmp_path, "fig3")[1]
    assert said in made(tmp_path, "fig5")[1]


def test_a_claim_asked_afterwards_says_so_among_the_main_ones() -> None:
    shown: Any = SimpleNamespace(
        ran=True, page="cory/fig3_small.md", table=SimpleNamespace(has_runs=True)
    )

    def word(**claim: Any) -> str:
        verdict = ClaimVerdict({"text": "x", **claim}, True, Numbers(), "no", by_intervals=True)
        return Main(shown, verdict, None).cells("")[1]

    assert (word(), word(post_hoc=True)) == ("no", "no (post hoc)")


def test_what_chance_gives_is_counted_for_claims_that_it_can_decide() -> None:
    def verdict(by_intervals: bool = True, **claim: Any) -> ClaimVerdict:
        return ClaimVerdict(claim, True, Numbers(), "undecided", by_intervals=by_intervals)

    (said,) = by_chance([verdict(), verdict(), verdict(False)])
    assert said.startswith("2 claims and questions are judged by intervals here. Were ")
    assert said.endswith("let 0.1 of them hold and 0.1 be contradicted (at most 5 % each).")
    (said,) = by_chance([verdict(parts=[{"relation": "~"}])])
    narrow = "; an equality with a narrow margin is contradicted in up to 10 %"
    assert said.endswith(f"(at most 5 % each{narrow}).")
    (said,) = by_chance([verdict(), verdict(post_hoc=True), verdict(False, post_hoc=True)])
    beside = "beside 1 asked when the runs had been seen"
    assert said.startswith(f"1 claim or question is judged by intervals here, {beside}. Were ")
    assert "let 0.05 of them hold" in said
    assert by_chance([verdict(False), verdict(post_hoc=True)]) == []


@pytest.mark.slow
def test_where_the_control_works_claims_are_judged(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    _, text = made(tmp_path)
    assert row(text, "PPO raises task reward")[-1] == "yes"
    assert row(text, "PPO's combined reward decreases")[-1] == "holds"


@pytest.mark.slow
def test_where_the_control_fails_nothing_is_judged(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, ppo_score=0.5)
    _, text = made(tmp_path)
    assert row(text, "PPO raises task reward")[-1] == "**no**"
    alone = "cannot be judged here; its interval alone: holds"
    assert row(text, "PPO's combined reward decreases")[-1] == alone


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ([], "none"),
        ([HOLDS, HOLDS], "yes"),
        ([HOLDS, UNDECIDED], "1 of 2"),
        ([UNDECIDED], "not shown"),
        ([NOT_RUN], "not shown"),
        ([CONTRADICTED, UNDECIDED], "no"),
    ],
)
def test_a_control_fails_only_where_that_is_shown(kinds: list[str], said: str) -> None:
    assert controls_work([SimpleNamespace(kind=kind) for kind in kinds]) == said  # type: ignore[misc]


def test_responses_stand_side_by_side(write_run: WriteRun, tmp_path: Path) -> None:
    snippet = "This is one of Jackies"
    write_run("cory/imdb_pretrained", 0, [{"iteration": 0, "eval/score/agent_0": 0.5}],
              answers={snippet: "a <b>|\nc"})  # fmt: skip
    write_run("cory/imdb_cory", 0, lines_of(2, 4, 2, 0), answers={snippet: "fine"})
    _, text = made(tmp_path, "tab3")
    first = text.split("**1.** This is one of Jackies")[1].split("**2.**")[0]
    assert row(first, "tiny")[1] == r"agent\_0: a &lt;b&gt;\| c"
    assert row(first, "CORY (tiny) LLM2")[1:] == [r"agent\_1: fine", r"agent\_1: fine"]
    assert row(first, "PPO (tiny)")[1:] == ["not run", "not run"]
    assert row(first, "paper: PPO")[1].startswith("a chain of words of praise")
    assert gather.PROBE_LINE == cory.evaluation.evaluate.PROBE
