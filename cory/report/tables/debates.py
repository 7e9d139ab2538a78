"""Layouts of pages about debates: votes over turns, changed answers, agents alone, verifiers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.archive import Archived
from cory.report.records.collect import Collected
from cory.report.tables import second_hand
from cory.report.tables.markdown import NONE, markdown, percent
from cory.report.tables.numbers import head_of, last, names_of, runs_of, seeds_text

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


def turns_in(runs: Sequence[Archived], metric: str) -> list[int]:
    """The turns that the runs have a metric of."""
    names = {name for run in runs for line in run.lines for name in line}
    matches = (re.fullmatch(rf"{metric}/turn_(\d+)", name) for name in names)
    return sorted({int(match[1]) for match in matches if match})


def policies_in(runs: Sequence[Archived]) -> list[str]:
    """The policies that were asked alone, in the order of their numbers."""
    names = {name for run in runs for line in run.lines for name in line}
    matches = (re.fullmatch(r"eval/pass_at_1/(.+)", name) for name in names)
    found = {match[1] for match in matches if match and match[1] != POOLED}
    return sorted(found, key=lambda name: [int(digits) for digits in re.findall(r"\d+", name)])


def spoken(policy: str) -> str:
    """A policy's name in words: `agent 0, turn 2`."""
    return re.sub(r"_(?=\d)", " ", policy).replace("_turn", ", turn")


def turns(table: Table, found: Collected) -> list[str]:
    """Accuracy after every turn."""
    steps = turns_in(found.runs, "eval/vote") or [1]
    rows = []
    for row in table.rows:
        runs = runs_of(found, row)
        votes = [percent(last(runs, f"eval/vote/turn_{turn}")) for turn in steps]
        single = percent(last(runs, f"eval/right/turn_{steps[-1]}"))
        seeds = seeds_text(table, found, row["experiment"])
        rows.append([*names_of(row), *votes, single, *second_hand.cells(table, row), seeds])
    head = [
        *head_of(table),
        *[f"vote, turn {turn}" for turn in steps],
        f"single answers, turn {steps[-1]}",
        *second_hand.columns(table),
        "seeds",
    ]
    return [
        "Accuracy on held-out questions, mean ± sample standard deviation over seeds. Vote: the "
        "answer that most debaters give after a turn; a tie counts as the chance to draw a right "
        "one. Single answers: the share of right ones among those of all debaters.",
        *second_hand.meaning(table),
        markdown(head, rows),
    ]


def transitions(table: Table, found: Collected) -> list[str]:
    """What became of right and wrong answers from one turn to the next."""
    steps = turns_in(found.runs, "eval/flow_rr")
    rows = []
    for row in table.rows:
        runs = runs_of(found, row)
        seeds = seeds_text(table, found, row["experiment"])
        places = {f"{turn - 1} → {turn}": f"turn_{turn}" for turn in steps} | {"all": POOLED}
        for step, where in places.items():
            flows = [percent(last(runs, f"eval/flow_{flow}/{where}")) for flow in FLOWS]
            rows.append([*names_of(row), step, *flows, seeds])
    blocks = [
        "Shares of all single answers by whether they were right at a turn and at the next one, "
        "mean ± sample standard deviation over seeds.",
        markdown([*head_of(table), "turns", *FLOWS.values(), "seeds"], rows),
        "### Given what the others said",
        "Of the cases that stand before the arrow, the share that changed as it says, over all "
        "turns. Others: the majority of the other debaters' answers; cases without a majority are "
        "left out. A dash: no such case. In brackets the incentive that the change would earn or "
        "cost (the paper's tables 1 and 2).",
        *(
            markdown(
                [*head_of(table), *names.values()],
                [
                    [*names_of(row), *[percent(last(runs_of(found, row), pooled(key)))
                                     for key in names]]
                    for row in table.rows
                ],
            )
            for names in (REVISIONS, INFLUENCES)
        ),
    ]  # fmt: skip
    return [*blocks, *_changes(table, found)]


def pooled(rate: str) -> str:
    """The metric of a rate over all turns."""
    return f"eval/{rate}/{POOLED}"


