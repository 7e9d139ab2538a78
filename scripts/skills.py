"""A toy model of specialisation by training on own right answers (Subramaniam et al., App. G).

A model has a skill in each topic: its share of right answers there. It is trained on its right
answers, so a skill grows by its share of all right answers (eq. 2); then the skills of the model
are divided by their sum, since its capacity is finite. The largest skill never falls (eqs. 3 and
4): the topic that a model is best at by chance becomes its only one.

Equal skills stay equal; a small difference grows by a quarter in each iteration at first. In the
paper models differ because they see finitely many questions, whose number it does not print: here a
model's first skill in a topic is its share of right answers to `questions` questions, each answered
right with probability 1/3, divided by the sum like all later ones.

It needs no runs. A page shows `trajectories` below; `specialities` says how often models of one
team end up in different topics, which the paper's argument leaves open.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

CHANCE = 1 / 3  # probability of a right answer in every topic before training

SLACK = 1e-12  # of rounding

Skills = list[float]  # of one model, by topic


def update(skills: Sequence[float]) -> Skills:
    """The skills after one iteration (eq. 2), scaled to a sum of 1."""
    total = sum(skills)
    if min(skills, default=0) < 0 or total <= 0:
        raise ValueError(f"skills must not be negative, and not all 0, got {list(skills)}")
    grown = [skill * (1 + skill / total) for skill in skills]
    return [skill / sum(grown) for skill in grown]


def ratio(skills: Sequence[float], topic: int) -> float:
    """Growth factor of a topic's skill over one iteration, for skills that add up to 1 (eq. 3)."""
    total = sum(skills)
    over_all = sum((1 + skill / total) * skill for skill in skills)
    return (1 + skills[topic] / total) / over_all


def trajectory(skills: Sequence[float], iterations: int) -> list[Skills]:
    """[iteration][topic]: the skills at first and after each iteration."""
    path = [list(skills)]
    for _ in range(iterations):
        path.append(update(path[-1]))
    return path


def trajectories(
    models: int, topics: int, questions: int, iterations: int, seed: int
) -> list[list[Skills]]:
    """[model][iteration][topic]: skills of models whose first skills differ by chance only.

    questions: number per topic that first skills are measured on
    """
    return [trajectory(start, iterations) for start in starts(models, topics, questions, seed)]


def specialities(
    teams: int, models: int, topics: int, questions: int, iterations: int, seed: int
) -> dict[int, float]:
    """Share of the teams by the number of different topics that their models are best at."""
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
    """[model][topic]: first skills; ValueError where a model answered no question right."""
    right = np.random.default_rng(seed).binomial(questions, CHANCE, size=(models, topics))
    if not right.sum(axis=1).all():
        raise ValueError(f"questions={questions} are too few: a model answered none right")
    shares: list[Skills] = (right / right.sum(axis=1, keepdims=True)).tolist()
    return shares
