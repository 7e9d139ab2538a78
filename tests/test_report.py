"""Pages from made-up run directories: gathered into an archive, then written from it alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

import cory.evaluation
from cory.report import archive, gather
from cory.report.overview import Shown, index, readme_block, report
from cory.report.page import scale_reasons
from cory.report.paper import Table, load_table
from cory.report.runs import Collected
from cory.report.write import Places, checked, gather_tables, with_block, write_page
from tests.composing import CONF, compose_config
from tests.made_up_runs import OTHER, WriteRun, lines_of, passing, run_writer

ROOT = CONF.parent


@cache
def composed(experiment: str, scale: str) -> DictConfig:
    return compose_config(f"experiment={experiment}", f"scale={scale}")


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Writes a run directory below tmp_path/outputs as a small-scale sweep would."""
    return run_writer(tmp_path / "outputs")


def places_in(folder: Path) -> Places:
    return Places(CONF, folder / "docs", ROOT / "docs" / "metrics.md")


def write_all(write_run: WriteRun, seeds: tuple[int, ...] = (0, 1, 2)) -> None:
    """Runs that agree with most claims of fig. 3: PPO pays with KL for the same reward."""
    for seed in seeds:
        write_run("cory/imdb_ppo", seed, lines_of(2.0, 20.0, 1, seed))
        write_run("cory/imdb_ppo_xl", seed, lines_of(2.5, 30.0, 1, seed))
        write_run("cory/imdb_cory", seed, lines_of(2.0, 4.0, 2, seed))


def made(tmp_path: Path, name: str = "fig3", allow_dirty: bool = False) -> tuple[Collected, str]:
    """What counts for a table at small scale, and its page, after gathering."""
    places = places_in(tmp_path)
    table = checked(places, "cory", name, "small")
    gather_tables([table], places, tmp_path / "outputs", allow_dirty)
    shown, path = write_page(table, places, composed)
    return shown.found, path.read_text() if path is not None else ""


def row(text: str, start: str) -> list[str]:
    """The cells of the only table row that starts with `start`."""
    (line,) = [x for x in text.splitlines() if x.startswith(f"| {start}")]
    return [cell.strip() for cell in line.strip("| ").split(" | ")]


def test_a_whole_sweep(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    found, text = made(tmp_path)
    assert len(found.runs) == 9 and not found.refused and not found.notes
    assert text.startswith("# Fig. 3: training curves on IMDB (small scale, not the paper's")
    assert row(text, "small | paper") == [
        "small",
        "paper",
        "CPU x86_64, 2 cores",
        "aaaaaaa",
        "2026-01-02",
        "14 min: 9 runs of 1.5 to 1.5 min",
    ]
    # the last 10 of 40 iterations on a line from 0 to 4: 4 * 34.5 / 39
    assert row(text, "CORY (tiny) LLM1 |")[2] == f"{4 * 34.5 / 39:.2f} ± 0.00"
    assert row(text, "CORY (tiny) LLM2 |")[4:] == ["2.00 ± 0.00", "0.86 ± 0.00", "0.04 ± 0.00", "3"]
    assert row(text, "PPO (tiny_2x) | ")[2] == f"{30 * 34.5 / 39:.2f} ± 0.00"
    assert "](fig3_small.png)" in text
    verdicts = [line.rsplit(" | ", 1)[1] for line in text.splitlines() if ", fig. 3(" in line]
    assert verdicts.count("holds |") == 11 and len(verdicts) == 12
    assert row(text, "`cory/imdb_ppo_xl/seed2`")[1:] == [
        "paper", "aaaaaaa", "CPU x86_64, 2 cores", "2026-01-02T03:04:05+00:00", "40", "1.5",
    ]  # fmt: skip


def test_small_pages_list_what_was_changed(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, (0,))
    _, text = made(tmp_path)
    assert "- `source: package`: the hub's data set is out of reach offline" in text
    assert row(text, "`algorithm.prompts_per_iteration`")[1:] == ["256", "32", "all"]
    assert row(text, "`model.path` | openai-community/gpt2-xl")[3] == "PPO (tiny_2x)"
    assert "algorithm.learning_rate" not in text
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
    assert row(text, "CORY (LLM1) passes 18 %")[-1] == "holds"
    assert row(text, "Our question, not the paper's: Does CORY (LLM1) pass more problems than PPO")[
        -1
    ].startswith("not run (3 of 3 seeds)")


def test_a_missing_seed_is_named(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, (1,))
    open_run = write_run("cory/imdb_ppo", 2, lines_of(2, 20, 1, 2))
    (open_run / "record.json").unlink()
    _, text = made(tmp_path)
    assert row(text, "PPO (tiny) | ")[-1] == "1; not run (2 of 3 seeds): 0, 2"
    asked = composed("cory/imdb_ppo", "small").algorithm.iterations
    why = f"failed or stopped (40 of {asked} iterations, no record.json)"
    assert f"- `cory/imdb_ppo/seed2`: {why}" in text
    assert row(text, "PPO's combined")[-1] == "not run (2 of 3 seeds); holds in 1 of the other 1"


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
    for seed in (1, 2):
        write_run("cory/imdb_ppo", seed, lines_of(2.0, 20.0, 1, seed))
    # so far off that the mean shows it if it counts
    write_run("cory/imdb_ppo", 0, lines_of(99, 99, 1, 0), overrides=overrides, **record)
    found, text = made(tmp_path)
    assert f"- `cory/imdb_ppo/seed0`: {why}" in text.splitlines()
    assert set(found.counted["cory/imdb_ppo"]) == {1, 2}
    cells = row(text, "PPO (tiny) | ")
    assert cells[1].startswith("1.77 ± ")
    assert cells[-1] in ("2; refused (1 of 3 seeds): 0", "2; not run (1 of 3 seeds): 0")


def test_a_run_too_short_for_the_window_is_named(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0, iterations=19))
    found, text = made(tmp_path)
    assert not found.runs
    assert "`cory/imdb_ppo/seed0`: 19 iterations are fewer than two windows of 10" in text


