"""What the scripts of `cory-board`'s page compute: intervals, and the verdicts from them."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib import resources
from typing import Any

import pytest

from cory.functional.statistics import standard_error, student_t
from cory.report.board import page

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="no node is installed")


# what the page's other scripts, and the browser, give to those that are tested
AROUND = """
const state = { role: "", at: "last" };
const withAlpha = () => "";
const lineOf = (run, metric) => (metric in run ? { x: [1], y: [run[metric]] } : null);
const append = function (other) { this.text += other.text; };
const el = (tag, { title }, text) => ({ title, text, style: {}, append });
"""


def computed(expression: str) -> Any:
    """The value of an expression in which the page's functions are known."""
    assert NODE is not None
    folder = resources.files(page.__package__ or "") / "page"
    names = ("numbers.js", "samples.js", "before.js", "matrices.js")
    scripts = [(folder / name).read_text("utf-8") for name in names]
    code = "\n".join([AROUND, *scripts, f"console.log(JSON.stringify({expression}))"])
    done = subprocess.run([NODE, "-e", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def change_of(*pairs: tuple[float, float]) -> Any:
    """The row of before and after of a group: low, high and verdict."""
    rows = [
        {"metric": "m", "before": before, "after": after, "low": 0.1, "high": 0.3, "n": 64}
        for before, after in pairs
    ]
    runs = json.dumps([{"before": [row]} for row in rows])
    return computed(
        f"((found) => [found.low, found.high, verdictOf(found)])(changeOf({runs}, 'm'))"
    )


def test_quantiles_are_those_of_students_t_however_many_runs_there_are() -> None:
    found = computed("Array.from({ length: 300 }, (_, i) => studentT(i + 1))")
    assert found == pytest.approx([student_t(n + 1) for n in range(300)], abs=6e-4)
    assert found[29] == pytest.approx(2.0423, abs=2e-4)


def line(**own: Any) -> dict[str, Any]:
    """A line of samples as the page has it; texts are numbers."""
    return {"id": 1, "prompt": 2, "sample": None, "end": None, "turns": [], "policy": None} | own


def test_a_game_is_worth_what_it_was_worth_to_the_policy() -> None:
    turns = [{"agent": agent, "score": score} for agent, score in (("agent_0", 1), ("im", -1))]
    own, itself = line(end="guessed", policy="agent_0", turns=turns), line(end="tie", turns=turns)
    answers = line(turns=[{"agent": a, "score": s} for a, s in (("x", 1), ("y", 2), ("z", None))])
    found = computed(f"{json.dumps([own, itself, answers])}.map(scoreOf)")
    assert found == [1, None, 1.5]


def test_samples_of_two_runs_are_paired_by_prompt_and_number() -> None:
    left = [line(n=1), line(n=2), line(n=3, prompt=3)]
    right = [line(n=4), line(n=5), line(n=6, prompt=4)]
    pairs = f"pairsOf({json.dumps({'lines': left})}, {json.dumps({'lines': right})})"
    found = computed(
        f"(({{ pairs, common }}) => [pairs.map((p) => p.map((l) => l.n)), common])({pairs})"
    )
    assert found == [[[1, 4], [2, 5]], True]


def test_the_interval_is_that_of_the_mean() -> None:
    half = student_t(2) * (standard_error([0.1, 0.2, 0.6]) or 0.0)
    assert computed("halfInterval([0.1, 0.2, 0.6])") == pytest.approx(half, rel=1e-3)
    assert computed("halfInterval([0.1])") is None


@pytest.mark.slow
def test_equal_differences_have_no_interval_and_no_verdict() -> None:
    assert change_of((0.5, 0.5625), (0.25, 0.3125)) == [None, None, ""]
    # 0.3 - 0.2 and 0.8 - 0.7 differ by rounding alone
    assert change_of((0.2, 0.3), (0.7, 0.8)) == [None, None, ""]
    assert change_of((0.0, 0.0), (0.0, 0.0)) == [None, None, ""]
    low, high, verdict = change_of((0.5, 0.7), (0.5, 0.701))
    assert 0.19 < low < 0.2 < high < 0.21 and verdict == "rose"
    assert change_of((0.5, 0.7)) == [0.1, 0.3, "rose"]


@pytest.mark.slow
def test_equal_win_rates_have_the_interval_of_their_standard_errors() -> None:
    def half(*errors: float | None) -> Any:
        return computed(f"halfFromErrors({json.dumps(errors)})")

    assert half(0.1) == pytest.approx(0.196, abs=1e-4)
    assert half(0.3, 0.4) == pytest.approx(1.96 * 0.5 / 2, abs=1e-4)
    assert half(0.1, None) is None and half(0.0, 0.0) is None


def test_a_cell_of_the_matrix_says_what_its_interval_is_from() -> None:
    def cell(*runs: tuple[float, float | None]) -> Any:
        known = [
            {"eval/win_rate": rate} | ({} if error is None else {"eval/win_rate_se": error})
            for rate, error in runs
        ]
        found = computed(f"cellOf({json.dumps(known)}, 'scripted')")
        return found["text"], found["title"]

    words = "95 % interval over words, from the standard error"
    assert cell((0.5, 0.1)) == ("50 % ± 20", words)
    assert cell((0.5, 0.1), (0.5, 0.1)) == ("50 % ± 14", words)
    assert cell((0.5, None), (0.5, None)) == ("50 %", "")
    assert cell((0.5, 0.1), (0.51, 0.1)) == ("51 % ± 6", "95 % interval over 2 runs")


def test_a_band_has_no_width_where_runs_agree() -> None:
    lines = "[{x: [0, 1], y: [0.5, 0.4]}, {x: [0, 1], y: [0.5, 0.6]}]"
    found = computed(f"pooled({lines}, 'interval')")
    assert found["low"][0] == found["high"][0] == 0.5
    assert found["low"][1] < -0.5 and found["high"][1] > 1.5
