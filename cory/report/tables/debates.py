"""Results of pages about debates: votes over turns, changed answers, agents alone, verifiers."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.archive import Archived
from cory.report.records.collect import CountedRuns
from cory.report.tables.markdown import DASH, percent
from cory.report.tables.numbers import PaperRow, last, lines_of, named, runs_of, turns_in
from cory.report.tables.second_hand import meaning, second_hand
from cory.report.tables.table import (
    Column,
    TableLine,
    head_of,
    lines,
    names_of,
    render,
    seeds,
    share,
)

FLOWS = {"rr": "right → right", "wr": "wrong → right", "rw": "right → wrong", "ww": "wrong → wrong"}
# metric -> how an answer changed, and with which incentive that is rewarded or punished
REVISIONS = {
    "revision_wr_w": "wrong → right, others wrong (+alpha0)",
    "revision_wr_r": "wrong → right, others right (+alpha1)",
    "revision_rw_w": "right → wrong, others wrong (-alpha0)",
    "revision_rw_r": "right → wrong, others right (-alpha1)",
}
INFLUENCES = {
    "influence_wr_w": "others wrong → right, own answer wrong (+beta0)",
    "influence_wr_r": "others wrong → right, own answer right (+beta1)",
    "influence_rw_w": "others right → wrong, own answer wrong (-beta0)",
    "influence_rw_r": "others right → wrong, own answer right (-beta1)",
}
RATES = REVISIONS | INFLUENCES
# a row's `incentive` -> the rate that it pays for, and the one that it charges for
INCENTIVES = {
    "alpha0": ("revision_wr_w", "revision_rw_w"),
    "alpha1": ("revision_wr_r", "revision_rw_r"),
    "beta0": ("influence_wr_w", "influence_rw_w"),
    "beta1": ("influence_wr_r", "influence_rw_r"),
}
QUALITIES = {
    "eval/verifier_accuracy/natural": "accuracy, all answers",
    "eval/verifier_accuracy/balanced": "accuracy, balanced",
    "eval/verifier_auc/natural": "AUC, all answers",
    "eval/verifier_auc/balanced": "AUC, balanced",
    "eval/verifier_auc/within": "AUC inside questions",
}
POOLED = "team"  # of all turns together
ASKED_ALONE = r"eval/pass_at_1/((?!team).+)"  # who was asked alone


def policies_in(runs: Sequence[Archived]) -> list[str]:
    """The policies that were asked alone, in the order of their numbers."""
    return named(lines_of(runs), ASKED_ALONE)


def policy_words(policy: str) -> str:
    """A policy's name in words: `agent 0, turn 2`."""
    return re.sub(r"_(?=\d)", " ", policy).replace("_turn", ", turn")


def votes(runs: Sequence[Archived]) -> list[Column]:
    """Accuracy of the majority vote after every turn that runs have."""
    steps = turns_in(runs, "eval/vote") or [1]
    return [share(f"vote, turn {turn}", f"eval/vote/turn_{turn}") for turn in steps]


def turns_results(table: Table, found: CountedRuns) -> list[str]:
    """Accuracy after every turn."""
    final = (turns_in(found.runs, "eval/vote") or [1])[-1]
    single = share(f"single answers, turn {final}", f"eval/right/turn_{final}")
    greedy = [
        share(f"greedy vote, turn {turn}", f"eval/greedy_vote/turn_{turn}")
        for turn in turns_in(found.runs, "eval/greedy_vote")[-1:]
    ]
    columns = [*votes(found.runs), single, *greedy, *second_hand(table), seeds(table, found)]
    return [
        "Accuracy on held-out questions, mean ± sample standard deviation over seeds. Vote: the "
        "answer that most debaters give after a turn; a tie counts as the chance to draw a right "
        "one. Single answers: the share of right ones among those of all debaters."
        + (
            " Greedy vote: in debates without sampling, whose accuracy depends on no temperature."
            if greedy
            else ""
        ),
        *meaning(table),
        render(head_of(table), lines(table.rows, found), columns),
    ]


def transitions_results(table: Table, found: CountedRuns) -> list[str]:
    """What became of right and wrong answers from one turn to the next."""
    steps = turns_in(found.runs, "eval/flow_rr")
    places = {f"{turn - 1} → {turn}": f"turn_{turn}" for turn in steps} | {"all": POOLED}
    flows = [share(name, f"eval/flow_{flow}/{{where}}") for flow, name in FLOWS.items()]

    def over_steps(row: PaperRow, runs: list[Archived]) -> list[tuple[list[str], dict[str, Any]]]:
        return [([*names_of(row), step], {"where": where}) for step, where in places.items()]

    body = lines(table.rows, found)
    return [
        "Shares of all single answers by whether they were right at a turn and at the next one, "
        "mean ± sample standard deviation over seeds.",
        render(
            [*head_of(table), "turns"],
            lines(table.rows, found, over_steps),
            [*flows, seeds(table, found)],
        ),
        "### Given what the others said",
        "Of the cases that stand before the arrow, the share that changed as it says, over all "
        "turns. Others: the majority of the other debaters' answers; cases without a majority are "
        "left out. A dash: no such case. In brackets the incentive that the change would earn or "
        "cost (the paper's tables 1 and 2).",
        *(
            render(head_of(table), body, [share(name, pooled(key)) for key, name in rates.items()])
            for rates in (REVISIONS, INFLUENCES)
        ),
        *_changes(table, found),
    ]


