"""Pages about word games and benchmarks: layouts, figures, and claims over either."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cory.report.figures.games import draw_matches, factor_figure, matrix_panel, stages_panel
from cory.report.figures.radar import RadarPanel
from cory.report.figures.style import figure_of
from cory.report.kinds import draw
from cory.report.pages.write import checked, gather_tables
from cory.report.records import archive
from cory.report.records.collect import collect
from cory.report.tables import probes
from cory.report.tables.games import cells_of, value_of
from tests.support.made_up_debates import one_table, page_of
from tests.support.made_up_games import BY_SCALE, METRICS, played, scored
from tests.support.made_up_runs import WriteRun, run_writer
from tests.support.reporting import row

IM, FIRST, SECOND = "cory/gsm8k_ppo", "cory/gsm8k_ppo_eta1e-3", "cory/gsm8k_ppo_eta1e-4"
STAGES: list[dict[str, Any]] = [
    {"label": "IM", "name": "im", "experiment": IM},
    {"label": "SPAG-1", "name": "spag_1", "experiment": FIRST},
    {"label": "SPAG-2", "name": "spag_2", "experiment": SECOND},
]


def entry(**more: Any) -> dict[str, Any]:
    return {"kind": "matches", "rows": STAGES, "by_scale": BY_SCALE, **more}


def write_stages(write: WriteRun) -> None:
    for seed in range(3):
        write(IM, seed, played({"itself": (0.5, 0.5), "scripted": (0.4, 0.3)}, seed, turns=4))
        rates = {"itself": (0.55, 0.45), "scripted": (0.5, 0.4), "im": (0.7, 0.6)}
        write(FIRST, seed, played(rates, seed, turns=3.5, tokens=15))
        rates = {"itself": (0.4, 0.6), "scripted": (0.6, 0.5), "im": (0.8, 0.7)}
        write(SECOND, seed, played({**rates, "spag_1": (0.65, 0.62)}, seed, turns=3, tokens=10))


@pytest.mark.slow
def test_win_rates_and_matrix(write_run: WriteRun, tmp_path: Path) -> None:
    places = one_table(tmp_path, entry(shows=["win_rates", "matrix"]), METRICS)
    write_stages(write_run)
    page = page_of(places, tmp_path / "outputs")
    rates, matrix = page.split("### Attacker against defender")
    assert "### Against the scripted players" in rates
    shown = row(rates, "SPAG-2")
    assert [float(cell.split(" ")[0]) for cell in shown[1:4]] == pytest.approx([55, 60, 50], abs=1)
    assert shown[4:] == ["10.0 ± 0.0 %", "4.0 ± 0.0 %", "3"]
    # of two checkpoints the later one's run has played: as defender its rate is the other's loss
    numbers = [float(cell.split(" ")[0]) for cell in row(matrix, "SPAG-1")[1:]]
    assert numbers == pytest.approx([70, 55, 38], abs=1.5)
    assert (tmp_path / "docs/p/t_small.png").exists()


@pytest.mark.slow
def test_stages_that_start_alike_have_a_panel_each(write_run: WriteRun, tmp_path: Path) -> None:
    """Two ways on from IM: a row of IM in each, on one axis."""
    stages = [
        {**STAGES[0], "panel": "fast"},
        {**STAGES[1], "panel": "fast"},
        {**STAGES[0], "panel": "slow"},
        {**STAGES[2], "panel": "slow"},
    ]
    about = entry(shows=["win_rates"], panels="rate") | {"rows": stages}
    places = one_table(tmp_path, about, METRICS)
    write_stages(write_run)
    page = page_of(places, tmp_path / "outputs")
    assert "| rate | checkpoint | win rate |" in page
    ways = [
        line.split(" | ")[:2] for line in page.splitlines() if line.startswith(("| fast", "| slow"))
    ]
    assert ways == [["| fast", "IM"], ["| fast", "SPAG-1"], ["| slow", "IM"], ["| slow", "SPAG-2"]]
    table = checked(places, "p", "t", "small")
    runs = collect(table, archive.read(places.records("p", "small")), [])
    fast, slow = draw_matches(table, runs).axes
    assert (fast.get_title(), slow.get_title()) == ("fast", "slow")
    assert fast.get_ylim() == slow.get_ylim() and not slow.get_ylabel()
    assert [tick.get_text() for tick in slow.get_xticklabels()] == ["IM", "SPAG-2"]
    ends = [axes.containers[0][0].get_ydata() for axes in (fast, slow)]
    assert ends[0][0] == ends[1][0] and ends[0][1] < ends[1][1]


@pytest.mark.slow
def test_a_cell_is_left_out_where_nobody_played(write_run: WriteRun, tmp_path: Path) -> None:
    places = one_table(tmp_path, entry(shows=["matrix"]), METRICS)
    write_run(IM, 0, played({"itself": (0.5, 0.5)}))
    write_run(FIRST, 0, played({"itself": (0.5, 0.5), "im": (0.7, 0.6)}))
    page = page_of(places, tmp_path / "outputs")
    assert row(page, "SPAG-2")[1:4] == ["-", "-", "-"]
    table = checked(places, "p", "t", "small")
    folder = places.records("p", "small")
    cells = cells_of(table, collect(table, archive.read(folder), []))
    runs = {run.experiment: run.lines[-1] for run in archive.read(folder)}
    (value,) = cells["IM", "SPAG-1"]
    assert value == 1 - runs[FIRST]["eval/win_rate_defender/im"]
    assert cells["IM", "SPAG-2"] == cells["SPAG-2", "SPAG-2"] == []


@pytest.mark.slow
def test_lengths_and_dialogues(
    write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [*STAGES[:2]]
    asked = {"kind": "dialogues", "rows": rows, "prompts": [{"text": "cat"}, {"text": "dog"}]}
    places = one_table(tmp_path, asked, METRICS)
    run = write_run(IM, 0, played({"itself": (0.5, 0.5)}, turns=4, tokens=20))
    said = "attacker: it | purrs\ndefender: I know the word! It is `cat`!\n[guessed]"
    turn = f'"turns": [{{"agent": "agent_0", "role": "both", "response": {said!r}}}]'.replace(
        "'", '"'
    )
    line = f'{{"kind": "probe", "who": "agent_0", "sample": null, "prompt": "cat", {turn}}}\n'
    (run / "samples.jsonl").write_text(line)
    page = page_of(places, tmp_path / "outputs")
    lengths, games = page.split("### Games of seed 0")
    assert row(lengths, "IM")[1:3] == ["4.05", "20.51"]
    cat, dog = games.split("**Target word: dog**")
    assert row(cat, "IM")[1].startswith("attacker: it \\| purrs<br>defender: I know")
    assert row(cat, "IM")[1].endswith("\\[guessed]")
    assert row(cat, "IM")[2] == row(dog, "IM")[1] == "not asked"
    assert row(cat, "SPAG-1")[1] == "not run"
    monkeypatch.setattr(probes, "LONGEST_GAME", 12)
    assert "attacker: it [...] |" in page_of(places, tmp_path / "outputs")
    figure = one_table(tmp_path / "other", entry(shows=["lengths"]), METRICS)
    page_of(figure, tmp_path / "outputs")
    assert (tmp_path / "other/docs/p/t_small.png").exists()


def claim(**more: Any) -> dict[str, Any]:
    left = {"experiment": FIRST, "metric": "benchmark/mmlu/agent_0", "at": "last"}
    right = {"experiment": IM, "metric": "benchmark/mmlu/agent_0", "at": "last"}
    base = {"id": "c", "text": "x", "section": "1", "left": left, "relation": ">", "right": right}
    return base | more


@pytest.mark.slow
def test_benchmarks_are_judged_at_the_papers_scale_only(tmp_path: Path) -> None:
    about = {
        "kind": "benchmarks",
        "axes": ["bbh", "piqa", "mmlu"],
        "largest": [{"panel": "M", "bbh": 0.3494}],
        "claims": [claim(), claim(id="d", text="y", unjudged="nobody asked")],
    }
    rows = [{**STAGES[0], "second_hand": {"geometric_mean": 0.4917}}, STAGES[1]]
    places = one_table(tmp_path, entry(**about) | {"rows": rows}, METRICS)
    for scale in ("paper", "small"):
        write = run_writer(tmp_path / "outputs", scale)
        for seed in range(3):
            lines = played({"scripted": (0.4, 0.3), "itself": (0.5, 0.5)}, seed)
            write(IM, seed, lines, benchmarks=scored(0.40))
            write(FIRST, seed, lines, benchmarks=scored(0.45))
    own, small = (page_of(places, tmp_path / "outputs", scale) for scale in ("paper", "small"))
    assert row(own, "IM")[1:3] == ["40.0 ± 0.0 %", "41.0 ± 0.0 %"]
    assert row(own, "IM")[9:] == ["40.0 ± 0.0 %", "GM: 49.17 %", "3"]
    assert row(own, "M |")[1] == "34.94 %" and "not printed in our source" in own
    assert row(own, "x |")[-1] == "holds"
    assert row(own, "y |")[-1] == "not run (nobody asked)"
    assert "Benchmarks are not run at this scale" in small and "49.17" not in small
    table = checked(places, "p", "t", "small")
    figure = draw(table, collect(table, archive.read(places.records("p", "small")), []))
    assert figure is not None and not any("49.17" in text.get_text() for text in figure.texts)
    assert row(small, "IM")[1].startswith("35.")
    assert row(small, "x |")[-1] == (
        "not run (about benchmarks, which are run at the paper's scale only)"
    )
    for name in ("t", "t_small"):
        assert (tmp_path / f"docs/p/{name}.png").exists()


@pytest.mark.slow
def test_a_factor_is_read_from_the_settings(write_run: WriteRun, tmp_path: Path) -> None:
    about = {
        "kind": "factor",
        "factor": {"name": "eta", "keys": ["algorithm.kl_coef"], "log": True},
    }
    places = one_table(tmp_path, entry(**about), METRICS)
    write_stages(write_run)
    page = page_of(places, tmp_path / "outputs")
    assert [row(page, label)[1] for label in ("IM", "SPAG-1", "SPAG-2")] == [
        "0.01",
        "0.001",
        "0.0001",
    ]
    assert row(page, "SPAG-2")[2] == "54.9 ± 0.3 %"
    assert (tmp_path / "docs/p/t_small.png").exists()
    table = checked(places, "p", "t", "small")
    table.entry["factor"]["keys"] = ["algorithm.kl_coef", "algorithm.prompts_per_iteration"]
    (run, *_) = [one for one in archive.read(places.records("p", "small")) if one.experiment == IM]
    assert value_of(table, run) == 0.01 * run.settings["algorithm"]["prompts_per_iteration"]


@pytest.mark.slow
def test_a_run_that_only_a_claim_is_about_is_shown_by_its_name(
    write_run: WriteRun, tmp_path: Path
) -> None:
    about = {
        "kind": "factor",
        "factor": {"name": "eta", "keys": ["algorithm.kl_coef"], "log": True},
    }
    sides = [
        {"experiment": e, "metric": "eval/win_rate/scripted", "at": "last"} for e in (SECOND, IM)
    ]
    asked = claim(left=sides[0], right=sides[1], scales=["small"])
    rows = {"rows": STAGES[:2], "needs": [SECOND], "claims": [asked]}
    places = one_table(tmp_path, entry(**about) | rows, METRICS)
    write_stages(write_run)
    page = page_of(places, tmp_path / "outputs")
    assert row(page, "x |")[-1] == "holds" and f"`{SECOND}/seed0`" in page
    assert "SPAG-2" not in page
    # what is asked at the small scale only is not on the other page
    run_writer(tmp_path / "outputs", "paper")(IM, 0, played({}), benchmarks=scored(0.4))
    assert "The paper says nothing" in page_of(places, tmp_path / "outputs", "paper")


@pytest.mark.slow
def test_games_that_both_win_say_how_many_words_were_found(
    write_run: WriteRun, tmp_path: Path
) -> None:
    places = one_table(tmp_path, entry(kind="benchmarks") | {"rows": STAGES[:2]}, METRICS)
    roles = ("guesser", "oracle")
    lines = played({"itself": (0.6, 0.6), "scripted": (0.4, 0.2)}, roles=roles)
    write_run(IM, 0, [lines[0] | {"eval/solved/itself": 0.25}])
    write_run(FIRST, 0, played({"itself": (0.5, 0.5), "scripted": (0.4, 0.3)}))
    page = page_of(places, tmp_path / "outputs")
    # the oracle knows the word and answers second
    assert [cell[:2] for cell in row(page, "IM")[2:4]] == ["20", "39"]
    assert row(page, "IM")[6] == "25.0 %" and row(page, "SPAG-1")[6] == "-"


@pytest.mark.slow
@pytest.mark.parametrize("both", [False, True])
def test_a_picture_of_games_that_both_win_shows_how_many_words_were_found(
    write_run: WriteRun, tmp_path: Path, both: bool
) -> None:
    places = one_table(tmp_path, entry(kind="benchmarks") | {"rows": STAGES[:2]}, METRICS)
    rates = {"itself": (0.6, 0.6), "scripted": (0.4, 0.2)}
    shared = played(rates, roles=("guesser", "oracle"))[0] | {"eval/solved/itself": 0.25}
    write_run(IM, 0, [shared])
    write_run(FIRST, 0, [shared | {"eval/solved/itself": 0.5}] if both else played(rates))
    page_of(places, tmp_path / "outputs")
    table = checked(places, "p", "t", "small")
    figure = draw(table, collect(table, archive.read(places.records("p", "small")), []))
    assert figure is not None
    (axes,) = figure.axes
    if both:  # one group of bars, which lie
        assert axes.get_xlabel() == "share of games in which the word is found"
        lengths = sorted(float(bar.get_width()) for bar in axes.patches)  # type: ignore[attr-defined]
        assert lengths == pytest.approx([0.25, 0.5])
    else:
        assert axes.get_ylabel() == "win rate against the scripted players"
    notes = " ".join(" ".join(text.get_text().split()) for text in figure.texts)
    assert ("Dashed: nobody is ahead" in notes) != both


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"shows": ["win_rate"]}, "shows must be some of win_rates, matrix, lengths"),
        ({"shows": []}, "shows must be some of win_rates, matrix, lengths"),
        ({"shows": ["matrix"], "rows": [{"experiment": IM}]}, "every row of a matrix has a name"),
        ({"shows": ["matrix"], "panels": "model"}, "a matrix has no panels"),
        ({"shows": ["win_rates"], "by_scale": {}}, "by_scale must name opponent and player"),
        ({"shows": ["matrix"], "factor": {}}, "factor belongs to kind factor"),
        ({"kind": "factor"}, "factor belongs to kind factor"),
        (
            {"shows": ["matrix"], "claims": [claim(left={"experiment": "cory/imdb_ppo"})]},
            "claims are about cory/imdb_ppo, which it does not run",
        ),
    ],
)
def test_an_entry_without_what_its_kind_needs_is_refused(
    tmp_path: Path, more: dict[str, Any], message: str
) -> None:
    places = one_table(tmp_path, entry(**more), METRICS)
    (places.conf / "experiment/cory/imdb_ppo.yaml").write_text("{}\n")
    with pytest.raises(ValueError, match=message):
        checked(places, "p", "t", "small")


@pytest.mark.slow
def test_words_of_a_scale_stand_in_claims(write_run: WriteRun, tmp_path: Path) -> None:
    side = {"experiment": IM, "metric": "eval/win_rate/{opponent}", "at": "last"}
    asked = {"id": "c", "text": "beats {player}", "section": "1", "left": side}
    taken = [[{**asked, "relation": ">", "right": 0.3}]]  # a list: another entry's claims
    places = one_table(tmp_path, entry(shows=["win_rates"], claims=taken), METRICS)
    write_stages(write_run)
    page = page_of(places, tmp_path / "outputs")
    assert row(page, "beats the scripted players")[-1] == "holds"
    own = checked(places, "p", "t", "paper").claims[0]
    assert own["parts"][0]["left"]["metric"] == "eval/win_rate/endpoint"


def test_an_opponent_that_nobody_defines_is_refused(tmp_path: Path) -> None:
    side = {"experiment": IM, "metric": "eval/win_rate_attacker/spag_1", "at": "last"}
    asked = {"id": "c", "text": "x", "section": "1", "left": side, "relation": ">", "right": 0}
    places = one_table(tmp_path, entry(shows=["matrix"], claims=[asked]), METRICS)
    assert checked(places, "p", "t", "small").claims
    for name in ("eval/win_rate_attacker/gpt", "eval/win_rate_judge/spag_1"):
        asked["left"] = {**side, "metric": name}
        broken = one_table(tmp_path / name, entry(shows=["matrix"], claims=[asked]), METRICS)
        with pytest.raises(ValueError, match=f"does not define {name}"):
            checked(broken, "p", "t", "small")


def test_the_figures_draw_what_they_are_given() -> None:
    lines = {"mean": [[(0.4, 0.35, 0.5)], [(0.5, 0, 1), (0.7, 0, 1)], []]}
    rates = stages_panel(lines, ["IM", "SPAG-1", "SPAG-2"], "win rate", even=0.5)
    figure = figure_of([rates, matrix_panel({("a", "b"): [0.4, 0.6]}, ["a", "b"])])
    drawn, heat, _ = figure.axes  # and the heat map's scale
    line, _, (bars,) = drawn.containers[0]
    np.testing.assert_allclose(line.get_ydata().astype(float), [0.4, 0.6])
    spread = [segment[:, 1] for segment in bars.get_segments()]
    np.testing.assert_allclose(spread, [[0.35, 0.5], [0.6 - 0.1 * 2**0.5, 0.6 + 0.1 * 2**0.5]])
    assert [text.get_text() for text in heat.texts] == ["50.0\n± 14.1"]
    assert len(heat.patches) == 3 and heat.get_xlabel() == "defender"

    curve = {1000.0: [(0.5, 0.4, 0.6)], 5000.0: [(0.6, 0.5, 0.7)]}
    (axes,) = factor_figure({"GM": curve}, "games", "score", log=True).axes
    assert axes.get_xscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1K", "5K"]
    scores = {"base": {"BBH": 0.3, "PIQA": 0.8}, "IM": {"BBH": 0.6, "PIQA": 0.4}}
    (polar,) = figure_of([RadarPanel("M", scores)], projection="polar").axes
    np.testing.assert_allclose(polar.lines[0].get_ydata(), [0.5, 1, 0.5])
    assert polar.get_xticklabels()[0].get_text() == "BBH\n60.0"


def test_benchmarks_added_to_a_run_reach_its_archive(tmp_path: Path) -> None:
    places = one_table(tmp_path, entry(kind="benchmarks"), METRICS)
    table = checked(places, "p", "t", "paper")
    scores = scored(0.4)
    run_writer(tmp_path / "outputs", "paper")(IM, 0, played({}), benchmarks=scores)
    gather_tables([table], places, tmp_path / "outputs", False)
    (run,) = archive.read(places.records("p", "paper"))
    assert run.lines[-1]["benchmark/piqa/agent_0"] == scores["agent_0"]["piqa"]["value"]
    assert run.lines[-1]["benchmark/geometric_mean_stderr/agent_0"] == 0.005
