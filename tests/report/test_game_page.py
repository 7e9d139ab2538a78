"""The toy game's table: computed figure, page and claims, and what is refused."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cory.functional.collaboration_game import disagreements
from cory.report.checks import check_claims, load_table
from cory.report.figures.toys import collaboration_figure
from cory.report.pages.overview import index, report
from cory.report.pages.shown import Shown
from cory.report.pages.verdicts import counts, verdicts
from cory.report.pages.write import checked, write_page
from cory.report.paper import Table
from cory.report.records.collect import CountedRuns
from cory.report.tables.game import GAME_METRICS, game_records, played
from tests.support.composing import CONF
from tests.support.reporting import composed, places_in, row, run_script


@cache
def table() -> Table:
    return load_table(CONF, "maporl", "toy_fig5", "paper")


def rules() -> dict[str, Any]:
    found: dict[str, Any] = deepcopy(table().entry["game"])
    return found


def with_game(**changes: Any) -> Table:
    """The table with other rules or, where a value is None, without a key."""
    about = deepcopy(table().about)
    game = about["tables"]["toy_fig5"]["game"] | changes
    about["tables"]["toy_fig5"]["game"] = {k: v for k, v in game.items() if v is not None}
    return replace(table(), about=about)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shown, Path]:
    found, path = write_page(table(), places_in(tmp_path_factory.mktemp("game")), composed)
    assert path is not None
    return found, path


@pytest.mark.slow
def test_the_rules_are_what_the_paper_prints() -> None:
    game = rules()
    assert list(game["thresholds"]) == [10, 20] and game["fixed"] == [0.5, 0.6, 0.7]
    assert (game["r_syn"], game["tau"]) == (1, 0.1)
    assert game["r_col"] < game["r_ind"] < game["r_syn"]


@pytest.mark.slow
def test_the_page_has_figure_numbers_rules_and_claims(shown: tuple[Shown, Path]) -> None:
    _, path = shown
    text = path.read_text()
    assert path.name == "toy_fig5.md" and "](toy_fig5.png)" in text
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    ten, twenty = played(rules())
    numbers = ten.together
    cells = [f"{p:.3f}" for p in (numbers[0], numbers[4], numbers[9], sum(numbers) / 10)]
    assert row(text, "10 | trained together")[2:] == cells
    assert row(text, "10 | opponent fixed at 0.5")[3] == f"{ten.fixed[0.5][4]:.3f}"
    assert row(text, "20 | opponent fixed at 0.7")[2] == f"{twenty.fixed[0.7][0]:.3f}"
    assert (
        row(text, "R_col, for")[1:] == ["0.3", "ours"] and row(text, "R_syn, for")[2] == "printed"
    )
    first = row(text, "With 10 turns they do so already at the first turn")
    assert first[-2:] == ["3 of 3 comparisons", "holds"]
    assert row(text, "Observation 1")[1:] == ["1080", "0"]
    assert row(text, "Observation 2, equilibrium with most")[1:] == ["120", "0"]
    assert row(text, "Our question, not the paper's: Does observation 2")[-2:] == [
        "16.0 vs 0",
        "no",
    ]
    beyond = [line for line in text.splitlines() if "**no**" in line]
    assert len(beyond) == 4
    assert row(text, "Our question, not the paper's: Do agents")[-2:] == ["4.00 vs 0", "no"]
    for word in ("seed 0", "of 1 seeds", "not run"):
        assert word not in text


@pytest.mark.slow
def test_overviews_count_its_claims_once(shown: tuple[Shown, Path]) -> None:
    found, _ = shown
    everything = {"toy_fig5": {"paper": found, "small": found}}
    assert counts(found.judged) == {"holds": 8}
    assert counts(found.judged, questions=True) == {"contradicted": 2}
    glance = index({"maporl": everything}, composed)
    title = f"[{found.table.entry['title']}"
    paper, ours = (line for line in glance.splitlines() if line.startswith(f"| {title}"))
    assert paper.endswith("(maporl/toy_fig5.md) | computed | - | - | 8 | - | - | - | - |")
    assert ours.endswith("(maporl/toy_fig5.md) | computed | - | - | - | 2 | - | - | - |")
    assert glance.count("](maporl/toy_fig5.png)") == 1 and "**not run**" not in glance
    assert "**computed** ([details](maporl/toy_fig5.md))" in glance
    assert "[MAPoRL](maporl.md), computed | 8 + 0 | 0 + 2 | 0 + 0 |" in glance
    text = report(everything, composed)
    assert text.count("](maporl/toy_fig5.png)") == 1
    assert row(text, "10 | opponent fixed at 0.5") and "scale**: not run" not in text


def test_there_is_one_page_for_all_scales(tmp_path: Path) -> None:
    small = checked(places_in(tmp_path), "maporl", "toy_fig5", "small")
    assert small.page == "toy_fig5" and small.seeds == []
    assert write_page(small, places_in(tmp_path), composed)[1] is None


@pytest.mark.slow
def test_scripts_run_nothing(tmp_path: Path) -> None:
    words = ("maporl", "toy_fig5", "--scale", "small", "--docs", str(tmp_path))
    done = run_script("scripts/table.py", *words)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.rglob("*.*")} == {"toy_fig5.md", "toy_fig5.png"}


@pytest.mark.slow
def test_claims_are_judged_on_the_numbers() -> None:
    judged = {one.claim["id"]: one.text for one in verdicts(table(), CountedRuns({}))}
    assert judged["joint_first_t10"] == judged["joint_more_t20"] == "holds"
    # dear and far: together they hardly ever begin
    other = with_game(r_ind=0.6, r_col=0.4, thresholds={10: {"uniform": 10}, 20: {"uniform": 20}})
    judged = {one.claim["id"]: one.text for one in verdicts(other, CountedRuns({}))}
    assert judged["joint_first_t10"] == judged["joint_more_t20"] == "contradicted"
    assert judged["observation_2"] == "holds"


def test_curves_are_read_like_runs() -> None:
    found = game_records(rules())
    assert {name for name in found if name.startswith("turns10/")} == {
        "turns10/joint", "turns10/pi0.5", "turns10/pi0.6", "turns10/pi0.7",
    }  # fmt: skip
    lines = found["turns20/pi0.6"]
    assert len(lines) == 20 and set(lines[0]) == set(GAME_METRICS) - {"disagreements"}
    mean = sum(line["collaboration"] for line in lines) / 20
    assert lines[-1]["collaboration_so_far"] == pytest.approx(mean)
    assert lines[0]["collaboration_so_far"] == lines[0]["collaboration"]
    assert disagreements(1, rules()["steps"])["observation_2_even"] == (16, 120)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tau": None}, "game: needs equilibrium, fixed, r_col"),
        ({"speed": 1}, "has equilibrium, fixed, others"),
        ({"fixed": []}, "thresholds and fixed must not be empty"),
        ({"fixed": [1.5]}, "pi=1.5 must lie between 0 and 1"),
        ({"r_col": 0.5}, "must be in increasing order"),
        ({"equilibrium": "best"}, "game.equilibrium=best must be one of most, even"),
        ({"thresholds": {10: {"normal": 3}}}, "must have one of uniform, exactly"),
        ({"thresholds": {10: {"uniform": 8}}}, "experiment=turns20/joint is none of"),
    ],
)
def test_what_is_no_such_game_is_refused_by_name(
    changes: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = with_game(**changes).about
    monkeypatch.setattr("cory.report.checks.load_paper", lambda conf, paper: about)
    with pytest.raises(ValueError, match=message) as error:
        load_table(CONF, "maporl", "toy_fig5", "paper")
    assert str(error.value).startswith("maporl toy_fig5: ") and "\n" not in str(error.value)


def test_a_claim_about_another_metric_is_refused() -> None:
    about = deepcopy(table().about)
    about["tables"]["toy_fig5"]["claims"][3]["left"]["metric"] = "objective/score/agent_0"
    with pytest.raises(ValueError, match="metric=objective/score/agent_0 is none of collab"):
        check_claims(replace(table(), about=about), {"objective/score"})


def test_the_joint_curve_is_the_solid_red_one() -> None:
    curves = {"pi = .5": [0.5, 0.25], "both": [0.75, 1.0], "pi = .7": [0.5, 0.5]}
    figure = collaboration_figure({"T = 2": curves, "T = 1": {"both": [1.0]}}, "both")
    first, second = figure.axes
    half, both, seven = first.get_lines()
    assert (both.get_color(), both.get_linestyle()) == ("#D55E00", "-")
    assert half.get_linestyle() == seven.get_linestyle() == "--"
    assert len({line.get_color() for line in (half, both, seven)}) == 3
    assert list(both.get_xdata()) == [1, 2] and list(both.get_ydata()) == [0.75, 1.0]
    assert second.get_title() == "T = 1" and len(second.get_lines()) == 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(curves)
