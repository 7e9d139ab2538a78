"""Pages about multiagent fine-tuning: printed numbers, rows left out, iterations, skills."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from cory.report.claims.measures import Absent, measure
from cory.report.kinds import draw
from cory.report.pages.overview import Shown, index, report
from cory.report.pages.page import page
from cory.report.pages.write import Places, checked, gather_tables, write_page
from cory.report.paper import Table, load_paper
from cory.report.records import archive
from cory.report.records.collect import collect
from cory.report.tables import accuracies, skills
from tests.support.made_up_debates import one_table, page_of
from tests.support.made_up_runs import WriteRun, run_writer
from tests.support.made_up_teams import METRICS, evaluated, fine_tuned, maft_places, untrained
from tests.support.reporting import CONF, composed, row

TABLES = load_paper(CONF, "maft")["tables"]
ACCURACIES = [name for name, entry in TABLES.items() if entry["kind"] == "accuracy"]
TRAINED, BASE = "cory/gsm8k_cory", "cory/gsm8k_ppo"  # stand for runs of this paper


@pytest.mark.parametrize("name", [name for name in ACCURACIES if name.startswith("tab")])
def test_standard_errors_that_are_wrong_in_print_are_marked(tmp_path: Path, name: str) -> None:
    table = checked(maft_places(tmp_path), "maft", name, "paper")
    cells = [one for one in table.rows if one["printed"]]
    assert cells
    for cell in cells:
        accuracy, error, *marks = cell["printed"]
        problems = cell.get("problems", {}).get(cell["column"], table.entry["problems"])
        right = 100 * math.sqrt(accuracy * (100 - accuracy) / problems) / 100
        assert marks == ["wrong"] * (abs(error - right) > 0.01), cell
        assert accuracies.binomial_error(accuracy, problems) == pytest.approx(right)


def test_the_marks_that_are_known() -> None:
    lines = {(r.get("panel"), r["label"]): r["printed"] for r in TABLES["tab1"]["rows"]}
    assert lines["Phi-3", "Base"]["arithmetic"] == [88.3, 1.09, "wrong"]  # corrected later: 1.44
    assert lines["LLaMA-3", "Ours"]["gsm"] == [88.6, 1.77, "wrong"]
    assert lines["Phi-3", "Ours"]["gsm"] == [88.6, 1.42]
    assert lines["GPT-3.5", "Ours"]["gsm"] == [85.6, 1.11]  # of 1,000 problems
    again = next(r for r in TABLES["tab2"]["rows"] if r["panel"] == "GPT-3.5")["printed"]
    assert again["gsm"] == [85.6, 1.67, "wrong"]  # the same, of 500


def test_an_accuracy_that_no_number_of_problems_gives_is_marked() -> None:
    assert accuracies.possible(88.6, 500) and accuracies.possible(83.3, 1000)
    assert not accuracies.possible(88.3, 500) and not accuracies.possible(81.99, 500)
    assert accuracies.possible(33.33, 3) and not accuracies.possible(33.3, 3)


def test_all_seven_tables_are_printed_in_full() -> None:
    numbers = {
        name: sum(len(own.get("printed", {})) for own in TABLES[name]["rows"])
        for name in ACCURACIES
    }
    tables = {"tab1": 69, "tab2": 60, "tab3": 6, "tab4": 24, "tab5": 5, "tab6": 4, "tab7": 5}
    assert numbers == tables | {"critics": 0, "fig5": 0, "fig11": 0, "fig12": 0}


def small_runs(write: WriteRun) -> None:
    for seed in range(5):
        write("maft/phi3_arithmetic_base", seed, untrained(0.5, 0.55, 0.6, seed))
        write("maft/phi3_arithmetic_maft", seed, fine_tuned([0.7], seed), iterations=1)


def shown_at(places: Places, outputs: Path, scale: str) -> Shown:
    table = checked(places, "maft", "tab1", scale)
    gather_tables([table], places, outputs, False)
    return write_page(table, places, composed)[0]


@pytest.mark.slow
def test_a_scale_shows_the_rows_that_it_runs(write_run: WriteRun, tmp_path: Path) -> None:
    small_runs(write_run)
    places = maft_places(tmp_path)
    both = {scale: shown_at(places, tmp_path / "outputs", scale) for scale in ("paper", "small")}
    small = both["small"].table
    assert small.partial and small.sweep == "maft/tab1_small" and len(small.rows) == 6
    text = (tmp_path / "docs/maft/tab1_small.md").read_text()
    results = text.split("## Results")[1].split("## Claims")[0]
    rows = [line for line in results.splitlines() if line.startswith("| tiny_steps")]
    assert len(rows) == 6 and rows[0].split(" | ")[1] == "Base"
    assert row(text, "tiny_steps, for Phi-3 | Ours")[2] == "70.2 ± 0.3 % (SE 2.0)"
    assert row(text, "tiny_steps, for Phi-3 | Majority FT")[3] == (
        "0; not run (5 of 5 seeds): 0, 1, 2, 3, 4"
    )
    assert "Left out at this scale: GPT-3.5; tiny_steps, for Phi-3: GSM, MATH; Mistral;" in text
    assert "not supported" not in results and "GPT-3.5" not in text.split("## Claims")[1]
    claims = text.split("## Claims")[1].split("## Changes")[0]
    pseudo = row(claims, "Our question, not the paper's: Phi-3, Arithmetic: are the pseudo")
    assert pseudo[-3:] == ["5", "-", "undecided"]  # the same in every seed, and no error stored
    assert claims.count("\n| ") - 2 == 7 and "60 more statements are about rows" in claims
    everything = {"maft": {"tab1": both}}
    glance = index(everything, composed)
    assert row(glance, "[MAFT](maft.md) |")[1:] == ["1", "0", "1", "0", "0 (and 1 in part)"]
    title = f"[{small.entry['title']}"
    claimed, asked = (x for x in glance.splitlines() if x.startswith(f"| {title}"))
    assert claimed.endswith(
        "(maft/tab1_small.md) | small scale | 10 runs, 15 min | yes | - | - | - | - | 31 |"
    )
    assert asked.endswith("(maft/tab1_small.md) | small scale | - | yes | 1 | - | 1 | - | 34 |")
    assert "| [MAFT](maft.md), small scale | 0 + 1 | 0 + 0 | 0 + 1 |" in glance
    overview = report(everything["maft"], composed)
    printed = overview.split("### At small scale")[0]
    assert row(printed, "GPT-3.5 | STaR")[-1] == "not supported: closed model"
    assert row(printed, "Phi-3 | Base")[2:] == [
        "88.30 ± 1.09 († 1.44) ‡", "81.20 ± 1.74", "45.60 ± 2.10 († 2.23)", "not run",
    ]  # fmt: skip


@pytest.mark.slow
def test_closed_models_are_not_supported_rather_than_not_run(tmp_path: Path) -> None:
    small_runs(run_writer(tmp_path / "outputs", "paper"))
    shown = shown_at(maft_places(tmp_path), tmp_path / "outputs", "paper")
    text = (tmp_path / "docs/maft/tab1.md").read_text()
    cells = row(text, "GPT-3.5 | Majority FT")
    assert cells[2::2][:3] == ["not supported: closed model"] * 3 and cells[-1] == "-"
    assert row(text, "Phi-3 | Debate")[3] == "96.20 ± 0.61 († 0.86)"
    assert (
        "not run" in row(text, "Phi-3 | Debate")[-1]
        and "(SE 2.2)" in row(text, "Phi-3 | Debate")[2]
    )
    assert row(text, "GPT-3.5: multiagent fine-tuning outperforms")[-1] == (
        "not run (not supported: closed model)"
    )
    figure = draw(shown.table, shown.found)
    assert figure is not None and [axes.get_title() for axes in figure.axes] == [
        "Phi-3, Arithmetic"
    ]
    ticks = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    stars = [line for line in figure.axes[0].get_lines() if line.get_marker() == "*"]
    printed = dict(zip(ticks, [float(line.get_xdata()[0]) for line in stars], strict=True))
    assert (printed["Base"], printed["Ours"]) == pytest.approx((0.883, 0.994))


def test_every_fine_tuning_of_a_closed_model_is_said_to_be_unsupported() -> None:
    for name in ACCURACIES:
        for own in TABLES[name]["rows"]:
            if own.get("panel") == "GPT-3.5":
                runs = own["label"] in ("Base", "Majority", "Debate", "Cooperative (Base)")
                assert ("experiment" in own) == runs, own
                assert runs or own["unsupported"] == "closed model"


ITERATED = {
    "kind": "iterations",
    "axis": {"name": "accuracy", "share": True},
    "rows": [
        {"label": "several", "experiment": TRAINED, "metric": "eval/vote/turn_2",
         "printed": {1: 58.8, 5: 66.0}},
        {"label": "one", "experiment": BASE, "metric": "eval/single/turn_1"},
    ],
}  # fmt: skip


def iterated(write: WriteRun, tmp_path: Path, entry: dict[str, Any], scale: str) -> Table:
    for seed in range(3):
        lines = fine_tuned([0.5, 0.6, 0.7], seed, [0.3, 0.2, 0.1 + seed / 100])
        write(TRAINED, seed, lines, iterations=3)
        write(BASE, seed, [{"iteration": 0} | evaluated(0.4, 0.45, 0.5, seed)])
    places = one_table(tmp_path, entry, METRICS)
    return checked(places, "p", "t", scale)


@pytest.mark.slow
def test_curves_count_iterations_that_are_done(tmp_path: Path) -> None:
    table = iterated(run_writer(tmp_path / "outputs", "paper"), tmp_path, ITERATED, "paper")
    places = Places(table.conf, tmp_path / "docs", tmp_path / "metrics.md")
    text = page_of(places, tmp_path / "outputs", "paper")
    head = ["method", *[f"iteration {n}" for n in range(4)], "printed", "seeds"]
    assert row(text, "method") == head  # 0: evaluated without fine-tuning
    cells = row(text, "several")
    assert cells[1] == "-" and [cell[:2] for cell in cells[2:5]] == ["50", "60", "70"]
    assert cells[5] == "iteration 1: 58.8 %, iteration 5: 66.0 %"
    assert row(text, "one")[1].startswith("40.0 ") and row(text, "one")[2:5] == ["-"] * 3
    found = collect(table, archive.read(places.records("p", "paper")), [])
    figure = draw(table, found)
    assert figure is not None
    several, one = (drawn.lines[0] for drawn in figure.axes[0].containers)
    assert list(several.get_xdata()) == pytest.approx([1, 2, 3], abs=0.02)
    assert list(one.get_xdata()) == pytest.approx([0], abs=0.02)
    (stars,) = [line for line in figure.axes[0].get_lines() if line.get_marker() == "*"]
    assert (list(stars.get_xdata()), list(stars.get_ydata())) == ([1, 5], [0.588, 0.66])
    assert several.get_ydata()[0] == pytest.approx(0.5)


@pytest.mark.slow
def test_points_of_a_scatter_are_iterations(write_run: WriteRun, tmp_path: Path) -> None:
    entry = ITERATED | {"kind": "scatter", "across": "dissimilarity"}
    entry["rows"] = [{**ITERATED["rows"][0], "across": "eval/dissimilarity/turn_2"}]  # type: ignore
    table = iterated(write_run, tmp_path, entry, "small")
    places = Places(table.conf, tmp_path / "docs", tmp_path / "metrics.md")
    text = page_of(places, tmp_path / "outputs")
    lines = [line for line in text.splitlines() if line.startswith("| several")]
    assert [line.split(" | ")[1] for line in lines] == ["1", "2", "3"]
    assert lines[2].split(" | ")[2] == "0.110 ± 0.010"
    assert lines[0].split(" | ")[4].startswith("-1.00")
    figure = draw(table, collect(table, archive.read(places.records("p", "small")), []))
    assert figure is not None
    (points,) = figure.axes[0].get_lines()
    assert list(points.get_xdata()) == pytest.approx([0.3, 0.2, 0.11])
    assert [text.get_text() for text in figure.axes[0].texts] == ["1", "2", "3"]


def test_measures_over_iterations() -> None:
    lines = [{"iteration": i, "a": a, "b": b} for i, (a, b) in enumerate(((1, 4), (2, 2), (4, 1)))]
    assert measure(lines, "a", "iteration_2", 1) == 2
    with pytest.raises(Absent):
        measure(lines, "a", "iteration_4", 1)
    # deviations (-4/3, -1/3, 5/3) and (5/3, -1/3, -4/3): -39/9 over 42/9
    assert measure(lines, "a", "correlation", 1, "b") == pytest.approx(-13 / 14)
    with pytest.raises(Absent, match="all the same"):
        measure([line | {"b": 1} for line in lines], "a", "correlation", 1, "b")
    with pytest.raises(ValueError, match="at=iteration is unknown"):
        measure(lines, "a", "iteration", 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": None}, "off has an experiment and a metric, or neither"),
        ({"unsupported": "x"}, "off has an experiment, or why there is none"),
    ],
)
def test_a_row_of_accuracies_that_contradicts_itself_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    own = {"label": "off", "experiment": BASE, "metric": "eval/vote/turn_1"} | change
    rows = [{key: value for key, value in own.items() if value is not None}]
    entry = {"kind": "accuracy", "columns": {"x": "X"}, "problems": 500, "rows": rows}
    with pytest.raises(ValueError, match=f"p t: {message}"):
        checked(one_table(tmp_path, entry, METRICS), "p", "t", "small")


def test_the_sweep_of_a_scale_runs_what_the_table_has(tmp_path: Path) -> None:
    side = {"metric": "eval/vote/turn_2", "at": "last"}
    about = {"id": "c", "text": "x", "section": "1", "left": {**side, "experiment": TRAINED}}
    asked = {**about, "relation": ">", "right": {**side, "experiment": BASE}}
    places = one_table(tmp_path, ITERATED | {"claims": [asked]}, METRICS)
    sweep = places.conf / "sweep/p_small.yaml"
    for experiments, message in ((TRAINED, ""), (f"{TRAINED},p/other", "sweep=p_small runs")):
        params = {"experiment": experiments, "seed": "0"}
        OmegaConf.save({"hydra": {"sweeper": {"params": params}}}, sweep)
        if message:
            with pytest.raises(ValueError, match=message):
                checked(places, "p", "t", "small")
            continue
        table = checked(places, "p", "t", "small")
        assert (table.to_run, table.shown, table.seeds) == ([TRAINED], [TRAINED], [0])
        whole = checked(places, "p", "t", "paper")
        assert len(whole.rows) == 2 and whole.shown == [TRAINED, BASE]


RULES = {"models": 2, "topics": 3, "questions": 100, "iterations": 40, "seed": 1, "teams": 20}


def test_the_skill_model_is_computed() -> None:
    found = {name: lines[-1] for name, lines in skills.skills_records(RULES).items()}
    assert found.keys() == {"largest_skill", "falls", "equation_3", "teams"}
    assert found["falls"]["disagreements"] == found["equation_3"]["disagreements"] == 0
    assert found["largest_skill"]["least_largest"] > 0.99
    teams = found["teams"]
    assert teams["all_different"] + teams["all_the_same"] == pytest.approx(1)  # of two models
    with pytest.raises(ValueError, match="skills: needs iterations, models"):
        skills.skills_records({})


@pytest.mark.slow
def test_the_page_of_the_skill_model(tmp_path: Path) -> None:
    table = checked(maft_places(tmp_path), "maft", "appG", "small")
    found = collect(table, [], [])
    text = page(table, found, "appG.png", composed)
    assert row(text, "Eq. 3")[-1] == "holds" and row(text, "... which ensures")[-1] == (
        "contradicted"
    )
    assert row(text, "model 1")[2] in "ABC"
    figure = draw(table, found)
    assert figure is not None and len(figure.axes) == 3