def test_speed_and_logging_may_differ(write_run: WriteRun, tmp_path: Path) -> None:
    typed = ("hardware=gpu1", "hardware.microbatch_size=8", "wandb.mode=offline")
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0), overrides=typed)
    found, _ = made(tmp_path)
    assert not found.refused


def test_runs_of_other_commits_count_and_are_named(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, (0, 2))
    write_run("cory/imdb_ppo", 1, lines_of(2, 20, 1, 1), commit=OTHER, commits=[OTHER])
    found, text = made(tmp_path)
    assert set(found.counted["cory/imdb_ppo"]) == {0, 1, 2}
    assert "Counted, although:" in text
    assert "- `cory/imdb_ppo/seed1`: commit bbbbbbb, whose code is not its neighbours'" in text
    assert row(text, "small | paper")[3] == "aaaaaaa, bbbbbbb"


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
    assert "cory/agent.py" in counted and "conf/train.yaml" in counted
    assert not [name for name in counted if name.startswith(("conf/paper/", "docs/"))]


def test_a_dirty_run_counts_when_asked_and_stays_named(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, (0,))
    write_run("cory/imdb_ppo", 2, lines_of(2, 20, 1, 2), clean=False)
    write_run("cory/imdb_cory", 1, lines_of(2, 4, 2, 1), overrides=("algorithm.kl_coef=0",))
    found, text = made(tmp_path, allow_dirty=True)
    assert set(found.counted["cory/imdb_ppo"]) == {0, 2}
    assert "- `cory/imdb_ppo/seed2`: from a dirty tree (commit aaaaaaa)" in text
    assert "- `cory/imdb_cory/seed1`: started with algorithm.kl_coef=0" in text
    assert 1 not in found.counted["cory/imdb_cory"]


