"""Metrics of scored responses: mean scores, shares of prompts solved, pass@k; returns of teams."""

from collections.abc import Sequence
from typing import Any

import torch

from cory.episode import Metrics
from cory.evaluation.responses import TEAM, EvalRequest, ResponseSet, by_prompt
from cory.functional.statistics import interval, mean, pass_at_k
from cory.tasks import Task


def score_metrics(task: Task, responses: ResponseSet, request: EvalRequest) -> Metrics:
    """Mean scores, and the share of prompts solved where the right answers are known."""
    metrics: Metrics = {}
    for who, turns in turns_by_role(responses).items():
        # float32, as all means of scores here
        scores = [float(turn["score"]) for row in turns for turn in row]
        score = torch.tensor(scores).mean().item()
        each = [mean(float(turn["score"]) for turn in row) for row in turns]
        count = len(responses.prompts)
        known = responses.prompts[0].answer is not None
        solved = solved_by_prompt(task, responses, turns) if known else None
        if responses.samples is not None:
            metrics[f"eval/score/{who}"] = score
            counted = {*scores} <= {0.0, 1.0}  # what is right, or passes a test
            tries = responses.samples if counted else None
            request.scores.add(f"eval/score/{who}", by_prompt(each, count), tries)
            metrics |= part_metrics(who, turns)
            if solved is not None:
                for k in request.config.k:
                    metrics |= pass_metrics(who, k, solved)
                k = min(request.config.k)
                passed = [pass_at_k(sum(own), len(own), k) for own in solved]
                request.scores.add(f"eval/pass_at_{k}/{who}", passed, responses.samples)
        elif solved is None:
            metrics[f"eval/greedy/{who}"] = score
            request.scores.add(f"eval/greedy/{who}", by_prompt(each, count), None)
        else:
            first = [float(tries[0]) for tries in solved]
            metrics |= mean_with_interval("greedy", who, first, len(solved))
            request.scores.add(f"eval/greedy/{who}", first, 1)
    return metrics


def part_metrics(who: str, turns: list[list[dict[str, Any]]]) -> Metrics:
    """Mean score of each part of a sum of rewards, over the turns that it applies to."""
    scores: dict[str, list[float]] = {}
    for turn in (turn for row in turns for turn in row):
        for part, score in turn.get("parts", {}).items():
            if score is not None:
                scores.setdefault(part, []).append(score)
    return {f"eval/reward/{part}/{who}": sum(found) / len(found) for part, found in scores.items()}


def turns_by_role(responses: ResponseSet) -> dict[str, list[list[dict[str, Any]]]]:
    """The turns of each row, by the role they were said in (TEAM only), and all of them."""
    rows = [row["turns"] for row in responses.lines]
    by_role = {}
    if responses.who == TEAM:
        for place, turn in enumerate(rows[0]):
            by_role[turn["role"]] = [[row[place]] for row in rows]
    return by_role | {responses.who: rows}


def solved_by_prompt(
    task: Task, responses: ResponseSet, turns: list[list[dict[str, Any]]]
) -> list[list[bool]]:
    """For each prompt and each of its rows: whether one of the row's turns is right.

    turns: of each row, those that count
    """
    right = [
        any(task.is_right(turn["response"], str(responses.prompt(row).answer)) for turn in chosen)
        for row, chosen in enumerate(turns)
    ]
    return [right[start :: len(responses.prompts)] for start in range(len(responses.prompts))]


def pass_metrics(who: str, k: int, solved: list[list[bool]]) -> Metrics:
    """pass@k by the unbiased estimator, and by that of Ma et al. (2024, 4.2): any of the first k.

    solved: of each prompt, whether each of its responses was right
    """
    unbiased = [pass_at_k(sum(tries), len(tries), k) for tries in solved]
    first = [float(any(tries[:k])) for tries in solved]
    responses = sum(map(len, solved))
    return mean_with_interval(f"pass_at_{k}", who, unbiased, responses) | mean_with_interval(
        f"any_of_{k}", who, first, len(first)
    )


def mean_with_interval(name: str, who: str, values: list[float], responses: int) -> Metrics:
    """The mean of the prompts' values and its 95 % interval."""
    low, high = interval(values, responses)
    return {
        f"eval/{name}/{who}": sum(values) / len(values),
        f"eval/{name}_low/{who}": low,
        f"eval/{name}_high/{who}": high,
    }


def return_metrics(
    agents: Sequence[str], task: Task, responses: ResponseSet, request: EvalRequest
) -> Metrics:
    """Mean returns of the team and of each agent; where answers are known, pass@k of the last turn.

    But for its first argument a `TeamEvaluator.team_metrics`.
    """
    rows = [row["turns"] for row in responses.lines]
    scores = [[(turn["role"], float(turn["score"])) for turn in row] for row in rows]
    paid = returns_of(agents, scores)
    name = "greedy" if responses.samples is None else "score"
    metrics: Metrics = {}
    for who, values in paid.items():
        metrics[f"eval/{name}/{who}"] = mean(values)
        each = by_prompt(values, len(responses.prompts))
        request.scores.add(f"eval/{name}/{who}", each, None)
    if responses.samples is not None and responses.prompts[0].answer is not None:
        solved = solved_by_prompt(task, responses, [row[-1:] for row in rows])
        for k in request.config.k:
            metrics |= pass_metrics(TEAM, k, solved)
    return metrics


def returns_of(
    agents: Sequence[str], episodes: Sequence[Sequence[tuple[str, float]]]
) -> dict[str, list[float]]:
    """What each agent is paid in each episode, 0 where it does not speak.

    episodes: role and score of every utterance; roles are agents, unless they are exchanged
    returns: by agent, and of the TEAM: the mean over the agents that speak
    """
    roles = dict.fromkeys(name for episode in episodes for name, _ in episode)
    names = agents if {*roles} <= {*agents} else list(roles)
    paid = {
        name: [sum(score for who, score in episode if who == name) for episode in episodes]
        for name in names
    }
    team = [
        sum(score for _, score in episode) / len({name for name, _ in episode})
        for episode in episodes
    ]
    return {TEAM: team, **paid}
