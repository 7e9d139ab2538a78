"""The toy game's table as pages show it: figure, numbers, rules and claims, without any run."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from cory.report.figures.collaboration import collaboration_figure
from cory.report.figures.style import note
from cory.report.pages.page import statement
from cory.report.pages.verdicts import Verdict
from cory.report.paper import Table
from cory.report.tables.game import (
    curves_table,
    label,
    observations,
    others_table,
    played,
    rules_table,
)
from cory.report.tables.markdown import markdown

COUNTED = {
    "observation_1": "Observation 1, best response",
    "observation_2": "Observation 2, equilibrium with most collaboration",
    "observation_2_even": "Observation 2, equilibrium that is the better answer to a coin",
}


def draw_game(table: Table) -> Figure:
    """One panel per number of turns."""
    rules = table.entry["game"]
    figure = collaboration_figure(
        {
            f"T = {one.game.turns}": {
                **{label(pi): curve for pi, curve in one.fixed.items()},
                label(None): one.together,
            }
            for one in played(rules)
        },
        label(None),
    )
    note(figure, "Computed exactly by backward induction; nothing is trained.")
    return figure


def game_page(table: Table, judged: Sequence[Verdict], image: str) -> str:
    """Everything that docs/results/ says about it."""
    rules = table.entry["game"]
    first = [f"pi = {pi:g}" for pi in rules["fixed"]]
    blocks = [
        f"# {table.entry['title']}",
        f"{table.about['title']}, {table.about['where']}.  \nWritten by `make report`: computed "
        "from conf/paper/, nothing is run; not edited by hand.",
        str(table.entry["note"]),
        f"![{table.entry['title']}]({image})",
        "## Results",
        *game_results(table),
        "## The game",
        markdown(["", "value", "in the paper"], rules_table(rules)),
        "## Other games",
        "How far the order of the curves reaches is our question: the same game with one thing "
        "changed. In each column: the first turn; the mean over the turns. Higher: trained "
        "together above every fixed opponent.",
        markdown(
            ["changed", "T", "together", *first, "higher at turn 1", "higher on average"],
            others_table(rules),
        ),
        "## The two observations",
        f"T = 2, C = 1; R_ind and R_col in steps of R_syn / {rules['steps']} from -R_syn, pi in "
        f"steps of 1 / {rules['steps']}. A point agrees when backward induction collaborates at "
        "turn 1 where the printed condition says so, and only there.",
        markdown(
            ["", "points", "that do not agree"],
            [
                [COUNTED[name], str(every), str(different)]
                for name, (different, every) in observations(rules).items()
            ],
        ),
        "## Claims",
        "Nothing depends on a seed. Factors are ours wherever the paper gives none.",
        game_claims(table, judged),
    ]
    return "\n\n".join(blocks) + "\n"


def game_results(table: Table) -> list[str]:
    """The numbers behind the figure."""
    found = played(table.entry["game"])
    head = ["T", "trained", "first turn", "middle turn", "last turn", "mean"]
    return [
        "Probability of collaborating when agents play as they were trained: with each other, or "
        "against the fixed opponent.",
        markdown(head, curves_table(found)),
    ]


def game_claims(table: Table, judged: Sequence[Verdict]) -> str:
    """Every claim with its numbers."""
    rows = [
        [statement(table, one), str(one.claim["section"]), one.mean, one.text] for one in judged
    ]
    return markdown(["the paper says", "section", "numbers", "here"], rows)
