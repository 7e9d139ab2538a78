"""The skill model's table as pages show it: figure, numbers and claims, without any run."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from cory.report.figures.skills import skills_figure
from cory.report.figures.style import note
from cory.report.pages.game_page import game_claims
from cory.report.pages.verdicts import Verdict
from cory.report.paper import Table
from cory.report.tables.markdown import markdown
from cory.report.tables.skills import KIND, TEAM, drawn, skills_table, teams_table

MEANINGS = {
    "models": "models of a team",
    "topics": "topics",
    "questions": "questions of each topic, from which first skills are read",
    "iterations": "iterations",
    "seed": "seed of the draw",
}


def draw_skills(table: Table) -> Figure:
    """One panel per model of the drawn team."""
    figure = skills_figure(drawn(table.entry[KIND]))
    note(figure, "Computed from eq. 2; nothing is trained. First skills differ by chance.")
    return figure


def skills_results(table: Table) -> list[str]:
    """The numbers behind the figure, and of many teams."""
    rules = table.entry[KIND]
    return [
        "One team. The skill of a topic is the share of right answers there; a model's sum to 1.",
        markdown(
            ["", "first skills (A, B, C, ...)", "ends in", "its skill at first", "half-way",
             "at the end"],
            skills_table(rules),
        ),
        f"Of {rules['teams']} such teams: in how many different topics their models specialise.",
        markdown(["different topics", "share of the teams"], teams_table(rules)),
    ]  # fmt: skip


def skills_page(table: Table, judged: Sequence[Verdict], image: str) -> str:
    """Everything that docs/results/ says about it."""
    rules = table.entry[KIND]
    blocks = [
        f"# {table.entry['title']}",
        f"{table.about['title']}, {table.about['where']}.  \nWritten by `make report`: computed "
        "from conf/paper/, nothing is run; not edited by hand.",
        str(table.entry["note"]),
        f"![{table.entry['title']}]({image})",
        "## Results",
        *skills_results(table),
        "## The model",
        markdown(["", "value"], [[MEANINGS[key], str(rules[key])] for key in TEAM]),
        "## Claims",
        "Nothing depends on a seed but the drawn skills. Margins are ours wherever the paper gives "
        "none.",
        game_claims(table, judged),
    ]
    return "\n\n".join(blocks) + "\n"
