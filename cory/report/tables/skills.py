"""The table of the skill model: nothing is run, every number is computed as its page is written.

Its part of conf/paper/ holds the rules under `skills`:

models, topics   of one team
questions        of each topic, from which a model's first skills are read
iterations       of learning
seed             of the team that is drawn
teams            from how many the shares are taken, `seed` again

Claims compare numbers as they compare runs elsewhere: `experiment` is one of `largest_skill` (of
the drawn team, one line per iteration), `falls` (models and iterations in which the largest skill
falls, over all teams), `equation_3` (where Eq. 3 says otherwise than the model) and `teams`
(shares); `metric` is one of METRICS.
"""

from collections.abc import Mapping
from typing import Any

from cory.functional.skills import Skills, falls, specialities, trajectories, unlike_equation_3
from cory.report.claims.measures import Lines
from cory.report.paper import Table
from cory.report.tables.markdown import DASH, markdown

# the least of the models' largest skills; models or points; of teams: whose models all specialise
# in different topics, and all in the same one
SKILLS_METRICS = ("least_largest", "disagreements", "all_different", "all_the_same")
SKILLS_SETTINGS = {
    "models": "models of a team",
    "topics": "topics",
    "questions": "questions of each topic, from which first skills are read",
    "iterations": "iterations",
    "seed": "seed of the draw",
}
SKILLS_KEYS = {*SKILLS_SETTINGS, "teams"}


def drawn(rules: Mapping[str, Any]) -> list[list[Skills]]:
    """[model][iteration][topic] of the team that the figure shows; ValueError for no rules."""
    if set(rules) != SKILLS_KEYS:
        raise ValueError(
            f"skills: needs {', '.join(sorted(SKILLS_KEYS))}; has {', '.join(sorted(rules))}"
        )
    return trajectories(*(int(rules[key]) for key in SKILLS_SETTINGS))


def topics_of_teams(rules: Mapping[str, Any]) -> dict[int, float]:
    """Number of different topics in which a team's models specialise -> share of the teams."""
    return specialities(int(rules["teams"]), *(int(rules[key]) for key in SKILLS_SETTINGS))


def skills_records(rules: Mapping[str, Any]) -> dict[str, Lines]:
    """Every number that claims may compare, as they read a run."""
    team, shares = drawn(rules), topics_of_teams(rules)
    _, *same = (int(rules[key]) for key in SKILLS_SETTINGS)
    models = trajectories(int(rules["teams"]) * int(rules["models"]), *same)
    different, the_same = shares.get(int(rules["models"]), 0.0), shares.get(1, 0.0)
    return {
        "largest_skill": [
            {"least_largest": min(map(max, skills))} for skills in zip(*team, strict=True)
        ],
        "falls": [{"disagreements": float(falls(models))}],
        "equation_3": [{"disagreements": float(unlike_equation_3(models))}],
        "teams": [{"all_different": different, "all_the_same": the_same}],
    }


def skills_results(table: Table) -> list[str]:
    """The numbers behind the figure, and of many teams."""
    shares, rows = topics_of_teams(table.rules), []
    for number, model in enumerate(drawn(table.rules), 1):
        best = model[-1].index(max(model[-1]))
        course = (model[0][best], model[len(model) // 2][best], model[-1][best])
        first = " ".join(f"{skill:.3f}" for skill in model[0])
        skills = [f"{skill:.3f}" for skill in course]
        rows.append([f"model {number}", first, chr(ord("A") + best), *skills])
    most = min(int(table.rules["models"]), int(table.rules["topics"]))
    of_teams = [
        [str(number), f"{100 * shares[number]:.1f} %" if number in shares else DASH]
        for number in range(1, most + 1)
    ]
    head = ["", "first skills (A, B, C, ...)", "ends in", "its skill at first", "half-way"]
    return [
        "One team. The skill of a topic is the share of right answers there; a model's sum to 1.",
        markdown([*head, "at the end"], rows),
        f"Of {table.rules['teams']} such teams: in how many different topics their models "
        "specialise.",
        markdown(["different topics", "share of the teams"], of_teams),
    ]


def skills_sections(table: Table) -> list[str]:
    """The settings of the model."""
    rows = [[meaning, str(table.rules[key])] for key, meaning in SKILLS_SETTINGS.items()]
    return ["## The model", markdown(["", "value"], rows)]