def pooled(rate: str) -> str:
    """The metric of a rate over all turns."""
    return f"eval/{rate}/{POOLED}"


def _changes(table: Table, found: CountedRuns) -> list[str]:
    """For rows that pay an incentive: the rates it is about, against the run without incentives."""
    if table.against is None:
        return []
    without = runs_of(found, {"experiment": table.against})

    def over_rates(row: PaperRow, runs: list[Archived]) -> list[tuple[list[str], dict[str, Any]]]:
        return [
            (names_of(row), {"rate": rate, "changed": changed})
            for rate, changed in changes_of(table, found, row).items()
        ]

    def rate(line: TableLine) -> str:
        return str(line.words["rate"])

    columns = [
        Column("rate", text=lambda line: RATES[rate(line)]),
        Column("without", text=lambda line: percent(last(without, pooled(rate(line))))),
        Column("with", text=lambda line: percent(last(line.runs, pooled(rate(line))))),
        Column("change", text=lambda line: points(line.words["changed"])),
        *second_hand(table),
        Column("seeds", text=lambda line: str(len(line.words["changed"]))),
    ]
    # which of the two rates a second-hand number is about is not known: it stands at the first
    body = [
        line if rate(line) == INCENTIVES[line.row["incentive"]][0] else replace(line, row={})
        for line in lines(table.rows, found, over_rates)
    ]
    return [
        "### What each incentive changed",
        "The two rates that an incentive is about, in the run without incentives and in the one "
        "with it; the change is taken seed by seed, over the seeds that both have.",
        *meaning(table),
        render(head_of(table), body, columns),
    ]


def changes_of(table: Table, found: CountedRuns, row: PaperRow) -> dict[str, list[float]]:
    """The rates that a row's incentive is about -> how each seed's changed."""
    assert table.against is not None
    without, own = (found.counted[name] for name in (table.against, row["experiment"]))
    changes: dict[str, list[float]] = {}
    for rate in INCENTIVES.get(row.get("incentive", ""), ()):
        pairs = [
            (last([without[seed]], pooled(rate)), last([own[seed]], pooled(rate)))
            for seed in sorted(without.keys() & own.keys())
        ]
        changes[rate] = [after[0] - before[0] for before, after in pairs if before and after]
    return changes


def points(changed: Sequence[float]) -> str:
    """Changes of shares, as percentage points with a sign."""
    if not changed:
        return DASH
    spread = f" ± {100 * np.std(changed, ddof=1):.1f}" if len(changed) > 1 else ""
    return f"{100 * np.mean(changed):+.1f}{spread} points"


def alone_results(table: Table, found: CountedRuns) -> list[str]:
    """Every policy on the bare question, beside the team."""

    def over_policies(
        row: PaperRow, runs: list[Archived]
    ) -> list[tuple[list[str], dict[str, Any]]]:
        steps = turns_in(runs, "eval/vote") or [1]
        return [
            (
                [*names_of(row), policy_words(policy) or DASH],
                {"policy": policy, "first": steps[0], "last": steps[-1]},
            )
            for policy in policies_in(runs) or [""]
        ]

    def printed(line: TableLine) -> str:
        return str(line.row.get("printed", "no number printed"))

    columns = [
        share("alone, sampled", "eval/pass_at_1/{policy}"),
        share("alone, greedy", "eval/greedy/{policy}"),
        share("vote, first turn", "eval/vote/turn_{first}"),
        share("vote, last turn", "eval/vote/turn_{last}"),
        *([Column("paper, alone", text=printed)] if table.scale == PAPER_SCALE else []),
        seeds(table, found),
    ]
    return [
        "Accuracy on held-out questions, mean ± sample standard deviation over seeds. Alone: a "
        "policy answers the bare question and sees nobody else's answer, also one that was trained "
        "on later turns only. The votes are those of the whole team's debate.",
        render([*head_of(table), "policy"], lines(table.rows, found, over_policies), columns),
    ]


def verifier_results(table: Table, found: CountedRuns) -> list[str]:
    """How well a verifier tells right answers from wrong ones."""
    columns = [share(name, metric) for metric, name in QUALITIES.items()]
    return [
        "On sampled answers to held-out questions, mean ± sample standard deviation over seeds. "
        "All answers: as they were sampled. Balanced: as many right as wrong ones of each "
        "question. Inside questions: the AUC among the answers to one question, mean over the "
        "questions that have both; knowing which questions are hard is worth nothing there. "
        "Guessing has an AUC of 50 %.",
        render(head_of(table), lines(table.rows, found), [*columns, seeds(table, found)]),
    ]