def test_a_seed_counts_once(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    write_run("cory/imdb_ppo", 0, lines_of(9, 20, 1, 0), folder="seed0_again")
    _, text = made(tmp_path)
    assert "`cory/imdb_ppo/seed0_again`: seed 0 is already there as cory/imdb_ppo/seed0" in text
    assert row(text, "PPO (tiny) | ")[1].startswith("1.7")


def test_a_claim_that_does_not_hold_says_in_how_many_seeds(
    write_run: WriteRun, tmp_path: Path
) -> None:
    for seed, kl in enumerate((4.0, 4.0, 12.0)):
        write_run("cory/imdb_cory", seed, lines_of(2.0, kl, 2, seed))
        write_run("cory/imdb_ppo", seed, lines_of(2.0, 20.0, 1, seed))
    _, text = made(tmp_path)
    cells = row(text, "PPO's KL ends at more than twice that of CORY (LLM1)")
    assert cells[-1] == "does not hold (holds in 2 of 3 seeds; the mean does too)"
    assert cells[2].split("<br>")[2] == "2: 17.7 vs 2 x 10.6"
    assert cells[3] == "17.7 ± 0 vs 2 x (5.90 ± 4.09)"


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
    assert gather.PROBE == cory.evaluation.PROBE


# --- the archive -------------------------------------------------------------------------------


def test_an_archived_run_is_what_was_run(write_run: WriteRun, tmp_path: Path) -> None:
    run_dir = write_run("cory/imdb_cory", 1, lines_of(2, 4, 2, 1), answers={"Hello": "you"})
    made(tmp_path)
    path = tmp_path / "docs/cory/records/small/imdb_cory/seed1.json"
    (run,) = archive.read(path.parent.parent)
    asked = gather.load(run_dir, "cory/imdb_cory", "small")
    assert (run.settings, run.probes) == (asked.settings, asked.probes)
    assert run.record["settings_sha256"] and "final" not in run.record
    for line, whole in zip(run.lines, asked.lines, strict=True):  # exact, and nothing else
        assert line == {k: v for k, v in whole.items() if k == "iteration" or archive.kept(k)}
    assert "ppo/loss/policy/agent_0" in asked.lines[0] and len(run.lines[0]) > 10
    before = path.read_bytes()
    path.unlink()
    made(tmp_path)
    assert path.read_bytes() == before == archive.encode(run).encode()


def test_pages_come_out_the_same_without_outputs(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    (write_run("cory/imdb_ppo", 7, lines_of(2, 20, 1, 7)) / "record.json").unlink()
    made(tmp_path)
    page = tmp_path / "docs/cory/fig3_small.md"
    before = page.read_bytes(), page.with_suffix(".png").read_bytes()
    assert b"cory/imdb_ppo/seed7" in before[0]
    shutil.rmtree(tmp_path / "outputs")
    page.unlink()
    made(tmp_path)
    assert (page.read_bytes(), page.with_suffix(".png").read_bytes()) == before


def test_a_refusal_goes_when_its_run_is_there(write_run: WriteRun, tmp_path: Path) -> None:
    run_dir = write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0), clean=False)
    found, _ = made(tmp_path)
    assert [refused.name for refused in found.refused] == ["cory/imdb_ppo/seed0"]
    shutil.rmtree(run_dir)
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    found, _ = made(tmp_path)
    assert not found.refused and len(found.runs) == 1
    assert not (tmp_path / "docs/cory/records/small/refused.json").exists()


@pytest.mark.parametrize(
    ("record", "wins", "note"),
    [
        ({"began": "2027-01-01T00:00:00+00:00"}, True, "replaced by one of commit aaaaaaa"),
        ({"began": "2025-01-01T00:00:00+00:00"}, False, "the archive keeps its own run"),
        (
            {"began": "2027-01-01T00:00:00+00:00", "clean": False},
            False,
            "the archive keeps its own run of commit aaaaaaa: its tree was clean",
        ),
    ],
)
def test_a_worse_run_never_replaces_an_archived_one_in_silence(
    write_run: WriteRun, tmp_path: Path, record: dict[str, Any], wins: bool, note: str
) -> None:
    run_dir = write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    made(tmp_path)
    shutil.rmtree(run_dir)
    write_run("cory/imdb_ppo", 0, lines_of(9, 20, 1, 0), **record)
    places = places_in(tmp_path)
    table = checked(places, "cory", "fig3", "small")
    done = gather_tables([table], places, tmp_path / "outputs", allow_dirty=True)
    assert [note in line for line in done.notes] == [True]
    (run,) = archive.read(places.records("cory", "small"))
    assert (run.lines[-1]["objective/score/agent_0"] > 5) == wins


def test_a_run_that_says_the_same_again_replaces_nothing(
    write_run: WriteRun, tmp_path: Path
) -> None:
    run_dir = write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    made(tmp_path)
    path = tmp_path / "docs/cory/records/small/imdb_ppo/seed0.json"
    before = path.read_bytes()
    shutil.rmtree(run_dir)
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0), began="2027-01-01T00:00:00+00:00")
    places = places_in(tmp_path)
    table = checked(places, "cory", "fig3", "small")
    done = gather_tables([table], places, tmp_path / "outputs", allow_dirty=False)
    (note,) = done.notes
    assert note.endswith(
        "the archive keeps its own run of commit aaaaaaa: the new one has the same numbers"
    )
    assert path.read_bytes() == before and not done.written


