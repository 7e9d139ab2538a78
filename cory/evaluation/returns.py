"""Metrics of teams whose episodes differ in length: what each agent is paid in an episode."""

from collections.abc import Sequence

from cory.episode import Metrics
from cory.evaluation.response_scores import pass_metrics, solved_by_prompt
from cory.evaluation.responses import TEAM, EvalRequest, ResponseSet, by_prompt
from cory.functional.statistics import mean
from cory.tasks import Task


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
