"""Plan-Path and Sudoku 4x4 (Zhao et al., 2025): a tool tries on a copy, then the planner acts.

A turn pays both for the planner's success, and each its own.
"""

import re

STEPS = {"U": -4, "D": 4, "L": -1, "R": 1}  # in a text of three rows, a / between them


async def solve(team, grid, act):
    paid = {"tool": [], "planner": []}
    for _ in range(4):
        tried = act(grid, (await team.tool.say(f"{grid} Tool:")).text)
        plan = await team.planner.say(f"{grid} Tool: {tried} Planner:")
        grid = act(grid, plan.text)
        solved, own = (float(not {*text} & {*"G_"}) for text in (grid, tried))
        paid["tool"].append(own + solved)
        paid["planner"].append(solved + solved)
        if solved:
            break
    return paid


def walk(grid, text):
    """Each U, D, L, R is a step of S, unless it leads into a wall #; G is the goal."""
    for step in re.findall("[UDLR]", text.upper()):
        to = grid.index("S") + STEPS[step]
        if 0 <= to < len(grid) and grid[to] in ".G":
            grid = grid[:to].replace("S", ".") + "S" + grid[to + 1 :].replace("S", ".")
    return grid


def fill(grid, text):
    """Digits go into the empty cells _ one after another, until the rules forbid one."""
    for digit in re.findall("[1-4]", text):
        at = grid.find("_")
        row, column, box = at // 5 * 5, at % 5, at // 10 * 10 + at % 5 // 2 * 2
        near = grid[row : row + 4] + grid[column::5] + grid[box : box + 2] + grid[box + 5 : box + 7]
        if at < 0 or digit in near:
            break
        grid = f"{grid[:at]}{digit}{grid[at + 1 :]}"
    return grid


async def plan_path(prompt, team):
    return await solve(team, prompt.columns["maze"], walk)


async def sudoku(prompt, team):
    return await solve(team, prompt.columns["sudoku"], fill)
