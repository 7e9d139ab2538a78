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

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from cory.functional.skills import Skills, ratio, specialities, trajectories
from cory.report.claims.judge import Lines, Records
from cory.report.tables.game import SEED
from cory.report.tables.markdown import NONE

KIND = "skills"
# the least of the models' largest skills; models or points; of teams: whose models all specialise
# in different topics, and all in the same one
METRICS = ("least_largest", "disagreements", "all_different", "all_the_same")
TEAM = ("models", "topics", "questions", "iterations", "seed")
KEYS = {*TEAM, "teams"}
SLACK = 1e-12  # of rounding


def drawn(rules: Mapping[str, Any]) -> list[list[Skills]]:
    """[model][iteration][topic] of the team that the figure shows; ValueError for no rules."""
    if set(rules) != KEYS:
        raise ValueError(f"skills: needs {', '.join(sorted(KEYS))}; has {', '.join(sorted(rules))}")
    return trajectories(*(int(rules[key]) for key in TEAM))


def names(rules: Mapping[str, Any]) -> set[str]:
    """What a claim may call `experiment`; ValueError for no rules."""
    drawn(rules)
    return {"largest_skill", "falls", "equation_3", "teams"}


def records(rules: Mapping[str, Any]) -> Records:
    """Every number that claims may compare."""
    team, models = drawn(rules), _models(rules)
    shares = topics_of_teams(rules)
    found: dict[str, Lines] = {
        "largest_skill": [
            {"least_largest": min(max(model[iteration]) for model in team)}
            for iteration in range(int(rules["iterations"]) + 1)
        ],
        "falls": [{"disagreements": float(sum(_falls(models)))}],
        "equation_3": [{"disagreements": float(sum(_unlike_equation_3(models)))}],
        "teams": [
            {
                "all_different": shares.get(int(rules["models"]), 0.0),
                "all_the_same": shares.get(1, 0.0),
            }
        ],
    }
    return {name: {SEED: lines} for name, lines in found.items()}


def topics_of_teams(rules: Mapping[str, Any]) -> dict[int, float]:
    """Number of different topics in which a team's models specialise -> share of the teams."""
    return specialities(int(rules["teams"]), *(int(rules[key]) for key in TEAM))


def skills_table(rules: Mapping[str, Any]) -> list[list[str]]:
    """Every model of the drawn team: where it begins, what it is best at, and how it ends."""
    rows = []
    for number, model in enumerate(drawn(rules), 1):
        best = model[-1].index(max(model[-1]))
        middle = model[len(model) // 2][best]
        rows.append(
            [
                f"model {number}",
                " ".join(f"{skill:.3f}" for skill in model[0]),
                chr(ord("A") + best),
            ]
            + [f"{skill:.3f}" for skill in (model[0][best], middle, model[-1][best])]
        )
    return rows


def teams_table(rules: Mapping[str, Any]) -> list[list[str]]:
    """How many topics the models of one team share among them."""
    shares = topics_of_teams(rules)
    most = min(int(rules["models"]), int(rules["topics"]))
    return [
        [str(number), f"{100 * shares[number]:.1f} %" if number in shares else NONE]
        for number in range(1, most + 1)
    ]


def _models(rules: Mapping[str, Any]) -> list[list[Skills]]:
    """All models of all teams."""
    _, *same = (int(rules[key]) for key in TEAM)
    return trajectories(int(rules["teams"]) * int(rules["models"]), *same)


def _falls(models: Sequence[list[Skills]]) -> Iterator[bool]:
    """Of every model and iteration: whether the largest skill is lower than before."""
    for model in models:
        for before, after in pairwise(model):
            top = before.index(max(before))
            yield after[top] < before[top] - SLACK


def _unlike_equation_3(models: Sequence[list[Skills]]) -> Iterator[bool]:
    """Of every model, iteration and topic: whether eq. 3 gives another skill than eq. 2 does."""
    for model in models:
        for before, after in pairwise(model):
            for topic, skill in enumerate(after):
                yield abs(ratio(before, topic) * before[topic] - skill) > SLACK
