"""Why learning from one's own right answers specialises (Subramaniam et al., 2025, App. G).

A model has a skill in each topic: its share of right answers there. It learns from what it answers
right, so a skill grows by its share of all that is right (eq. 2); then the skills of the model are
divided by their sum, since its capacity is finite. The largest skill never falls (eqs. 3 and 4):
whatever a model is better at by chance becomes all that it is good at.

Equal skills stay equal; a small difference grows by a quarter in each iteration at first. The paper
lets models differ because their questions are finitely many, and prints no number: here a model's
first skill in a topic is its share of right answers to `questions` questions, each answered right
with probability 1/3, divided by the sum like all later ones.

Nothing is run for it: a page shows `trajectories` below, and `specialities` says how often models
of one team end up in different topics, which the paper's argument does not make certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

CHANCE = 1 / 3  # of being right, in every topic, before any training

SLACK = 1e-12  # of rounding

Skills = list[float]  # of one model, by topic


def update(skills: Sequence[float]) -> Skills:
    """One iteration: eq. 2, then a sum of 1."""
    total = sum(skills)
    if min(skills, default=0) < 0 or total <= 0:
        raise ValueError(f"skills must not be negative, and not all 0, got {list(skills)}")
    grown = [skill * (1 + skill / total) for skill in skills]
    return [skill / sum(grown) for skill in grown]


def ratio(skills: Sequence[float], topic: int) -> float:
    """The skill in a topic after an iteration over the one before (eq. 3), where the sum is 1."""
    total = sum(skills)
    over_all = sum((1 + skill / total) * skill for skill in skills)
    return (1 + skills[topic] / total) / over_all


def trajectory(skills: Sequence[float], iterations: int) -> list[Skills]:
    """[iteration][topic]: the skills as given, and after each iteration."""
    found = [list(skills)]
    for _ in range(iterations):
        found.append(update(found[-1]))
    return found


def trajectories(
    models: int, topics: int, questions: int, iterations: int, seed: int
) -> list[list[Skills]]:
    """[model][iteration][topic]: models that begin alike but for chance.

    questions: of each topic, from which a model's first skills are read
    """
    return [trajectory(start, iterations) for start in starts(models, topics, questions, seed)]


def specialities(
    teams: int, models: int, topics: int, questions: int, iterations: int, seed: int
) -> dict[int, float]:
    """Number of different topics that the models of a team are best at -> share of the teams."""
    first = starts(teams * models, topics, questions, seed)
    best = [trajectory(skills, iterations)[-1] for skills in first]
    chosen = [skills.index(max(skills)) for skills in best]
    counts = Counter(len(set(chosen[team::teams])) for team in range(teams))
    return {different: counts[different] / teams for different in sorted(counts)}


def falls(models: Sequence[list[Skills]]) -> int:
    """In how many of all models' iterations the largest skill is lower than before (eq. 4: none).

    models: [model][iteration][topic]
    """
    pairs = [pair for model in models for pair in pairwise(model)]
    return sum(after[before.index(max(before))] < max(before) - SLACK for before, after in pairs)


def unlike_equation_3(models: Sequence[list[Skills]]) -> int:
    """For how many skills after an iteration eq. 3 gives another value than eq. 2 does."""
    return sum(
        abs(ratio(before, topic) * before[topic] - skill) > SLACK
        for model in models
        for before, after in pairwise(model)
        for topic, skill in enumerate(after)
    )


def starts(models: int, topics: int, questions: int, seed: int) -> list[Skills]:
    """[model][topic]: first skills."""
    right = np.random.default_rng(seed).binomial(questions, CHANCE, size=(models, topics))
    if not right.sum(axis=1).all():
        raise ValueError(f"questions={questions} are too few: a model answered none right")
    shares: list[Skills] = (right / right.sum(axis=1, keepdims=True)).tolist()
    return shares
