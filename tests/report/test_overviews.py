"""The pages that show all tables at a glance, README's block, and the committed ones."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from cory.report.pages.overview import index, report
from cory.report.pages.readme import readme_block
from cory.report.pages.shown import Shown
from cory.report.pages.write import checked, gather_tables, with_block, write_page
from tests.support.made_up_runs import WriteRun, lines_of, run_writer
from tests.support.reporting import ROOT, composed, places_in, row, run_script, write_all


def shown_at_both_scales(tmp_path: Path, names: tuple[str, ...]) -> dict[str, dict[str, Shown]]:
    places, found = places_in(tmp_path), {}
    for name in names:
        for scale in ("paper", "small"):
            table = checked(places, "cory", name, scale)
            if table.kind != "preset":
                gather_tables([table], places, tmp_path / "outputs", False)
            found.setdefault(name, {})[scale] = write_page(table, places, composed)[0]
    return found


@pytest.mark.slow
def test_overviews_keep_the_scales_apart(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    everything = shown_at_both_scales(tmp_path, ("fig3", "fig4", "fig6", "tab1"))
    text = report(everything, composed)
    fig3 = text.split("## Fig. 3")[1].split("\n## ")[0]
    own, small = fig3.split("### At small scale")
    assert "not run (`make reproduce-cory-fig3`)" in own and "±" not in own
    assert "CORY (tiny) LLM1" in small and "](cory/fig3_small.png)" in small
    assert row(small, "PPO's combined reward decreases")[-1] == "holds"
    glance = index({"cory": everything}, composed)
    at, work, *verdicts = row(glance, "[Fig. 3")[1:]
    assert (at, work) == ("small scale", "15 runs, 22 min")  # of 90 s each
    assert verdicts == ["yes", "11", "1", "-", "-", "-"]
    assert row(glance, "[Fig. 6")[2:] == ["5 runs, 8 min", "yes", "-", "-", "-", "-", "9"]
    assert (
        "- Table 1: hyper-parameters for IMDB: [42 of 42 settings as printed](cory/tab1.md)"
        in glance
    )
    assert "- **contradicted**: PPO with GPT-2 XL reaches its highest" in glance
    assert row(glance, "[CORY](cory.md), small scale")[1:] == [
        "11 + 0", "1 + 0", "0 + 0", "0 + 0", "21 + 0",
    ]  # fmt: skip
    block = readme_block({"cory": everything}, composed)
    beside = "[findings](docs/findings/cory.md); 42 of 42 compared settings have the printed value"
    assert f"**[CORY](docs/results/cory.md)** ({beside})" in block
    assert "<img" not in block  # the picture is one of a table that has no runs
    for seed in range(5):
        write_run("cory/imdb_ppo_k1", seed, lines_of(0.7, 1.0, 1, seed))
    more = everything | shown_at_both_scales(tmp_path, ("kl_estimator",))
    picture = '<img src="docs/results/cory/kl_estimator_small.png"'
    assert picture in readme_block({"cory": more}, composed)
    claim = "CORY (LLM1) and PPO achieve similar task reward"
    _, verdict, difference = row(block, f"Reviews: [{claim}](docs/results/cory/fig3_small.md)")
    assert verdict == "holds"
    values = r"1\.\d+ vs 1\.\d+ \(margin 0\.\d+\): "
    assert re.fullmatch(values + r"-?0\.\d+ \(-0\.\d+ to 0\.\d+\)", difference)
    assert "\n**Here CORY's pioneer is nowhere shown" in block
    assert " LLM1 starts as pioneer. " in " ".join(block.split())
    not_run = shown_at_both_scales(tmp_path, ("tab1", "credit_value_head"))
    block = readme_block({"cory": not_run}, composed)
    below = "With a head from 0, detached, does CORY's pioneer end with less task reward than PPO?"
    without_own_page = f"Word problems: [{below}](docs/results/cory.md)"
    assert row(block, without_own_page)[1:] == ["not run", "-"]


ASKED_AT_MEDIUM = (
    "... with less than half of it",
    "Does PPO end with less task reward with k1 than with the exact KL",
    "Does PPO repeat itself less with k1 than with the exact KL (distinct-2)",
)


@pytest.mark.slow
def test_a_scale_that_few_tables_have_is_shown_with_them_alone(
    write_run: WriteRun, tmp_path: Path
) -> None:
    write_all(write_run)
    everything = shown_at_both_scales(tmp_path, ("fig3", "kl_estimator"))
    assert "edium" not in report(everything, composed)
    write = run_writer(tmp_path / "outputs", "medium")
    for seed in range(3):
        write("cory/imdb_ppo", seed, lines_of(1.0, 60.0 + seed, 1, seed, 100))
        write("cory/imdb_ppo_k1", seed, lines_of(1.2 + seed / 100, 40.0 - seed, 1, seed, 100))
    places = places_in(tmp_path)
    table = checked(places, "cory", "kl_estimator", "medium")
    gather_tables([table], places, tmp_path / "outputs", False)
    shown, path = write_page(table, places, composed)
    assert path is not None and path.name == "kl_estimator_medium.md"
    page = path.read_text()
    claim = "Does PPO end with less KL with k1 than with the exact KL?"
    assert row(page, claim)[-1] == "yes" and "PPO, k1 (SmolLM2)" in page
    assert [row(page, f"{text}?")[-1] for text in ASKED_AT_MEDIUM] == ["no", "no", "yes"]
    assert "Left out at this scale" not in page
    assert "- `sharing: adapters`: copies in the paper" in page
    everything["kl_estimator"]["medium"] = shown
    page = "docs/results/cory/kl_estimator_medium.md"
    block = readme_block({"cory": everything}, composed)
    assert row(block, f"Reviews, SmolLM2-135M: [{claim}]({page})")[1] == "yes"
    text = report(everything, composed)
    assert "Medium-scale results come from a pretrained model" in text
    fig3, own = text.split("## Fig. 3")[1].split("\n## ")[:2]
    assert "### At medium scale" not in fig3
    assert row(own.split("### At medium scale")[1], claim)[-1] == "yes"
    glance = index({"cory": everything}, composed)
    assert "run at paper scale | run at small scale | run at medium scale" in glance
    assert row(glance, "[CORY](cory.md) |")[-2:] == ["1 (and 1 in part)", "0 (and 1 in part)"]
    assert row(glance, "[CORY](cory.md), medium scale")[1:4] == ["0 + 2", "0 + 2", "0 + 0"]


def test_readme_keeps_what_stands_around_its_block(tmp_path: Path) -> None:
    everything = {"cory": shown_at_both_scales(tmp_path, ("tab1",))}
    text = with_block(
        "before\n" + readme_block(everything, composed) + "\nafter", everything, composed
    )
    assert text == with_block(text, everything, composed)
    assert text.startswith("before\n") and text.endswith("\nafter")
    with pytest.raises(ValueError, match=r"README\.md holds no lines"):
        with_block("nothing", everything, composed)


@pytest.mark.slow
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