def test_an_archived_run_counts_while_another_of_its_seed_does_not_finish(
    write_run: WriteRun, tmp_path: Path
) -> None:
    run_dir = write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    made(tmp_path)
    (run_dir / "record.json").unlink()
    found, text = made(tmp_path)
    assert [run.name for run in found.runs] == ["cory/imdb_ppo/seed0"] and not found.refused
    said = "an earlier run; the latest is left out: failed or stopped (40 of"
    assert f"`cory/imdb_ppo/seed0`: {said}" in text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"seed":0', '"seed":1', "its sha256 is another one"),
        ('"wall_s":90.0', '"wall_s":9.0', "its sha256 is another one"),
        ('"metrics": [', '"metrics": [[],', "its sha256 is another one"),
        ('"record"', '"recorded"', "its sha256 is another one"),
        ("{", "", "cannot be read"),
    ],
)
def test_a_record_that_was_changed_is_named(
    write_run: WriteRun, tmp_path: Path, old: str, new: str, said: str
) -> None:
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    made(tmp_path)
    path = tmp_path / "docs/cory/records/small/imdb_ppo/seed0.json"
    text = path.read_text()
    changed = text.replace(old, new, 1)
    assert changed != text
    path.write_text(changed)
    for again in (lambda: archive.read(path.parent.parent), lambda: made(tmp_path)):
        with pytest.raises(ValueError, match=r"imdb_ppo/seed0\.json cannot be read") as error:
            again()
        assert said in str(error.value) and "\n" not in str(error.value)


