"""Tables, figures and pages of results, from made-up runs and the archive; what papers name."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import archive
import computed
import pandas as pd
import pytest
import yaml
from archive import finished, refuse_others, run_frame
from figures import draw_curves, draw_points
from papers import COMPUTED, Numbers, Table, at_the_end, decimals, load, markdown_of
from table import write_page

from cory.report.plots import panels
from cory.report.runs import paired
from cory.runs.run_dir import OVERRIDES, RECORD
from tests.support.composing import CONF, ROOT, jobs, options
from tests.support.recorded_runs import record_run

DOCS = ROOT / "docs" / "results"
FILE = {
    "title": "T",
    "words": {"rival": {"paper": "gpt", "small": "script"}},
    "tables": {
        "tab1": {
            "title": "Table 1",
            "columns": {"score": "objective/score/{}", "right %": "eval/right/{rival}"},
            "rows": {"A": "a", "B": ["b", "agent_1", 3.5]},
            "word": "agent_0",
            "differences": [["B", 2, "A", "score"]],
            "figure": {"kind": "curves", "columns": ["score"]},
        }
    },
}


def rows(experiment: str, agent: str, shift: float, right: float) -> pd.DataFrame:
    """Three seeds of 13 iterations; scores rise by 1, seeds differ by 10."""
    lines = [
        ("small", f"some/{experiment}", seed, f"objective/score/{agent}", i, 10 * seed + i + shift)
        for seed in range(3)
        for i in range(13)
    ]
    lines += [
        ("small", f"some/{experiment}", seed, "eval/right/script", iteration, value)
        for seed in range(3)
        for iteration, value in ((1, 0.9), (2, right + (seed + shift % 3) % 3 / 100))
    ]
    columns = ["scale", "experiment", "seed", "metric", "iteration", "value"]
    about = {"commit": "abc1234", "date": "2026-11-28", "settings": "{}", "text": None}
    return pd.DataFrame(lines, columns=columns).assign(**about)


@pytest.fixture
def paper(tmp_path: Path) -> dict[str, Table]:
    path = tmp_path / "some.yaml"
    path.write_text(yaml.safe_dump(FILE, sort_keys=False), encoding="utf-8")
    load.cache_clear()
    return load(path)


@pytest.fixture
def runs() -> archive.Runs:
    both = pd.concat([rows("a", "agent_0", 0, 0.5), rows("b", "agent_1", 4, 0.25)])
    return archive.by_experiment(both)


def test_a_table_has_means_differences_and_what_is_printed(paper, runs) -> None:
    text = markdown_of(Numbers(paper["tab1"], runs, "small"))
    head, _, first, second, *rest = text.splitlines()
    assert head == "| small scale | score | right % | seeds |"
    # the last ten of 13 values, 3 to 12: seeds 7.5, 17.5, 27.5; right .5, .51, .52
    assert first == "| A | 18 ± 10 | 51.0 ± 1.0 | 3 |"
    assert second == (
        "| B | 22 ± 10<br>+4<br>paper: 3.5 | 26.0 ± 1.0<br>**-25.0 (-27.9 to -22.1)** | 3 |"
    )
    # 11.5 - 15, 21.5 - 35, 31.5 - 55: mean -13.5, s = 10
    assert "- score: B less 2 x A: -14 (-30 to 3), 3 seeds" in rest


def test_a_page_keeps_its_words_and_gets_its_numbers(tmp_path, paper, runs) -> None:
    page = tmp_path / "some.md"
    page.write_text("Before.\n\n<!-- tab1 small -->\nold\n<!-- end -->\n\nAfter.\n")
    write_page(page, paper, runs)
    assert (tmp_path / "figures" / "some_tab1_small.png").exists()
    text = page.read_text()
    assert text.startswith(
        "Before.\n\n<!-- tab1 small -->\n![Table 1](figures/some_tab1_small.png)"
    )
    assert text.endswith("<!-- end: runs of 2026-11-28, commits abc1234 -->\n\nAfter.\n")
    assert "old" not in text
    write_page(page, paper, runs)
    assert page.read_text() == text
    page.write_text("<!-- tab9 small -->\n<!-- end -->\n")
    with pytest.raises(ValueError, match="table tab9 must be one of tab1"):
        write_page(page, paper, runs)


def test_curves_have_a_line_for_each_row(paper: dict[str, Table], runs: archive.Runs) -> None:
    figure, axes = panels(1)
    draw_curves(Numbers(paper["tab1"], runs, "small"), ["score"], axes)
    assert figure.axes == axes
    first, second = axes[0].get_lines()
    assert list(first.get_xdata()) == list(range(1, 14))
    assert list(first.get_ydata()) == [10 + i for i in range(13)]  # the mean of three seeds
    assert list(second.get_ydata()) == [14 + i for i in range(13)]
    assert [first.get_label(), second.get_label()] == ["A", "B"]


def test_points_stand_at_the_means_of_their_rows(
    paper: dict[str, Table], runs: archive.Runs
) -> None:
    numbers = Numbers(paper["tab1"], runs, "small")
    _, (axes,) = panels(1)
    draw_points(numbers, ["score"], axes)
    line = axes.containers[0].lines[0]
    assert list(line.get_xdata()) == [numbers.values[row, "score"].mean() for row in ("A", "B")]
    assert list(line.get_ydata()) == [0, 1]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["A", "B"]
    assert axes.yaxis_inverted()  # the first row stands above


def test_the_archive_replaces_a_run_of_the_same_name(tmp_path: Path) -> None:
    old = pd.concat([rows("a", "agent_0", 0, 0.5), rows("b", "agent_1", 4, 0.25)])
    new = rows("a", "agent_0", 100, 0.5)
    path = tmp_path / "runs.parquet"
    mixed = archive.replaced(old, [new[new.seed == 1]]).sample(frac=1, random_state=0)
    archive.write(mixed, path)  # in one order, whatever it was
    frame = pd.read_parquet(path)
    assert len(frame) == len(old)
    score = frame[(frame.experiment == "some/a") & (frame.metric == "objective/score/agent_0")]
    assert score[score.seed == 0].value.tolist() == list(range(13))
    assert score[score.seed == 1].value.tolist() == list(range(110, 123))
    assert score[score.seed == 2].value.tolist() == list(range(20, 33))
    assert frame.text.isna().all()


def test_other_runs_than_the_studys_are_not_archived(tmp_path: Path) -> None:
    said = {"clean": True, "experiment": "cory/imdb_ppo_k1", "scale": "small"}
    sweeps = ["keep_state=false", "seed=3", "scale=small", "evaluation.probes=[]"]
    words = [*sweeps, "experiment=cory/imdb_ppo", "algorithm.kl_estimator=k1"]

    def archived(record: dict[str, Any], *words: str) -> None:
        (tmp_path / RECORD).write_text(json.dumps(record))
        (tmp_path / OVERRIDES).write_text("\n".join(words))
        refuse_others(tmp_path)

    archived(said, *words)
    with pytest.raises(ValueError, match=r"differ in algorithm\.kl_coef=1, algorithm\.kl_est"):
        archived(said, *words[:-1], "algorithm.kl_coef=1")
    with pytest.raises(ValueError, match="differed from the last commit"):
        archived({**said, "clean": False}, *words)


def test_make_report_changes_nothing_on_a_clean_checkout(tmp_path: Path) -> None:
    docs = tmp_path / "results"
    shutil.copytree(DOCS, docs)
    command = [sys.executable, "scripts/table.py", "--all", "--docs", str(docs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["every page holds the numbers of the archive"]
    for page in DOCS.glob("*.md"):
        assert (docs / page.name).read_text() == page.read_text()
    drawn = {path.name for path in (DOCS / "figures").iterdir()}
    assert {path.name for path in (docs / "figures").iterdir()} == drawn


def test_what_is_computed_is_what_the_papers_say() -> None:
    """Observations 1 and 2 hold on their grids, and skills grow as Eqs. 3 and 4 say."""
    frame = computed.frame().set_index(["experiment", "metric", "iteration"]).value
    assert frame["toy/observation_1", "wrong", 0] == 0
    assert frame["toy/observation_2", "wrong", 0] == 0
    assert frame["skills/unlike_equation_3", "count", 0] == 0
    assert frame["skills/falls", "count", 0] == 0
    together = frame["toy/turns10/joint", "mean", 0]
    assert together > 1.1 * frame["toy/turns10/pi0.7", "mean", 0]


def series(*values: float, first: int = 0) -> pd.Series:
    return pd.Series(values, index=range(first, first + len(values)), dtype=float)


def test_only_common_seeds_are_paired() -> None:
    assert paired(series(1, 2, 5), series(0, 0, 0, first=1)).to_dict() == {1: 2, 2: 5}
    assert paired(series(1, 2, 4), series(1 + 1e-8, 2, 3)).tolist() == [0, 0, 1]
    assert paired(series(1, 2), series(1, 2, first=5)).empty


def lines(values: dict[int, list[float]]) -> pd.DataFrame:
    rows = [(s, i, v) for s, own in values.items() for i, v in enumerate(own)]
    return pd.DataFrame(rows, columns=["seed", "iteration", "value"])


def test_a_number_is_the_mean_of_the_last_values_of_each_seed() -> None:
    values = {3: [-9, -8, *range(9), 14], 7: [90, *range(0, 100, 10)]}
    frame = lines(values).sample(frac=1, random_state=0)
    assert at_the_end(frame, "objective/kl/agent_0").to_dict() == {3: 5, 7: 45}  # of ten
    assert at_the_end(frame, "eval/score/agent_0").to_dict() == {3: 14, 7: 90}
    assert at_the_end(frame, "eval/score/agent_0", iteration=1).to_dict() == {3: -8, 7: 0}
    assert at_the_end(frame, "eval/score/agent_0", iteration=19).empty


@pytest.mark.parametrize(
    ("values", "digits"),
    [((1.0, 1.4), 2), ((70, 90), 0), ((0.5001, 0.5002), 6), ((1080,), 0), ((0.352,), 3), ((0,), 0)],
)
def test_as_many_decimals_as_the_spread_has(values: tuple[float, ...], digits: int) -> None:
    assert decimals(series(*values)) == digits


def test_a_run_becomes_rows(tmp_path: Path) -> None:
    def probe(text: str, **more: Any) -> dict[str, Any]:
        line = {"kind": "probe", "who": "agent_0", "prompt": "P", "sample": 0}
        return {**line, "turns": [{"response": text}], **more}

    samples = [probe("R", sample=None), probe("drawn"), probe("no", kind="rollout")]
    lines = [{"objective/score/agent_0": n + 0.5} for n in range(3)]
    run_dir = tmp_path / "runs" / "small" / "paper" / "cory" / "imdb_ppo" / "seed1"
    record_run(run_dir, lines, samples=samples)
    about = {"experiment": "cory/imdb_ppo", "scale": "small", "seed": 1, "commit": "ab" * 20}
    scores = {"agent_0": {"mmlu": {"value": 0.4, "stderr": 0.1}}}
    record = {**about, "iterations": 3, "began": "2026-01-02T03:04:05"}
    (run_dir / RECORD).write_text(json.dumps(record))
    (run_dir / "agents").mkdir()
    (run_dir / "agents" / "benchmarks.json").write_text(json.dumps(scores))

    (found,) = finished(tmp_path, "small", ["cory/imdb_ppo", "cory/imdb_cory"])
    frame = run_frame(found)
    stored = ("experiment", "scale", "seed", "commit", "date")
    expected = ["cory/imdb_ppo", "small", 1, "abababa", "2026-01-02"]
    assert [frame[name].unique().tolist() for name in stored] == [[one] for one in expected]
    values = frame.set_index(["metric", "iteration"]).value
    assert [values["objective/score/agent_0", n] for n in range(3)] == [0.5, 1.5, 2.5]
    assert values["benchmark/mmlu/agent_0", 2] == 0.4
    texts = frame[frame.text.notna()].set_index("metric").text.map(json.loads).to_dict()
    assert texts == {"probe/greedy/agent_0": ["P", "R"], "probe/sampled/agent_0": ["P", "drawn"]}

    (run_dir / RECORD).unlink()
    with pytest.raises(ValueError, match=r"has no record\.json: its run is not finished"):
        run_frame(run_dir)


NAMES = sorted(path.stem for path in (CONF / "paper").glob("*.yaml"))
# what rows of every model name, and some models lack: closed ones, and methods of ours
LACKING = ("_star", "_adapters", "_union", "_from_base")


@pytest.mark.parametrize("name", NAMES)
def test_every_table_is_run_by_the_sweep_of_its_name(name: str) -> None:
    known = set(options("experiment"))
    for key, table in load(CONF / "paper" / f"{name}.yaml").items():
        if table.scales == [COMPUTED]:
            continue
        swept = {run for run, _ in jobs(f"{name}/{key}")}
        rows = {one.replace("{head}", "") for one in table.experiments()}
        assert rows & known <= swept, key
        lacking = {one for one in rows - known if not one.startswith("maft/gpt35_")}
        assert all(one.startswith("maft/") and one.endswith(LACKING) for one in lacking), lacking


@pytest.mark.parametrize("name", NAMES)
def test_every_sweep_of_a_paper_has_a_table(name: str) -> None:
    tables = set(load(CONF / "paper" / f"{name}.yaml"))
    sweeps = {sweep for sweep in options("sweep") if sweep.startswith(f"{name}/")}
    assert sweeps and {sweep.partition("/")[2] for sweep in sweeps} <= tables
