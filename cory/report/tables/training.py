"""Results of pages about training runs: curves, frontiers, pass@k, grid searches."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.archive import Archived
from cory.report.records.collect import CountedRuns
from cory.report.tables.markdown import DASH, plus_minus
from cory.report.tables.numbers import (
    PaperRow,
    agent_label,
    agents_in_metrics,
    at_end,
    last,
    lines_of,
    named,
)
from cory.report.tables.table import (
    Column,
    TableLine,
    lines,
    number,
    over_agents,
    render,
    seeds,
    share,
    trained,
)

SCORES = {
    "objective/score": "task reward",
    "objective/kl": "KL (nats)",
    "objective/combined": "combined reward",
}
COLLAPSE = {"rollout/distinct_2": "distinct-2", "rollout/truncated_share": "cut off at the limit"}
HELD_OUT = number("held-out task reward", "eval/score/{agent}")
NOT_PRINTED = "no number printed"
RATE_KINDS = {  # how the metrics' names begin -> heading
    "eval/any_of_": "The paper's measure: at least one of the first k responses is right",
    "eval/pass_at_": "pass@k, unbiased",
}
Point = tuple[float, float]  # task reward and negative KL
ETA = Column("eta", text=lambda line: str(line.row["eta"]))


def curves_results(table: Table, found: CountedRuns) -> list[str]:
    """Where every agent's training ends."""
    columns = [*trained(SCORES, table), HELD_OUT, *trained(COLLAPSE, table), *paper(table)]
    return [
        f"{over_window(table)} Held-out: one agent alone, after the last iteration. Distinct-2: "
        "different pairs of tokens over all pairs; a low number is a sign of collapse. LLM1 and "
        "LLM2 are the agents; they keep their weights when roles are exchanged.",
        render(["method"], lines(table.rows, found, over_agents), [*columns, seeds(table, found)]),
    ]


def pareto_results(table: Table, found: CountedRuns) -> list[str]:
    """Task reward against KL for every coefficient."""
    body = lines(table.rows, found, over_agents)
    points: dict[str, list[Point]] = {}
    for line in body:
        points.setdefault(line.names[0], []).extend(mean_point(table, line))
    edges = {label: frontier(own) for label, own in points.items()}

    def on_frontier(line: TableLine) -> str:
        own = mean_point(table, line)
        return DASH if not own else "yes" if own[0] in edges[line.names[0]] else "no"

    reward, kl, _ = trained(SCORES, table)
    less = Column("-KL (nats)", kl.metrics, lambda kls: plus_minus([-v for v in kls]), kl.read)
    on = Column("on its frontier", text=on_frontier)
    return [
        f"{over_window(table)} A point is on its method's frontier when no other point of the "
        "method has at least its task reward at no more KL.",
        render(["method"], body, [ETA, reward, less, on, *paper(table), seeds(table, found)]),
    ]


def end_points(table: Table, line: TableLine) -> tuple[list[float], list[float]]:
    """Task rewards and KLs at the end of an agent's runs."""
    score, kl = (f"objective/{name}/{line.words['agent']}" for name in ("score", "kl"))
    return at_end(line.runs, score, table.window), at_end(line.runs, kl, table.window)


def mean_point(table: Table, line: TableLine) -> list[Point]:
    """The mean over seeds; empty where nothing was run."""
    scores, kls = end_points(table, line)
    return [(float(np.mean(scores)), -float(np.mean(kls)))] if scores else []


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points that no other one equals or betters in both numbers, by the first of them."""
    kept: list[Point] = []
    for x, y in sorted(set(points), reverse=True):
        if not kept or y > kept[-1][1]:
            kept.append((x, y))
    return kept[::-1]


def pass_at_k_results(table: Table, found: CountedRuns) -> list[str]:
    """The share of problems passed with k responses, by who answers."""
    blocks = [
        "Mean ± sample standard deviation over seeds, each on the whole test split, one agent "
        "alone with the plain question unless a role or the team is named. An observer sees the "
        "pioneer's sampled response; the team passes when any agent's response among the first k "
        "does."
    ]
    for prefix, heading in RATE_KINDS.items():
        ks = named(lines_of(found.runs), rf"{prefix}(\d+)/.+") or ["1"]
        columns = [share(f"k = {k}", f"{prefix}{k}/{{who}}") for k in ks]
        columns += [share("greedy", "eval/greedy/{who}"), *_printed(table, prefix)]
        body = lines(table.rows, found, partial(_over_answering, prefix))
        blocks += [f"### {heading}", render(["who"], body, [*columns, seeds(table, found)])]
    return blocks


def _over_answering(
    prefix: str, row: PaperRow, runs: list[Archived]
) -> Iterable[tuple[list[str], dict[str, Any]]]:
    """A line for every agent, role and team; a single one where nothing was run."""
    agents = agents_in_metrics(lines_of(runs))
    whos = sorted(named(lines_of(runs), rf"{prefix}\d+/(.+)"))
    for who in whos:
        alone = who.startswith("agent_")
        name = agent_label(row["label"], who, agents) if alone else f"{row['label']}, {who}"
        yield [name], {"who": who}
    if not whos:
        yield [row["label"]], {"who": ""}


def _printed(table: Table, prefix: str) -> list[Column]:
    """The paper's number for one response, and ours less it."""
    if table.scale != PAPER_SCALE:
        return []

    def printed(line: TableLine) -> float | None:
        who = line.words["who"]
        own = not who or (who.startswith("agent_") and prefix == "eval/any_of_")
        return float(line.row["printed"]) if own and "printed" in line.row else None

    def theirs(line: TableLine) -> str:
        number = printed(line)
        return NOT_PRINTED if number is None else f"{100 * number:g} %"

    def difference(line: TableLine) -> str:
        number, values = printed(line), last(line.runs, f"{prefix}1/{line.words['who']}")
        if number is None or not values:
            return DASH
        return f"{100 * (np.mean(values) - number):+.1f} points"

    return [Column("paper, k = 1", text=theirs), Column("difference", text=difference)]


def grid_results(table: Table, found: CountedRuns) -> list[str]:
    """Every cell of a grid search."""
    read = partial(at_end, window=table.window, at="unsteadiness")
    unsteady = Column("unsteadiness", ("objective/combined/agent_0",), plus_minus, read)
    columns = [*trained(SCORES, table, "agent_0"), unsteady, *paper(table), seeds(table, found)]
    body = lines(table.rows, found, lambda row, runs: [([row["lr"], row["eta"]], {})])
    return [
        f"{over_window(table)} Unsteadiness: the variance of the combined reward over the "
        "iterations of a run's last half, less the mean of the squared standard errors of their "
        "mean scores; of what is left the root, or 0.",
        render(["learning rate", "eta"], body, columns),
    ]


def over_window(table: Table) -> str:
    """What numbers of training are."""
    return (
        f"Mean over the last {table.window} iterations of each run, then mean ± sample standard "
        "deviation over seeds."
    )


def paper(table: Table) -> list[Column]:
    """The paper's numbers stand beside runs at its own scale only; of training none is printed."""
    own = table.scale == PAPER_SCALE and table.in_paper
    return [Column("paper", text=lambda line: NOT_PRINTED)] if own else []
