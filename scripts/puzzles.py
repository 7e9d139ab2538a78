"""Write puzzles for the team in cory/assets/team/puzzles.py, as JSON lines.

python scripts/puzzles.py 40 > cory/assets/team/puzzles.jsonl
"""

import argparse
import json
import random

CELLS = (0, 1, 2, 4, 5, 6, 8, 9, 10)  # of a maze of 3 x 3; between its rows is a /
NEIGHBOURS = (-4, -1, 1, 4)
EMPTY = 3  # cells of a Sudoku


def maze(draw: random.Random) -> str:
    """A way from S to G over at least four cells; of the others 22 % are walls, as in Plan-Path."""
    way = [draw.choice(CELLS)]
    while len({*way}) < 4:
        way.append(draw.choice([cell for cell in CELLS if cell - way[-1] in NEIGHBOURS]))
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, help="how many of each")
    draw, count = random.Random(0), parser.parse_args().count
    made: dict[str, dict[str, None]] = {"maze": {}, "sudoku": {}}  # none is there twice
    for name, make in (("maze", maze), ("sudoku", sudoku)):
        while len(made[name]) < count:
            made[name][make(draw)] = None
    for number, pair in enumerate(zip(*made.values(), strict=True)):
        print(json.dumps({"prompt": f"Puzzle {number}", **dict(zip(made, pair, strict=True))}))
