"""`cory-new`: the folder that it makes, and that what its README says to type works there."""

import asyncio
import json
import re
import runpy
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from cory import load_team
from cory.config import ConfigError
from cory.report import compare
from cory.runtime import new_project as new
from cory.runtime.new_project import ASSETS
from tests.support.commands import Command, metrics
from tests.support.warm import Fork, WarmCommand


def compare_runs(words: list[str]) -> None:
    """`cory-compare <words>`"""
    sys.argv = ["cory-compare", *words]
    compare.main()


def test_what_is_there_is_not_touched(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "mine").touch()
    monkeypatch.setattr(sys, "argv", ["cory-new", str(tmp_path)])
    with pytest.raises(SystemExit, match=f"error: .*File exists: '{tmp_path}'"):
        new.main()
    assert [*tmp_path.iterdir()] == [tmp_path / "mine"]


@pytest.mark.slow
def test_what_its_readme_says_to_type_works(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    source = "from cory.runtime.new_project import main; main()"
    command = Command(tmp_path, ["-c", source, str(folder)])
    assert command.wait() == 0 and command.out.endswith(
        f"cd {folder}; README.md says what to type\n"
    )
    typed = re.findall(r"^    (cory-.*?) *(?:#.*)?$", (folder / "README.md").read_text(), re.M)
    assert len(typed) == 7
    short = ["algorithm.iterations=2", "evaluation.samples=1"]
    short += ["algorithm.prompts_per_iteration=16", "algorithm.minibatch_size=16"]
    for words in typed:
        name, *rest = words.split()
        few = [*short] if name == "cory-train" else []
        few += ["seed=0"] if any(word.startswith("sweep=") for word in rest) else []  # of several
        started = (
            WarmCommand(folder, [*rest, *few])
            if name == "cory-train"
            else Fork(folder, partial(compare_runs, rest))
        )
        assert started.wait(600) == 0, (words, started.out, started.err)
    assert "the single agent" in started.out  # beside which the team was not sampled equally here
    runs = sorted(path.parent for path in folder.rglob("record.json"))
    assert len(runs) == 3 + 4 + 2
    for run_dir in runs:
        assert all(0 < line["objective/score/agent_0"] < 1 for line in metrics(run_dir))
    for name in ("curves.png", "sweep.png"):
        assert (folder / name).stat().st_size > 10_000


def test_the_page_shows_an_example_of_a_team_whole() -> None:
    page = (ASSETS.parents[1] / "docs" / "own.md").read_text()
    text = (ASSETS / "team" / "calculator.py").read_text()
    assert text.split('"""\n\n', 1)[1] in page


def test_puzzles_and_what_a_turn_pays() -> None:
    puzzles = runpy.run_path(str(ASSETS / "team" / "puzzles.py"))
    walk, fill = puzzles["walk"], puzzles["fill"]
    maze = "S.#/..G/#.."
    assert (walk(maze, "rd"), walk(maze, "Up, left")) == ("..#/.SG/#..", maze)  # u, l: walls
    assert walk(maze, "RRDR") == "..#/..S/#.." and walk(maze, "RRDRL") == "..#/.S./#.."
    grid = "__2_/_1__/3___/____"  # its box has 1, its row 2, its column 3
    assert [fill(grid, digit) for digit in "1234"] == [grid, grid, grid, "4" + grid[1:]]
    assert fill(grid, "43") == "432_/_1__/3___/____" == fill(grid, "x 4, 3 and 21")

    class Agent:
        def __init__(self, *replies: str) -> None:
            self.replies, self.shown = list(replies), list[str]()

        async def say(self, text: str) -> SimpleNamespace:
            self.shown.append(text)
            return SimpleNamespace(text=self.replies.pop(0))

    tool, planner = Agent("RRDR", "", "D"), Agent("R", "D", "R")
    paid = asyncio.run(puzzles["solve"](SimpleNamespace(tool=tool, planner=planner), maze, walk))
    assert paid == {"tool": [1, 0, 1], "planner": [0, 0, 2]}
    assert planner.shown[0] == "S.#/..G/#.. Tool: ..#/..S/#.. Planner:"
    assert tool.shown[1:] == [".S#/..G/#.. Tool:", "..#/.SG/#.. Tool:"]
    rows = (ASSETS / "team" / "puzzles.jsonl").read_text().splitlines()
    assert [len({json.loads(row)[name] for row in rows}) for name in ("maze", "sudoku")] == [40, 40]
    for row in map(json.loads, rows):
        assert solvable(row["maze"], walk, "UDLR") and solvable(row["sudoku"], fill, "1234")
        for play, column, act in (("plan_path", "maze", walk), ("sudoku", "sudoku", fill)):
            team = SimpleNamespace(tool=Agent(*["RDLU4321"] * 4), planner=Agent(*[""] * 4))
            asyncio.run(puzzles[play](SimpleNamespace(columns=row), team))
            tried = act(row[column], "RDLU4321")
            assert team.planner.shown == [f"{row[column]} Tool: {tried} Planner:"] * 4


def solvable(start: str, act: Callable[[str, str], str], replies: str) -> bool:
    """Whether replies of one letter each lead to a text without goal or empty cell."""
    seen, left = {start}, [start]
    while left:
        left = [new for old in left for sign in replies if (new := act(old, sign)) not in seen]
        seen |= {*left}
    return any("G" not in text and "_" not in text for text in seen)


@pytest.mark.slow
def test_the_examples_of_teams_are_trained(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "mine"
    monkeypatch.setattr(sys, "argv", ["cory-new", "--team", str(folder)])
    new.main()
    typed = re.findall(r"^    cory-train (.*)$", (folder / "README.md").read_text(), re.M)
    few = ["algorithm.prompts_per_iteration=8", "algorithm.minibatch_size=8"]
    few += ["algorithm.iterations=1", "evaluation.samples=1", "evaluation.prompts=4"]
    speakers = {
        "guess": ["guesser"],
        "split": ["teller", "answerer"],
        "nim": ["first", "second"],
        "calculator": ["solver", "checker"],
        "debate": ["first", "second"],
        "puzzles": ["tool", "planner"],
        "sudoku": ["tool", "planner"],
    }
    for name, words in zip(speakers, typed, strict=True):  # in the README's order
        started = WarmCommand(folder, [*shlex.split(words), *few, f"run_dir={name}"])
        assert started.wait(600) == 0, (words, started.out, started.err)
        paid_by = "reward=exact_match scores" if name == "debate" else "algorithm.play returns them"
        assert f"rewards: {paid_by}" in started.err
        assert f"\n  {speakers[name][0]}: " in started.out
        (line,) = metrics(folder / name)
        for who in [*speakers[name], "team"]:
            assert f"eval/score/{who}" in line and f"rollout/return/{who}" in line
        agents = {path.name for path in (folder / name / "agents").iterdir()}
        assert agents == {*speakers[name]}
    monkeypatch.chdir(folder)
    said = load_team("nim", "cpu").ask("Heap 9", columns={"heap": 9}, seed=3)
    assert said[0].role == "first" and [one.role for one in said[1:2]] in ([], ["second"])
    with pytest.raises(ConfigError, match=r"nim\.py, line 7: KeyError"):
        load_team("nim", "cpu").ask("Heap 9")