def _changes(table: Table, found: Collected) -> list[str]:
    """For rows that pay an incentive: the rates it is about, against the run without incentives."""
    if "against" not in table.entry:
        return []
    rows = []
    for row in table.rows:
        for number, (rate, changed) in enumerate(changes_of(table, found, row)):
            before, after = (
                percent(last(runs_of(found, {"experiment": name}), pooled(rate)))
                for name in (table.entry["against"], row["experiment"])
            )
            # which of the two rates a second-hand number is about is not known: it stands once
            theirs = second_hand.cells(table, {} if number else row)
            count = str(len(changed))
            rows.append(
                [*names_of(row), RATES[rate], before, after, points(changed), *theirs, count]
            )
    head = [
        *head_of(table), "rate", "without", "with", "change", *second_hand.columns(table), "seeds"
    ]  # fmt: skip
    return [
        "### What each incentive changed",
        "The two rates that an incentive is about, in the run without incentives and in the one "
        "with it; the change is taken seed by seed, over the seeds that both have.",
        *second_hand.meaning(table),
        markdown(head, rows),
    ]


def changes_of(
    table: Table, found: Collected, row: dict[str, Any]
) -> Iterator[tuple[str, list[float]]]:
    """The rates that a row's incentive is about, and how each seed's changed."""
    if "incentive" not in row:
        return
    without, own = (found.counted[name] for name in (table.entry["against"], row["experiment"]))
    for rate in INCENTIVES[row["incentive"]]:
        pairs = [
            (last([without[seed]], pooled(rate)), last([own[seed]], pooled(rate)))
            for seed in sorted(without.keys() & own.keys())
        ]
        yield rate, [after[0] - before[0] for before, after in pairs if before and after]


def points(changed: Sequence[float]) -> str:
    """Changes of shares, as percentage points with a sign."""
    if not changed:
        return NONE
    spread = f" ± {100 * np.std(changed, ddof=1):.1f}" if len(changed) > 1 else ""
    return f"{100 * np.mean(changed):+.1f}{spread} points"


def alone(table: Table, found: Collected) -> list[str]:
    """Every policy on the bare question, beside the team."""
    paper = ["paper, alone"] if table.scale == PAPER_SCALE else []
    rows = []
    for row in table.rows:
        runs = runs_of(found, row)
        steps = turns_in(runs, "eval/vote") or [1]
        team = [percent(last(runs, f"eval/vote/turn_{turn}")) for turn in (steps[0], steps[-1])]
        printed = [str(row.get("printed", "no number printed")) for _ in paper]
        seeds = seeds_text(table, found, row["experiment"])
        for policy in policies_in(runs) or [""]:
            own = [percent(last(runs, f"eval/{kind}/{policy}")) for kind in ("pass_at_1", "greedy")]
            rows.append([*names_of(row), spoken(policy) or NONE, *own, *team, *printed, seeds])
    head = [
        *head_of(table), "policy", "alone, sampled", "alone, greedy", "vote, first turn",
        "vote, last turn", *paper, "seeds",
    ]  # fmt: skip
    return [
        "Accuracy on held-out questions, mean ± sample standard deviation over seeds. Alone: a "
        "policy answers the bare question and sees nobody else's answer, also one that was trained "
        "on later turns only. The votes are those of the whole team's debate.",
        markdown(head, rows),
    ]


def verifier(table: Table, found: Collected) -> list[str]:
    """How well a verifier tells right answers from wrong ones."""
    rows = [
        [
            *names_of(row),
            *[percent(last(runs_of(found, row), metric)) for metric in QUALITIES],
            seeds_text(table, found, row["experiment"]),
        ]
        for row in table.rows
    ]
    return [
        "On sampled answers to held-out questions, mean ± sample standard deviation over seeds. "
        "All answers: as they were sampled. Balanced: as many right as wrong ones of each "
        "question. Inside questions: the AUC among the answers to one question, mean over the "
        "questions that have both; knowing which questions are hard is worth nothing there. "
        "Guessing has an AUC of 50 %.",
        markdown([*head_of(table), *QUALITIES.values(), "seeds"], rows),
    ]
