"""The page of `cory-board`: what it says of runs, and that no text of a run becomes code."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from cory.report.agent_names import split_name
from cory.report.board.command import main
from cory.report.board.data import short_names
from cory.report.board.lines import Column, columns_of, strides, thinned
from cory.report.board.texts import LONGEST, evenly
from tests.support.made_up_boards import (
    WriteRun,
    data_of,
    line,
    page_of,
    rows,
    run_writer,
    sample,
    unpacked,
)

EVIL = "</script></template><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture
def write(tmp_path: Path) -> WriteRun:
    return run_writer(tmp_path / "runs")


@pytest.mark.slow
def test_runs_are_told_apart_by_what_differs(write: WriteRun, tmp_path: Path) -> None:
    for kl in ("0.1", "0.3"):
        for seed in (0, 1):
            write(
                f"kl{kl}/seed{seed}",
                f"algorithm.kl_coef={kl}",
                f"seed={seed}",
                "wandb.mode=offline",
            )
    data = data_of(tmp_path / "runs")
    assert data["telling"] == ["algorithm.kl_coef"]
    assert data["differing"] == ["algorithm.kl_coef", "seed"]
    told = {run["name"]: run["told"] for run in data["runs"]}
    assert told == {
        "kl0.1/seed0": ["0.1", "0"],
        "kl0.1/seed1": ["0.1", "1"],
        "kl0.3/seed0": ["0.3", "0"],
        "kl0.3/seed1": ["0.3", "1"],
    }
    assert all(run["settings"]["wandb.mode"] == "offline" for run in data["runs"])
    assert not any(run["repeated"] for run in data["runs"])


def test_what_changes_no_result_is_filtered_by_and_not_grouped_by(
    write: WriteRun, tmp_path: Path
) -> None:
    write("a", "hardware=cpu2"), write("b", "seed=1")
    data = data_of(tmp_path / "runs")
    assert data["telling"] == []
    assert data["differing"][0] == "seed" and "hardware.processes" in data["differing"]


@pytest.mark.slow
def test_a_setting_that_an_older_run_lacks_differs_only_from_another_value(
    write: WriteRun, tmp_path: Path
) -> None:
    older = write("older") / "config.yaml"
    older.write_text(re.sub(r"\n  kl_in: reward", "", older.read_text()))
    write("same", "seed=1")
    assert data_of(tmp_path / "runs")["differing"] == ["seed"]
    write("other", "algorithm.kl_in=loss")
    data = data_of(tmp_path / "runs")
    assert data["telling"] == ["algorithm.kl_in"]
    assert {run["name"]: run["told"][0] for run in data["runs"]} == {
        "older": None,
        "same": "reward",
        "other": "loss",
    }


@pytest.mark.slow
def test_a_run_that_was_made_twice_is_pooled_once(write: WriteRun, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(name, f"seed={int(name == 'b')}")
    repeated = {run["name"]: run["repeated"] for run in data_of(tmp_path / "runs")["runs"]}
    assert repeated == {"a": True, "b": False, "c": False}


def test_metrics_stand_by_name_and_whom(write: WriteRun, tmp_path: Path) -> None:
    lines = [line(0, 0.25), line(1, 0.123456789, **{"debate/shortened": 0.5, "eval/score/team": 1})]
    write("run", lines=lines)
    (run,) = data_of(tmp_path / "runs")["runs"]
    series = run["series"]
    at = series["at"]
    found = {
        (name, who): (at[place], values)
        for name, whom in series["metrics"].items()
        for who, (place, values) in whom.items()
    }
    assert found == {
        ("objective/score", "agent_0"): ([1, 2], [0.25, 0.12346]),
        ("objective/score", "agent_1"): ([1, 2], [1.25, 1.1235]),
        ("debate/shortened", ""): ([2], [0.5]),
        ("eval/score", "team"): ([2], [1.0]),
    }
    assert split_name("ppo/loss/value/turn_1") == ("ppo/loss/value", "turn_1")


def test_every_kind_of_run_is_shown_by_what_it_is_judged_by(
    write: WriteRun, tmp_path: Path
) -> None:
    """A debate has a score of the team, too, but is judged by its vote."""
    debate = {"iteration": 0, "eval/score/team": 0.5, "eval/vote/turn_1": 0.5}
    write("ppo", lines=[line(0, 1.0, **{"eval/score/agent_0": 1.0})])
    write("maft", "seed=1", lines=[debate | {"supervised/loss/critic_0": 1.0}])
    panels = data_of(tmp_path / "runs")["panels"]
    assert "eval/vote" in panels and "eval/score" in panels


@pytest.mark.slow
@pytest.mark.parametrize(
    "metric", ["eval/verifier_auc/natural", "eval/solved/itself", "eval/pass_at_4/agent_0"]
)
def test_a_headline_is_drawn_although_it_is_none_of_the_usual_metrics(
    write: WriteRun, tmp_path: Path, metric: str
) -> None:
    write("ppo", lines=[line(0, 1.0, **{"eval/score/agent_0": 1.0})])
    write("other", "seed=1", lines=[line(0, 1.0, **{metric: 0.5})])
    panels = data_of(tmp_path / "runs")["panels"]
    assert panels[-1] == metric.rpartition("/")[0] and "eval/score" in panels


def test_the_evaluation_before_the_training_begins_the_held_out_line(
    write: WriteRun, tmp_path: Path
) -> None:
    lines = [
        line(0, 0.25, **{"before/score/agent_0": -1.0, "before/score/agent_1": -2.0}),
        line(1, 0.5, **{"eval/score/agent_0": 3.0, "eval/vote/turn_1": 0.5}),
    ]
    write("run", lines=lines)
    data = data_of(tmp_path / "runs")
    (run,) = data["runs"]
    at, metrics = run["series"]["at"], run["series"]["metrics"]
    place, values = metrics["eval/score"]["agent_0"]
    assert (at[place], values) == ([0, 2], [-1.0, 3.0])
    place, values = metrics["eval/vote"]["turn_1"]  # not measured before
    assert (at[place], values) == ([2], [0.5])
    assert run["end"]["eval/score/agent_0"] == 3.0
    assert data["called"]["eval/score"] == "held-out reward"


@pytest.mark.slow
def test_every_run_has_one_of_the_metrics_that_are_shown_first(
    write: WriteRun, tmp_path: Path
) -> None:
    trained = {f"objective/{name}/agent_0": 1 for name in ("kl", "combined")} | {"offline/loss": 1}
    for seed in (0, 1):
        write(f"ppo{seed}", f"seed={seed}", lines=[line(0, 1.0, **trained)])
    assert data_of(tmp_path / "runs")["panels"] == [
        "objective/score", "objective/kl", "objective/combined",
    ]  # fmt: skip
    write(
        "spag", "seed=2", lines=[{"iteration": 0, "eval/win_rate/itself": 0.5, "offline/loss": 1}]
    )
    assert data_of(tmp_path / "runs")["panels"] == [
        "objective/score",
        "eval/win_rate",
        "offline/loss",
    ]


def test_the_end_of_a_run_is_its_last_ten_iterations_and_its_last_evaluation(
    write: WriteRun, tmp_path: Path
) -> None:
    scored = [
        line(i, float(i), **({"eval/score/team": i, "game/turns": i} if i % 5 == 4 else {}))
        for i in range(20)
    ]
    scored[3]["game/learnt"] = 7
    write("run", lines=scored)
    (run,) = data_of(tmp_path / "runs")["runs"]
    assert run["end"]["objective/score/agent_0"] == 14.5
    assert run["end"]["eval/score/team"] == 19
    # of iterations 14 and 19, not of the last ten values; before these ten: the last value
    assert (run["end"]["game/turns"], run["end"]["game/learnt"]) == (16.5, 7)
    assert run["iterations"] == 20


@pytest.mark.slow
def test_long_lines_are_thinned_by_means_and_the_page_says_so(
    write: WriteRun, tmp_path: Path
) -> None:
    long = [line(i, float(i), **({"eval/score/team": i} if i % 10 == 9 else {})) for i in range(50)]
    write("long", lines=long), write("short", "seed=1", lines=long[:7])
    data = data_of(tmp_path / "runs", points=20)
    # 50 iterations at 20 points: three together, in the short run at the same places
    assert data["thinned"] == {f"objective/score/agent_{agent}": 3 for agent in (0, 1)}
    series = {run["name"]: run["series"] for run in data["runs"]}
    place, values = series["long"]["metrics"]["objective/score"]["agent_0"]
    assert series["long"]["at"][place] == list(range(1, 51, 3))
    assert values == [*range(1, 48, 3), 48.5]
    place, values = series["short"]["metrics"]["objective/score"]["agent_0"]
    assert (series["short"]["at"][place], values) == ([1, 4, 7], [1, 4, 6])
    place, values = series["long"]["metrics"]["eval/score"]["team"]
    assert (series["long"]["at"][place], values) == ([10, 20, 30, 40, 50], [9, 19, 29, 39, 49])


def test_what_is_no_finite_number_is_no_part_of_a_mean() -> None:
    column = Column(np.arange(6), np.array([1, math.nan, math.inf, math.nan, 3, 5]))
    found = thinned(column, 2)
    assert found.iterations.tolist() == [0, 2, 4]
    assert found.values[[0, 2]].tolist() == [1, 4] and math.isnan(found.values[1])
    assert strides([{"x": column}], 6) == {"x": 1} and strides([{"x": column}], 5) == {"x": 2}
    assert list(columns_of([{"iteration": 0, "a": True, "b": "x", "c": None, "d": 1}])) == ["d"]


def test_missing_values_are_null(write: WriteRun, tmp_path: Path) -> None:
    write("run", lines=[line(0, math.nan), line(1, 1.0)])
    data = json.loads(unpacked(page_of(tmp_path / "runs"), "data"))
    assert data["runs"][0]["series"]["metrics"]["objective/score"]["agent_0"][1] == [None, 1]


@pytest.mark.slow
def test_damaged_runs_are_left_out_with_a_note(
    write: WriteRun,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write("sound")
    with (write("torn") / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 2, "x"')
    (write("settings") / "config.yaml").write_text("a: [")
    (write("other_bytes", files={"metrics.jsonl": [3, "0" * 64]}))
    (write("record") / "record.json").write_text("{")
    write("samples", samples=[{"iteration": 0}])
    write("turns", samples=[sample(0, "p", "r", turns=3)])
    (write("list") / "metrics.jsonl").write_text('{"objective/score/agent_0": 1}\n')
    (write("empty", finished=False) / "metrics.jsonl").write_text("")
    (write("waiting", finished=False) / "metrics.jsonl").unlink()
    monkeypatch.setattr(
        sys, "argv", ["cory-board", str(tmp_path / "runs"), "-o", str(tmp_path / "b.html")]
    )
    main()
    out, err = capsys.readouterr()
    assert re.fullmatch(rf"{tmp_path}/b.html: 1 run, [0-9.]+ MiB; open it in a browser\n", out)
    said = dict(
        re.fullmatch(r"note: left out: \S*/runs/(\w+)(?:/\S+?)?[,: ]+(.+)", note).groups()  # type: ignore[union-attr]
        for note in err.splitlines()
    )
    assert said == {
        "torn": said["torn"],
        "settings": said["settings"],
        "other_bytes": said["other_bytes"],
        "record": "its record.json cannot be read",
        "samples": "line 1: it is no sample",
        "turns": "line 1: it is no sample",
        "list": "a line has no iteration",
        "empty": "metrics.jsonl holds no number yet",
        "waiting": "no metrics yet",
    }
    assert said["torn"].startswith("line 3: ") and "config.yaml" in said["settings"]
    assert "metrics.jsonl" in said["other_bytes"]
    data = json.loads(unpacked((tmp_path / "b.html").read_text(), "data"))
    assert [run["name"] for run in data["runs"]] == ["runs/sound"]
    assert len(data["notes"]) == 9


@pytest.mark.slow
def test_the_table_of_before_and_after_is_the_record_s(write: WriteRun, tmp_path: Path) -> None:
    row = {
        "metric": "eval/score/agent_0",
        "before": 0.1,
        "after": 0.4,
        "low": None,
        "high": None,
        "n": None,
    }
    write("run", before_after=[{**row, "difference": 0.3}])
    write("none", "seed=1")
    assert [run["before"] for run in data_of(tmp_path / "runs")["runs"]] == [
        [],
        [row | {"called": "held-out reward of agent 0"}],
    ]


def test_of_a_run_at_work_a_half_written_line_is_left_out(write: WriteRun, tmp_path: Path) -> None:
    run_dir = write("run", finished=False)
    (run_dir / "times.jsonl").write_text(
        rows([{"iteration": i, "time/iteration_s": 1} for i in range(3)])
    )
    with (run_dir / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 2, "obj')
    (run,) = data_of(tmp_path / "runs")["runs"]
    assert (run["finished"], run["iterations"]) == (False, 2)
    assert run["series"]["at"] == [[1, 2]]


def test_samples_are_few_and_the_same_prompts_of_every_evaluation(
    write: WriteRun, tmp_path: Path
) -> None:
    samples = [
        sample(at, f"prompt {number}", f"answer {number} at {at}")
        for at in range(12)
        for number in range(4)
    ]
    write("run", samples=samples)
    data = data_of(tmp_path / "runs", prompts=2)
    (run,) = data["runs"]
    kept = [(one["iteration"], data["strings"][one["prompt"]]) for one in run["samples"]]
    assert kept == [(at, f"prompt {n}") for at in (0, 3, 6, 8, 11) for n in (0, 1)]
    assert run["sample_lines"] == 48
    (turn,) = run["samples"][-1]["turns"]
    assert data["strings"][turn["response"]] == "answer 1 at 11" and turn["score"] == 0.5
    assert len(data["strings"]) == len(set(data["strings"]))
    assert evenly([1, 2, 3], 3) == [1, 2, 3]


def test_games_are_told_apart_by_role_and_opponent(write: WriteRun, tmp_path: Path) -> None:
    games = [
        sample(0, "word", "said", opponent="im", role=role, winners=[role], reason="guessed")
        for role in ("attacker", "defender")
    ]
    write(
        "run", samples=[*games, sample(0, "x" * (LONGEST + 7), "long", who=None, kind="training")]
    )
    data = data_of(tmp_path / "runs", prompts=1)
    first, second, training = data["runs"][0]["samples"]
    assert first["who"] == "agent_0 as attacker against im"
    assert second["who"] == "agent_0 as defender against im"
    assert first["end"] == "guessed, won by attacker" and training["who"] == ""
    assert data["strings"][training["prompt"]] == f"{'x' * LONGEST} ... (7 more characters)"


class Elements(HTMLParser):
    """The elements of a page, with what stands in them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found:
            self.texts.setdefault(self.found[-1][0], []).append(data)


