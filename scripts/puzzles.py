"""Write the files of experiment=plan_path: puzzles, and others with their solutions to imitate.

python scripts/puzzles.py outputs/puzzles
"""

import argparse
import json
import random
from collections.abc import Callable, Collection, Iterator
from itertools import product
from pathlib import Path

from cory.assets.team import puzzles as team

CELLS = (0, 1, 2, 4, 5, 6, 8, 9, 10)  # of a maze of 3 x 3; between its rows is a /
EMPTY = 5  # cells of a Sudoku
Act = Callable[[str, str], str]
walk: Act = team.walk  # examples have no types
fill: Act = team.fill


def maze(draw: random.Random) -> str:
    """A way from S to G over at least four cells; of the others 22 % are walls, as in Plan-Path."""
    way = [draw.choice(CELLS)]
    while len({*way}) < 4:
        near = [way[-1] + step for step in team.STEPS.values()]
        way.append(draw.choice([cell for cell in near if cell in CELLS]))
    signs = {cell: "." if cell in way or draw.random() < 0.78 else "#" for cell in CELLS}
    signs |= {3: "/", 7: "/", way[0]: "S", way[-1]: "G"}
    return "".join(signs[cell] for cell in range(11))


def sudoku(draw: random.Random) -> str:
    """Four rows of four digits, _ for an empty cell; there may be several solutions."""
    digits = str.maketrans("1234", "".join(draw.sample("1234", 4)))
    grid = [*"1234/3412/2143/4321".translate(digits)]
    for cell in draw.sample([cell for cell in range(19) if cell % 5 < 4], EMPTY):
        grid[cell] = "_"
    return "".join(grid)


def way(grid: str) -> str:
    """The moves of a shortest way from S to G."""
    reached, seen = [(grid, "")], {grid}
    for at, moves in reached:  # grows
        for step in team.STEPS:
            there = walk(at, step)
            if "G" not in there:
                return moves + step
            if there not in seen:
                seen.add(there)
                reached.append((there, moves + step))
    raise ValueError(f"{grid} has no way")


def digits(grid: str) -> str:
    """What goes into the empty cells, one after another."""
    tries = map("".join, product("1234", repeat=grid.count("_")))
    return next(one for one in tries if "_" not in fill(grid, one))


def puzzles(count: int) -> Iterator[dict[str, str]]:
    """Rows with a puzzle of each kind; none is there twice."""
    draw = random.Random(0)
    made: dict[str, dict[str, None]] = {"maze": {}, "sudoku": {}}
    for name, make in (("maze", maze), ("sudoku", sudoku)):
        while len(made[name]) < count:
            made[name][make(draw)] = None
    for number, pair in enumerate(zip(*made.values(), strict=True)):
        yield {"prompt": f"Puzzle {number}", **dict(zip(made, pair, strict=True))}


def solved(count: int, known: Collection[str]) -> Iterator[dict[str, str]]:
    """What the agents are shown of puzzles that are not `known`, with answers for algorithm=sft."""
    draw = random.Random(1)
    for _ in range(count):
        for make, act, solve in ((maze, walk, way), (sudoku, fill, digits)):
            while (grid := make(draw)) in known:
                pass
            answer = solve(grid)
            tried = act(grid, answer[: draw.randint(0, len(answer))])
            for shown in (f"{grid} Tool:", f"{grid} Tool: {tried} Planner:"):
                yield {"prompt": shown, "answer": f" {answer}"}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="for puzzles.jsonl and solved.jsonl")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    asked = list(puzzles(800))
    known = {row[kind] for row in asked for kind in ("maze", "sudoku")}
    for name, rows in (("puzzles", asked), ("solved", solved(10_000, known))):
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
