"""Scripts start; the page of settings; mistakes in steps; toy game and skill model by hand."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.collaboration_game import (
    EQUILIBRIA,
    Game,
    collaboration,
    constant,
    exactly,
    joint,
    response,
    uniform,
)
from scripts.puzzles import fill, puzzles, solved, walk
from scripts.settings import PAGE, page
from scripts.skills import ratio, specialities, trajectory, update
from scripts.step_documents import worked
from tests.support.commands import ROOT, Command

# in environments of their own; and what is imported by another
ELSEWHERE = {"golden", "golden_estimators", "computed", "collaboration_game", "skills", "peers"}
ELSEWHERE |= {"archive", "figures", "papers"}
SCRIPTS = sorted({path.stem for path in (ROOT / "scripts").glob("*.py")} - ELSEWHERE)
# one process, which imports once for all of them
START = """
import runpy, sys
folder, *names = sys.argv[1:]
sys.path[0] = folder
for name in names:
    sys.argv = [f"{name}.py", "--help"]
    try:
        runpy.run_path(f"{folder}/{name}.py", run_name="__main__")
    except SystemExit as left:
        assert left.code == 0, name
"""


@pytest.mark.slow
def test_scripts_start_as_programs(tmp_path: Path) -> None:
    command = Command(tmp_path, ["-c", START, str(ROOT / "scripts"), *SCRIPTS])
    assert command.wait() == 0, command.err
    for script in SCRIPTS:
        assert f"usage: {script}.py [-h]" in command.out


def test_the_page_is_what_the_script_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
    assert max(map(len, page().splitlines())) <= 120


def test_every_setting_is_explained_where_it_is_first_given() -> None:
    """But for those whose choices say it all."""
    unexplained = re.findall(r"^\| `([\w.]+)` .+\|  \|$", page(), re.MULTILINE)
    assert set(unexplained) == {"evaluation.split"}


def test_later_steps_go_on_from_a_mistake() -> None:
    wrong = {"4 * 6": 34, "41 - 9": 30}
    said = worked("4 * 6 = 24. 7 + 24 = 31. 31 - 9 = 22.", lambda step, true: wrong.get(step, true))
    assert said == "4 * 6 = 34. 7 + 34 = 41. 41 - 9 = 30."
    shared = worked(
        "17 - 5 = 12 stamps to share. 12 / 2 = 6.",
        lambda step, true: 15 if step == "17 - 5" else true,
    )
    assert shared == "17 - 5 = 15 stamps to share. 15 / 2 = 7."


GAME = Game(6, uniform(4), 1, 0.5, 0.3)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_two_turns_by_hand_against_a_fixed_opponent() -> None:
    game, tau, pi = Game(2, exactly(1), 1, 0.5, 0.25), 0.5, 0.6
    # turn 2: logits 1 / .5 against .5 / .5 with synergy, .25 / .5 against .5 / .5 without
    after, last = sigmoid(1.0), sigmoid(-0.5)
    worth_after = 0.5 * math.log(math.exp(2) + math.exp(1))
    worth_last = 0.5 * math.log(math.exp(0.5) + math.exp(1))
    # turn 1: .25 + .6 worth_after + .4 worth_last against .5 + worth_last
    first = sigmoid((0.25 + 0.6 * (worth_after - worth_last) - 0.5) / 0.5)
    own = response(game, constant(game, pi), tau)
    assert own.before[0][0] == pytest.approx(first)
    assert own.before[1][0] == pytest.approx(last)
    assert own.after == pytest.approx((after, after))
    reached = first * pi
    assert collaboration(game, own, constant(game, pi)) == pytest.approx(
        [first, reached * after + (1 - reached) * last]
    )


@pytest.mark.parametrize("equilibrium", EQUILIBRIA)
@pytest.mark.parametrize("tau", [0.01, 0.03, 0.1, 0.5])
@pytest.mark.parametrize("threshold", [uniform(4), exactly(3), (0.5, 0.0, 0.0, 0.5)])
def test_both_answer_each_other_in_an_equilibrium(tau, threshold, equilibrium) -> None:
    game = replace(GAME, threshold=threshold)
    own = joint(game, tau, equilibrium)
    answer = response(game, own, tau)
    for mine, best in zip((*own.before, own.after), (*answer.before, answer.after), strict=True):
        assert mine == pytest.approx(best, abs=1e-9)


def test_eq_2_by_hand() -> None:
    # .5 * 1.5, .3 * 1.3, .2 * 1.2 and their sum, 1.38
    assert update([0.5, 0.3, 0.2]) == pytest.approx([0.75 / 1.38, 0.39 / 1.38, 0.24 / 1.38])
    # before the first division by the sum: eq. 2 divides by it itself
    assert update([1.0, 0.6, 0.4]) == pytest.approx(update([0.5, 0.3, 0.2]))
    assert ratio([0.5, 0.3, 0.2], 0) == pytest.approx(1.5 / 1.38)  # eq. 3
    curve = trajectory([0.5, 0.3, 0.2], 2)
    assert curve[1] == update(curve[0]) and curve[2] == update(curve[1])
    assert curve[0] == [0.5, 0.3, 0.2] and len(curve) == 3


def test_three_models_often_choose_the_same_topic() -> None:
    """Independently and with equal chances: 1/9, 6/9, 2/9 for one, two, three different topics."""
    found = specialities(2000, 3, 3, 500, 15, seed=0)
    assert found == pytest.approx({1: 1 / 9, 2: 6 / 9, 3: 2 / 9}, abs=0.04)


def test_solutions_of_puzzles_solve_them() -> None:
    rows = [*solved(20, ())]
    assert len(rows) == 80 and {row["prompt"].split()[-1] for row in rows} == {"Tool:", "Planner:"}
    for row in rows:
        grid, *_ = row["prompt"].split()
        act = walk if "S" in grid else fill
        after = act(grid, row["answer"])
        assert "G" not in after and "_" not in after
        assert {*act(grid, row["answer"][:-1])} & {*"G_"}  # no digit or step too many
    made = [*puzzles(200)]
    known = {row[kind] for row in made for kind in ("maze", "sudoku")}
    assert not known & {row["prompt"].split()[0] for row in solved(200, known)}
    assert len({row["maze"] for row in made}) == len({row["sudoku"] for row in made}) == 200