def test_a_record_in_anothers_place_is_named(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    made(tmp_path)
    folder = places_in(tmp_path).records("cory", "small")
    (folder / "imdb_ppo/seed0.json").rename(folder / "imdb_ppo/seed0 copy.json")
    with pytest.raises(ValueError, match=r"seed0 copy.json holds cory/imdb_ppo/seed0 of scale"):
        archive.read(folder)
    (folder / "refused.json").write_text("[{")
    with pytest.raises(ValueError, match=r"refused\.json cannot be read"):
        archive.read_refused(folder)


# --- the overviews -----------------------------------------------------------------------------


def shown_at_both_scales(tmp_path: Path, names: tuple[str, ...]) -> dict[str, dict[str, Shown]]:
    places, found = places_in(tmp_path), {}
    for name in names:
        for scale in ("paper", "small"):
            table = checked(places, "cory", name, scale)
            if table.kind != "preset":
                gather_tables([table], places, tmp_path / "outputs", False)
            found.setdefault(name, {})[scale] = write_page(table, places, composed)[0]
    return found


def test_overviews_keep_the_scales_apart(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    everything = shown_at_both_scales(tmp_path, ("fig3", "fig6", "tab1"))
    text = report(everything, composed)
    fig3 = text.split("## Fig. 3")[1].split("\n## ")[0]
    own, small = fig3.split("### At small scale")
    assert "not run (`make reproduce-cory-fig3`)" in own and "±" not in own
    assert "CORY (tiny) LLM1" in small and "](cory/fig3_small.png)" in small
    assert row(small, "PPO's combined reward decreases")[-1] == "holds"
    glance = index({"cory": everything}, composed)
    assert row(glance, "Fig. 3")[1:] == [
        "not run",
        "[11 hold, 1 does not hold](cory/fig3_small.md)",
    ]
    assert row(glance, "Table 1")[1] == "[42 of 42 settings as printed](cory/tab1.md)"
    assert "- **does not hold**: PPO with GPT-2 XL reaches its highest" in glance
    block = readme_block(everything, composed)
    assert row(block, "`imdb_cory` LLM2")[-1] == "3"


def test_readme_keeps_what_stands_around_its_block(tmp_path: Path) -> None:
    everything = shown_at_both_scales(tmp_path, ("tab1",))
    text = with_block(
        "before\n" + readme_block(everything, composed) + "\nafter", everything, composed
    )
    assert text == with_block(text, everything, composed)
    assert text.startswith("before\n") and text.endswith("\nafter")
    with pytest.raises(ValueError, match=r"README\.md holds no lines"):
        with_block("nothing", everything, composed)


def test_the_committed_pages_are_those_of_the_committed_records(tmp_path: Path) -> None:
    docs, readme = tmp_path / "docs" / "results", tmp_path / "README.md"
    for paper in sorted((ROOT / "docs/results").glob("*/records")):
        shutil.copytree(paper, docs / paper.parent.name / "records")
    docs.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "README.md", readme)
    words = ("--all", "--outputs", str(tmp_path / "none"), "--docs", str(docs))
    done = run_script("scripts/table.py", *words, "--readme", str(readme))
    assert done.returncode == 0, done.stderr
    written = {p.relative_to(docs): p.read_bytes() for p in docs.rglob("*.md")}
    committed = ROOT / "docs/results"
    assert written == {p.relative_to(committed): p.read_bytes() for p in committed.rglob("*.md")}
    pictures = {p.relative_to(docs) for p in docs.rglob("*.png")}  # bytes depend on matplotlib's
    assert pictures == {p.relative_to(committed) for p in committed.rglob("*.png")}
    assert readme.read_bytes() == (ROOT / "README.md").read_bytes()


# --- conf/paper and the scripts ------------------------------------------------------------------


def all_tables() -> list[str]:
    return list(OmegaConf.load(CONF / "paper" / "cory.yaml").tables)


def test_every_table_has_a_sweep_and_the_other_way_round() -> None:
    tables = {name: load_table(CONF, "cory", name, "paper") for name in all_tables()}
    sweeps = {path.stem for path in (CONF / "sweep/cory").glob("*.yaml")}
    assert {name for name, table in tables.items() if table.kind != "preset"} == sweeps
    assert {name for name, table in tables.items() if table.kind == "preset"} == {"tab1", "tab2"}
    named = "fig2 fig3 fig4 fig5 fig6 fig7 fig8 fig9 fig10 grid_ppo tab1 tab2 tab3 tab4 tab5"
    assert set(tables) == {*named.split(), "compute_matched", "agents"}


@pytest.mark.parametrize("name", all_tables())
def test_a_table_fits_its_sweep(name: str) -> None:
    table = checked(places_in(CONF), "cory", name, "paper")
    ids = [claim["id"] for claim in table.claims]
    assert len(ids) == len(set(ids)) and not [text for text in ids if "{" in text]
    if table.kind == "preset":
        assert not ids
        return
    assert ids and table.entry["sweep"] == f"cory/{name}"
    sweep = OmegaConf.load(CONF / "sweep" / f"{table.entry['sweep']}.yaml")
    assert set(table.experiments) == set(sweep.hydra.sweeper.params.experiment.split(","))
    assert table.seeds == [0, 1, 2]
    for row in table.rows:  # what a page says about a run is what the run has
        settings = composed(row["experiment"], "paper").algorithm
        assert settings.kl_coef == float(row.get("eta", settings.kl_coef))
        assert settings.learning_rate == float(row.get("lr", settings.learning_rate))
    for prompt in table.entry.get("prompts", []):
        for row in table.rows:
            assert prompt["text"] in composed(row["experiment"], "small").evaluation.probes


def test_the_reasons_of_a_scale_are_its_comments() -> None:
    groups = ("scale", "stand_in", "stand_in_task", "stand_in_algorithm")
    paths = [path for group in groups for path in (CONF / group).glob("small*")]
    assert paths
    for path in paths:
        commented = [x for x in path.read_text().splitlines() if " # " in x and x[0] != "#"]
        assert len(scale_reasons(path)) == len(commented), path


@pytest.fixture
def small_conf(tmp_path: Path) -> Path:
    """A conf/ with one paper, whose one claim a test writes."""
    for name in ("experiment/p/run", "scale/paper", "scale/small"):
        (tmp_path / f"{name}.yaml").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.yaml").write_text("{}\n")
    (tmp_path / "paper").mkdir()
    write_sweep(tmp_path, experiment="p/run", seed="0,1")
    return tmp_path


def write_sweep(conf: Path, **params: str) -> None:
    (conf / "sweep").mkdir(exist_ok=True)
    cfg = {"hydra": {"sweeper": {"params": params}}}
    OmegaConf.save(OmegaConf.create(cfg), conf / "sweep" / "p.yaml")


def claimed(conf: Path, left: dict[str, Any], relation: str = ">") -> Table:
    """The table `t` of paper `p` with one claim."""
    claim = {"id": "c", "text": "x", "section": "1", "left": left, "relation": relation, "right": 0}
    rows = [{"label": "r", "experiment": "p/run"}]
    table = {"title": "T", "kind": "curves", "sweep": "p", "rows": rows}
    about = {"title": "P", "where": "W", "window": 1, "tables": {"t": table | {"claims": [claim]}}}
    OmegaConf.save(OmegaConf.create(about), conf / "paper" / "p.yaml")
    return checked(Places(conf, conf, ROOT / "docs/metrics.md"), "p", "t", "small")


GOOD = {"experiment": "p/run", "metric": "objective/kl/agent_0", "at": "final"}


@pytest.mark.parametrize(
    ("change", "relation", "message"),
    [
        ({"metric": "objective/kll/agent_0"}, ">",
         "p t: claim c: docs/metrics.md does not define objective/kll/agent_0"),
        ({"metric": "objective/kl/agent"}, ">",
         "p t: claim c: docs/metrics.md does not define objective/kl/agent"),
        ({"metric": "eval/pass_at_x/agent_0"}, ">",
         "p t: claim c: docs/metrics.md does not define eval/pass_at_x/agent_0"),
        ({"metric": "ppo/loss/policy/agent_0"}, ">",
         "p t: claim c: the archive does not keep ppo/loss/policy/agent_0"),
        ({"experiment": "p/other"}, ">", "p t: experiment=p/other does not exist"),
        ({"at": "end"}, ">", "p t: claim c: at=end is unknown; use one of final"),
        ({}, "=", "p t: claim c: relation must be one of >, <, ~, dominates"),
    ],
)  # fmt: skip
def test_a_claim_over_what_does_not_exist_is_refused(
    small_conf: Path, change: dict[str, str], relation: str, message: str
) -> None:
    assert claimed(small_conf, GOOD).claims
    assert claimed(small_conf, GOOD | {"metric": "eval/pass_at_16_low/team"}).claims
    with pytest.raises(ValueError) as error:
        claimed(small_conf, GOOD | change, relation)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"experiment": "p/run,p/nope", "seed": "0"},
         "p t: sweep=p runs p/run, p/nope; conf/paper/p.yaml shows p/run"),
        ({"seed": "0"}, "p t: sweep=p has no hydra.sweeper.params.experiment"),
    ],
)  # fmt: skip
def test_a_sweep_that_runs_something_else_is_refused(
    small_conf: Path, params: dict[str, str], message: str
) -> None:
    write_sweep(small_conf, **params)
    with pytest.raises(ValueError) as error:
        claimed(small_conf, GOOD)
    assert str(error.value) == message


