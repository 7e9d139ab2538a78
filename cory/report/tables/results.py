"""The numbers of a table or figure, ours beside the paper's, one layout per kind of page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from cory.report.claims.judge import measure
from cory.report.figures.curves import agent_label
from cory.report.figures.pareto import Point, frontier
from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.archive import Archived
from cory.report.records.collect import Collected
from cory.report.tables import accuracies, debates, iterations, matches, reasoning
from cory.report.tables.markdown import NONE, cell, markdown, percent, plus_minus
from cory.report.tables.numbers import agents_in, at_end, labelled, last, runs_of, seeds_text

COLUMNS = {
    "objective/score": "task reward",
    "objective/kl": "KL (nats)",
    "objective/combined": "combined reward",
}
COLLAPSE = {"rollout/distinct_2": "distinct-2", "rollout/truncated_share": "cut off at the limit"}
NOT_PRINTED = "no number printed"
LONGEST = 700  # characters of a response that are shown


def results(table: Table, found: Collected) -> list[str]:
    """What stands under `Results`."""
    return {
        "curves": _curves,
        "pareto": _pareto,
        "pass_at_k": _pass_at_k,
        "grid": _grid,
        "examples": _examples,
        "turns": debates.turns,
        "transitions": debates.transitions,
        "alone": debates.alone,
        "verifier": debates.verifier,
        "matches": matches.matches,
        "dialogues": matches.dialogues,
        "benchmarks": reasoning.benchmarks,
        "factor": reasoning.factor,
        "accuracy": accuracies.accuracies,
        "iterations": iterations.iterations,
        "scatter": iterations.scatter,
    }[table.kind](table, found)


def _curves(table: Table, found: Collected) -> list[str]:
    paper = _paper_columns(table)
    head = ["method", *COLUMNS.values(), "held-out task reward", *COLLAPSE.values(), *paper]
    rows = []
    for row, label, agent in labelled(table, found):
        runs = runs_of(found, row)
        seeds = seeds_text(table, found, row["experiment"])
        if agent is None:
            rows.append([label, *[NONE] * (len(head) - 1 - len(paper)), *_no_number(paper), seeds])
            continue
        numbers = [plus_minus(at_end(runs, f"{key}/{agent}", table.window)) for key in COLUMNS]
        held_out = plus_minus(last(runs, f"eval/score/{agent}"))
        collapse = [plus_minus(at_end(runs, f"{key}/{agent}", table.window)) for key in COLLAPSE]
        rows.append([label, *numbers, held_out, *collapse, *_no_number(paper), seeds])
    return [
        f"Mean over the last {table.window} iterations of each run, then mean ± sample standard "
        "deviation over seeds. Held-out: one agent alone, after the last iteration. Distinct-2: "
        "different pairs of tokens over all pairs; a low number is a sign of collapse. LLM1 and "
        "LLM2 are the agents; they keep their weights when roles are exchanged.",
        markdown([*head, "seeds"], rows),
    ]


def _pareto(table: Table, found: Collected) -> list[str]:
    paper = _paper_columns(table)
    points = pareto_points(table, found)
    edges = {
        label: frontier([Point(*point).mean for point in own]) for label, own in points.items()
    }
    rows = []
    for row in table.rows:
        seeds = seeds_text(table, found, row["experiment"])
        labels = [label for label in points if label.startswith(row["label"])]
        mine = [
            (label, point) for label in labels for point in points[label] if point[0] == row["eta"]
        ]
        if not mine:
            rows.append([row["label"], row["eta"], NONE, NONE, NONE, *_no_number(paper), seeds])
        for label, point in mine:
            _, scores, kls = point
            on = Point(*point).mean in edges[label]
            rows.append(
                [
                    label,
                    row["eta"],
                    plus_minus(scores),
                    plus_minus([-kl for kl in kls]),
                    "yes" if on else "no",
                    *_no_number(paper),
                    seeds,
                ]
            )
    head = ["method", "eta", "task reward", "-KL (nats)", "on its frontier", *paper, "seeds"]
    return [
        f"Mean over the last {table.window} iterations of each run, then mean ± sample standard "
        "deviation over seeds. A point is on its method's frontier when no other point of the "
        "method has at least its task reward at no more KL.",
        markdown(head, rows),
    ]


def pareto_points(
    table: Table, found: Collected
) -> dict[str, list[tuple[str, list[float], list[float]]]]:
    """Method and agent -> eta, task rewards and KLs over seeds, in the order of the rows."""
    points: dict[str, list[tuple[str, list[float], list[float]]]] = {}
    for row, label, agent in labelled(table, found):
        if agent is not None:
            runs = runs_of(found, row)
            scores = at_end(runs, f"objective/score/{agent}", table.window)
            kls = at_end(runs, f"objective/kl/{agent}", table.window)
            points.setdefault(label, []).append((row["eta"], scores, kls))
    return points


def _pass_at_k(table: Table, found: Collected) -> list[str]:
    blocks = [
        "Mean ± sample standard deviation over seeds, each on the whole test split, one agent "
        "alone with the plain question unless a role or the team is named. An observer sees the "
        "pioneer's sampled response; the team passes when any agent's response among the first k "
        "does."
    ]
    for prefix, kind in (("eval/any_of_", "The paper's measure: at least one of the first k "
                          "responses is right"),
                         ("eval/pass_at_", "pass@k, unbiased")):  # fmt: skip
        blocks += [f"### {kind}", _rates(table, found, prefix)]
    return blocks


def _rates(table: Table, found: Collected, prefix: str) -> str:
    """One line per method and who answers, one column per k."""
    ks = sorted({k for run in found.runs for k, _ in passes(run, prefix)}) or [1]
    paper = ["paper, k = 1", "difference"] if table.scale == PAPER_SCALE else []
    rows = []
    for row in table.rows:
        runs = runs_of(found, row)
        seeds = seeds_text(table, found, row["experiment"])
        whos = sorted({who for run in runs for _, who in passes(run, prefix)})
        if not whos:
            printed = _difference(row, [], paper)
            rows.append([row["label"], *[NONE] * (len(ks) + 1), *printed, seeds])
        for who in whos:
            rates = [percent(last(runs, f"{prefix}{k}/{who}")) for k in ks]
            greedy = percent(last(runs, f"eval/greedy/{who}"))
            alone = who.startswith("agent_")
            own = row if alone and prefix == "eval/any_of_" else {}
            printed = _difference(own, last(runs, f"{prefix}1/{who}"), paper)
            name = agent_label(row["label"], who, agents_in(runs)) if alone else None
            rows.append([name or f"{row['label']}, {who}", *rates, greedy, *printed, seeds])
    return markdown(["who", *[f"k = {k}" for k in ks], "greedy", *paper, "seeds"], rows)


def passes(run: Archived, prefix: str) -> set[tuple[int, str]]:
    """k and who, of every estimate of a kind."""
    found = (re.fullmatch(rf"{prefix}(\d+)/(.+)", name) for line in run.lines for name in line)
    return {(int(match[1]), match[2]) for match in found if match}


def _grid(table: Table, found: Collected) -> list[str]:
    paper = _paper_columns(table)
    rows = []
    for row in table.rows:
        runs = runs_of(found, row)
        numbers = [plus_minus(at_end(runs, f"{key}/agent_0", table.window)) for key in COLUMNS]
        wobble = [
            measure(run.lines, "objective/combined/agent_0", "last_half_std", table.window)
            for run in runs
        ]
        seeds = seeds_text(table, found, row["experiment"])
        rows.append(
            [row["lr"], row["eta"], *numbers, plus_minus(wobble), *_no_number(paper), seeds]
        )
    return [
        f"Mean over the last {table.window} iterations of each run, then mean ± sample standard "
        "deviation over seeds. Unsteadiness: standard deviation of the combined reward over the "
        "iterations of a run's last half.",
        markdown(
            ["learning rate", "eta", *COLUMNS.values(), "unsteadiness", *paper, "seeds"], rows
        ),
    ]


def _examples(table: Table, found: Collected) -> list[str]:
    head = ["method", "distinct-2", "cut off at the limit", "held-out task reward", "seeds"]
    rows = []
    for row, label, agent in labelled(table, found):
        runs = runs_of(found, row)
        numbers = [NONE] * 3
        if agent is not None:
            numbers = [plus_minus(at_end(runs, f"{key}/{agent}", table.window)) for key in COLLAPSE]
            numbers.append(plus_minus(last(runs, f"eval/score/{agent}")))
        rows.append([label, *numbers, seeds_text(table, found, row["experiment"])])
    blocks = [
        f"Of training's last {table.window} iterations: distinct-2 (different pairs of tokens over "
        "all pairs) and the share of responses that were cut off at the length limit.",
        markdown(head, rows),
        "### Responses of seed 0, to what the paper prints",
        f"Responses are shown as they are, cut after {LONGEST} characters. Of the paper's own a "
        "few words are given; its text has them in full.",
    ]
    for number, prompt in enumerate(table.entry["prompts"], 1):
        blocks.append(f"**{number}.** {cell(prompt['text'])}")
        blocks.append(markdown(["who", "greedy", "sampled"], _answers(table, found, prompt)))
    return blocks


def _answers(table: Table, found: Collected, prompt: dict[str, Any]) -> list[list[str]]:
    """What every checkpoint of seed 0 says to one prompt, and what the paper prints."""
    rows = []
    for row, label, agent in labelled(table, found):
        run = found.counted[row["experiment"]].get(0)
        said = {
            probe.how: cell(probe.response, LONGEST)
            for probe in (run.probes if run is not None else [])
            if probe.agent == agent and prompt["text"] in probe.text
        }
        missing = "not run" if run is None else "not asked"
        rows.append([label, said.get("greedy", missing), said.get("sampled", missing)])
    rows += [[f"paper: {who}", words, NONE] for who, words in prompt["paper"].items()]
    return rows


def _paper_columns(table: Table) -> list[str]:
    """The paper's numbers stand beside runs at its own scale only."""
    return ["paper"] if table.scale == PAPER_SCALE and table.in_paper else []


def _no_number(columns: Sequence[str]) -> list[str]:
    return [NOT_PRINTED for _ in columns]


def _difference(row: dict[str, Any], values: Sequence[float], columns: Sequence[str]) -> list[str]:
    """The paper's number, and ours less it."""
    if not columns:
        return []
    if "printed" not in row:
        return [NOT_PRINTED, NONE]
    printed = float(row["printed"])
    ours = f"{100 * (np.mean(values) - printed):+.1f} points" if values else NONE
    return [f"{100 * printed:g} %", ours]