@pytest.mark.slow
def test_no_text_of_a_run_reaches_the_page_but_as_data(write: WriteRun, tmp_path: Path) -> None:
    write("run", "wandb.project=x", samples=[sample(0, EVIL, EVIL, who=EVIL, answer=EVIL)])
    harmless = page_of(write("other", "wandb.project=x"))
    page = page_of(tmp_path / "runs" / "run")
    tags = [tag for tag, _ in Elements(page).found]
    assert tags == [tag for tag, _ in Elements(harmless).found]
    assert EVIL in json.loads(unpacked(page, "data"))["strings"]
    assert "alert(" not in page


@pytest.mark.slow
def test_a_title_is_text(write: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "<script>alert(1)<" / "{{data}}"
    run_writer(folder)("run")
    monkeypatch.setattr(sys, "argv", ["cory-board", str(folder), "-o", str(tmp_path / "b.html")])
    main()
    page = (tmp_path / "b.html").read_text()
    assert "<title>" in page and "alert(1)<" not in page.replace("&lt;script&gt;alert(1)&lt;", "")
    assert page.count("{{data}}") == 1 and unpacked(page, "data")


@pytest.mark.slow
def test_the_policy_allows_the_two_scripts_of_the_page_and_no_request(
    write: WriteRun, tmp_path: Path
) -> None:
    write("run")
    page = page_of(tmp_path / "runs")
    elements = Elements(page)
    (policy,) = (
        found["content"]
        for _, found in elements.found
        if found.get("http-equiv") == "Content-Security-Policy"
    )
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (script, unpacked(page, "plotly"))
    ]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}' 'sha256-{hashes[1]}'; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    assert not any(
        name in ("src", "href", "srcset", "action") or name.startswith("on")
        for _, found in elements.found
        for name in found
    )
    assert "Plotly" in script and "innerHTML" not in script and "eval(" not in script


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("runs", "--points", "1"), "error: --points must be at least 2, got 1"),
        (("runs", "--prompts", "0"), "error: --prompts must be at least 1, got 0"),
        (("nowhere",), "error: nowhere is not a directory"),
        (("empty",), "error: empty holds no run: there is no config.yaml in it or below it"),
        (("damaged",), "error: no run can be shown: damaged/run: its record.json cannot be read"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    run_writer(Path("runs"))("run")
    Path("empty").mkdir()
    (run_writer(Path("damaged"))("run") / "record.json").write_text("[")
    monkeypatch.setattr(sys, "argv", ["cory-board", *words])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert capsys.readouterr().err == f"{message}\n"
    assert not Path("board.html").exists()


def test_names_leave_out_the_folders_that_all_share() -> None:
    paths = [Path("a/b/x/seed0"), Path("a/b/y/seed0"), Path("a/b/z")]
    assert short_names(paths) == ["x/seed0", "y/seed0", "z"]
    assert short_names([Path("out/a"), Path("out/a/b")]) == ["a", "a/b"]
    assert short_names([Path("out/runs/seed0")]) == ["runs/seed0"]
