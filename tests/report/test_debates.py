"""Pages about debates and verifiers, from made-up runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cory.report.figures.debates import draw_alone as alone_figure
from cory.report.kinds import draw
from cory.report.pages.overview import Shown, report
from cory.report.pages.write import checked, write_page
from cory.report.records import archive
from cory.report.records.collect import collect
from cory.report.tables import second_hand
from tests.support.made_up_debates import debate, one_table, page_of, three_seeds, verified
from tests.support.made_up_runs import WriteRun, run_writer
from tests.support.reporting import composed, row

ONE, OTHER, THIRD = "cory/gsm8k_ppo", "cory/gsm8k_cory", "cory/gsm8k_ppo_double"


def rows_of(*labels: str, **more: Any) -> list[dict[str, Any]]:
    names = (ONE, OTHER, THIRD)
    return [
        {"label": label, "experiment": name, **more}
        for label, name in zip(labels, names, strict=False)
    ]


def claim(left: str, metric: str, relation: str, right: str) -> dict[str, Any]:
    return {
        "id": "c",
        "text": "a claim",
        "section": "1",
        "left": {"experiment": left, "metric": metric, "at": "last"},
        "relation": relation,
        "right": {"experiment": right, "metric": metric, "at": "last"},
    }


@pytest.mark.slow
def test_votes_stand_turn_by_turn(write_run: WriteRun, tmp_path: Path) -> None:
    rows = rows_of("off", "trained")
    rows[0] |= {"panel": "GSM8K", "panel_small": "sums", "second_hand": {"turn_3": 0.639}}
    rows[1] |= {"panel": "ANLI", "label_small": "tiny"}
    asked = claim(OTHER, "eval/vote/turn_3", ">", ONE)
    entry = {"kind": "turns", "panels": "task", "rows": rows, "claims": [asked]}
    places = one_table(tmp_path, entry)
    three_seeds(write_run, ONE, (0.5, 0.4, 0.3))
    for seed in range(2):
        write_run(OTHER, seed, debate((0.5, 0.6, 0.7), seed))
    text = page_of(places, tmp_path / "outputs")
    cells = row(text, "sums")
    assert cells[1] == "off" and cells[-1] == "3" and cells[2].startswith("50.")
    assert cells[4].startswith("30.") and cells[5].startswith("28.")
    assert row(text, "ANLI")[1] == "tiny" and row(text, "ANLI")[-1].startswith("2; not run (1 of")
    assert row(text, "a claim")[-1] == "not run (1 of 3 seeds)"
    assert "second-hand" not in text.lower()  # such numbers stand beside the paper's scale only
    table = checked(places, "p", "t", "small")
    figure = draw(table, collect(table, archive.read(places.records("p", "small")), []))
    assert figure is not None
    assert [axes.get_title() for axes in figure.axes] == ["sums", "ANLI"]
    assert figure.get_suptitle().splitlines()[0] == "T"
    (notes,) = [text.get_text() for text in figure.texts if text.get_text().startswith("Small")]
    assert notes.startswith("Small scale, not the paper's models and data.\nn = 2 to 3 seeds; ")
    assert "Points: means over seeds. Upright bars: one standard deviation." in notes
    assert "Stars: the paper's, known second-hand" in notes
    (first,), (second,) = (axes.containers for axes in figure.axes)
    line = first.lines[0]
    assert first.get_label() == "off"
    assert list(line.get_xdata()) == pytest.approx([1, 2, 3], abs=0.05)
    assert line.get_color() != second.lines[0].get_color()


@pytest.mark.slow
def test_second_hand_numbers_stand_apart(tmp_path: Path) -> None:
    rows = rows_of("off", "trained")
    rows[0]["second_hand"] = {"turn_1": 0.677, "turn_3": 0.64}
    entry = {"kind": "turns", "rows": rows, "claims": [claim(OTHER, "eval/vote/turn_3", ">", ONE)]}
    places = one_table(tmp_path, entry)
    table = checked(places, "p", "t", "paper")
    nothing = report({"t": {"paper": write_page(table, places, composed)[0]}}, composed)
    assert row(nothing, "off")[1:] == ["turn 1: 67.7 %, turn 3: 64.0 %"]
    assert nothing.count(second_hand.MEANING) == 1
    three_seeds(run_writer(tmp_path / "outputs", "paper"), ONE, (0.5, 0.4, 0.3))
    text = page_of(places, tmp_path / "outputs", "paper")
    assert text.count(second_hand.MEANING) == 1
    assert row(text, "method")[-2] == second_hand.HEAD
    assert row(text, "off")[-2] == "turn 1: 67.7 %, turn 3: 64.0 %"
    assert row(text, "trained")[-2] == "-"
    with pytest.raises(ValueError, match="turn3 is neither turn_<t> nor change_<n>"):
        second_hand.second_hand_text({"experiment": "x", "second_hand": {"turn3": 0.5}})


@pytest.mark.slow
def test_flows_and_rates(write_run: WriteRun, tmp_path: Path) -> None:
    entry = {"kind": "transitions", "rows": rows_of("off", "trained")}
    places = one_table(tmp_path, entry)
    three_seeds(write_run, ONE, (0.5, 0.5, 0.5), rates=(0.1, None, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8))
    text = page_of(places, tmp_path / "outputs")
    flows = [line for line in text.splitlines() if line.startswith("| off | ")]
    assert [line.split(" | ")[1] for line in flows[:3]] == ["1 → 2", "2 → 3", "all"]
    assert [cell[:2] for cell in flows[2].split(" | ")[2:6]] == ["50", "10", "5.", "35"]
    revised, influenced = flows[3:]
    # in the order of the heading: wr_w, wr_r, rw_w, rw_r
    assert [cell.split(".")[0] for cell in revised.strip("| ").split(" | ")[1:]] == [
        "10", "-", "40", "30",
    ]  # fmt: skip
    assert [cell.split(".")[0] for cell in influenced.strip("| ").split(" | ")[1:]] == [
        "50", "60", "80", "70",
    ]  # fmt: skip
    table = checked(places, "p", "t", "small")
    figure = draw(table, collect(table, archive.read(places.records("p", "small")), []))
    assert figure is not None
    steps = figure.axes
    assert [axes.get_title() for axes in steps] == ["turn 1 to 2", "turn 2 to 3"]
    widths = [bar.get_width() for bar in steps[0].patches]
    assert len(widths) == 4 and sum(widths) == pytest.approx(1)
    begins = [bar.get_x() for bar in steps[0].patches]
    assert begins == pytest.approx([sum(widths[:place]) for place in range(4)])


@pytest.mark.slow
def test_an_incentive_stands_against_the_run_without(write_run: WriteRun, tmp_path: Path) -> None:
    rows = rows_of("none", "alpha_1 = 2")
    rows[1] |= {"incentive": "alpha1", "second_hand": {"change_1": 0.095}}
    asked = claim(OTHER, "eval/revision_wr_r/team", ">", ONE)
    rows[0]["experiment"] = asked["right"]["experiment"] = "{without}"
    entry = {
        "kind": "transitions",
        "by_scale": {"without": {"paper": OTHER, "small": ONE}},
        "against": "{without}",
        "rows": rows,
        "claims": [asked],
    }
    places = one_table(tmp_path, entry)
    three_seeds(write_run, ONE, (0.5, 0.5), rates=(0.1,) * 8)
    three_seeds(write_run, OTHER, (0.5, 0.5), rates=(0.1, 0.3, 0.05, 0.1, 0.1, 0.1, 0.1, 0.1))
    text = page_of(places, tmp_path / "outputs")
    changes = text.split("### What each incentive changed")[1].split("\n## ")[0]
    gained, lost = [x for x in changes.splitlines() if x.startswith("| alpha_1 = 2")]
    assert [cell.split(".")[0] for cell in gained.split(" | ")[2:4]] in (["10", "30"], ["9", "29"])
    assert "wrong → right, others right (+alpha1)" in gained and "+20.0 ± 0.0 points" in gained
    assert "right → wrong, others right (-alpha1)" in lost and "-5.0 ± 0.0 points" in lost
    # equal for all seeds, and no error is stored: nothing says how sure it is
    assert row(text, "a claim")[-3:] == ["3", "-", "undecided"]
    assert row(text, "a claim")[4] == "0.200 [no interval], claim: > 0"
    table = checked(places, "p", "t", "small")
    figure = draw(table, collect(table, archive.read(places.records("p", "small")), []))
    assert figure is not None
    assert figure.axes[0].get_title() == "all turns"
    bars = [bar.get_width() for bar in figure.axes[1].patches]
    assert bars == pytest.approx([0.2, -0.05])


@pytest.mark.slow
def test_a_claim_about_what_never_occurred_leaves_the_page_standing(
    write_run: WriteRun, tmp_path: Path
) -> None:
    asked = claim(OTHER, "eval/revision_wr_r/team", ">", ONE)
    entry = {"kind": "transitions", "rows": rows_of("off", "trained"), "claims": [asked]}
    places = one_table(tmp_path, entry)
    three_seeds(write_run, ONE, (0.5, 0.5))
    three_seeds(write_run, OTHER, (0.5, 0.5), rates=(0.1, None, *[0.1] * 6))
    text = page_of(places, tmp_path / "outputs")
    why = f"{OTHER} has no eval/revision_wr_r/team"
    assert row(text, "a claim")[-1] == f"undecided (3 of 3 seeds: {why})"
    table = checked(places, "p", "t", "small")
    found = collect(table, archive.read(places.records("p", "small")), [])
    overview = report({"t": {"small": Shown(table, found, None)}}, composed)
    assert "undecided (3 of 3 seeds" in overview


@pytest.mark.slow
def test_policies_alone_stand_beside_their_team(write_run: WriteRun, tmp_path: Path) -> None:
    rows = rows_of("off", "pair")
    rows[0]["printed"] = "about 60.9 %"
    places = one_table(tmp_path, {"kind": "alone", "rows": rows})
    pair = ("agent_0_turn_2", "agent_1_turn_2", "agent_0_turn_10")
    three_seeds(write_run, ONE, (0.5, 0.4, 0.3), alone=0.6)
    three_seeds(write_run, OTHER, (0.5, 0.6, 0.7), policies=pair)
    text = page_of(places, tmp_path / "outputs")
    lines = [x.split(" | ") for x in text.splitlines() if x.startswith(("| off", "| pair"))]
    assert [cells[1] for cells in lines] == [
        "turn 2", "turn 3", "agent 0, turn 2", "agent 0, turn 10", "agent 1, turn 2",
    ]  # fmt: skip
    assert lines[0][2] == "60.0 ± 0.0 %" and lines[0][4].startswith("50.")
    assert lines[0][5].startswith("30.") and "60.9" not in text
    table = checked(places, "p", "t", "small")
    figure = alone_figure(table, collect(table, archive.read(places.records("p", "small")), []))
    ticks = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert ticks[-2:] == ["team,\nfirst turn", "team,\nlast turn"]
    assert len(figure.axes[0].patches) == 5 + 4


@pytest.mark.slow
def test_verifiers(write_run: WriteRun, tmp_path: Path) -> None:
    rows = rows_of("balanced", "as sampled", panel="GSM8K")
    places = one_table(tmp_path, {"kind": "verifier", "panels": "task", "rows": rows})
    for seed in range(3):
        write_run(ONE, seed, verified(0.7, 0.6, 0.55))
    text = page_of(places, tmp_path / "outputs")
    assert row(text, "GSM8K | balanced")[2:] == [
        f"{share}.0 ± 0.0 %" for share in (70, 60, 80, 70, 55)
    ] + ["3"]  # fmt: skip
    assert row(text, "GSM8K | as sampled")[2:7] == ["-"] * 5


@pytest.mark.slow
def test_what_others_need_is_kept(write_run: WriteRun, tmp_path: Path) -> None:
    entry = {"kind": "turns", "needs": [OTHER], "rows": rows_of("off")}
    places = one_table(tmp_path, entry)
    three_seeds(write_run, ONE, (0.5, 0.4))
    write_run(OTHER, 0, verified(0.7, 0.6, 0.55))
    text = page_of(places, tmp_path / "outputs")
    kept = [run.name for run in archive.read(places.records("p", "small"))]
    assert f"{OTHER}/seed0" in kept and OTHER not in text


def test_short_runs_count_where_only_the_last_evaluation_does(
    write_run: WriteRun, tmp_path: Path
) -> None:
    places = one_table(tmp_path, {"kind": "turns", "rows": rows_of("off")})
    lines = [{"iteration": 0}, *debate((0.5, 0.4), 0)]
    lines[1]["iteration"] = 1
    write_run(ONE, 0, lines)
    table_path = places.conf / "paper/p.yaml"
    table_path.write_text(table_path.read_text().replace("window: 1\n", "window: 10\n"))
    assert row(page_of(places, tmp_path / "outputs"), "off")[-1].startswith("1; not run")