def test_templates_are_filled_in() -> None:
    table = load_table(CONF, "cory", "fig2", "paper")
    assert [claim["id"] for claim in table.claims] == [
        "frontier_llm1", "frontier_llm2", "every_eta_llm1", "every_eta_llm2",
    ]  # fmt: skip
    parts = table.claims[3]["parts"]
    assert len(parts) == 8 and parts[0]["name"] == "task reward at 1e-5"
    assert parts[1]["left"] == {
        "experiment": "cory/gsm8k_cory_eta1e-5", "metric": "objective/kl/agent_1", "at": "final",
    }  # fmt: skip
    assert "{" not in str(parts).replace("{'", "")


def run_script(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_script_writes_page_and_figure(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    script = ("scripts/table.py", "cory", "fig3", "--scale", "small")
    options = ("--outputs", str(tmp_path / "outputs"), "--docs", str(tmp_path / "docs"))
    done = run_script(*script, *options)
    assert done.returncode == 0, done.stderr
    assert "gathered cory/imdb_ppo/seed0" in done.stdout
    written = tmp_path / "docs/cory/fig3_small"
    assert written.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "](fig3_small.png)" in written.with_suffix(".md").read_text()
    refused = run_script("scripts/table.py", "cory", "fig6", *options)
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: there is no run of cory fig6 at scale paper")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("spag", "t1"), "spag is not a paper; choose one of cory"),
        (("cory", "fig99"), "cory has no fig99; choose one of fig2, fig3, "),
        (("cory", "fig3", "--scale", "huge"), "--scale huge: there is no conf/scale/huge.yaml"),
    ],
)
def test_what_does_not_exist_is_refused_in_one_line(words: tuple[str, ...], message: str) -> None:
    done = run_script("scripts/table.py", *words)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"error: {message}")


def test_the_cost_of_what_does_not_exist_is_refused_in_one_line() -> None:
    done = run_script("scripts/cost.py", "cory", "fig99")
    assert done.returncode == 1
    assert done.stderr.startswith("error: cory has no fig99") and done.stderr.count("\n") == 1
