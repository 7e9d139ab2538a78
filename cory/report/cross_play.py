"""Cross-play of runs that differ in their seed: an agent of one beside the partners of another.

It tells whether agents have learnt the task or a convention of their own training alone (Hu et al.,
2020, "Other-Play").
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cory.algorithms.team import team_evaluator
from cory.config import CoryConfig, TeamConfig, builder, require
from cory.evaluation.evaluate import TeamEvaluator
from cory.evaluation.responses import EvalRequest
from cory.functional.statistics import mean_interval
from cory.inference import TrainedTeam, load_team
from cory.models.actor import Actor
from cory.report.runs import INTERVAL, group_runs, interval_text
from cory.rewards import RunFacts
from cory.seeding import Streams


def speakers(team: TrainedTeam) -> dict[str, Actor]:
    """Who speaks for each agent, those that learn first, also of agents that share a policy."""
    algorithm = team.config.algorithm
    if not isinstance(algorithm, TeamConfig):
        return {name: team.actors[name] for name in team.names}
    ordered = sorted(algorithm.agents, key=lambda name: name in algorithm.fixed_agents)
    return {name: team.actors[algorithm.policy_of(name)] for name in ordered}


def evaluator_of(team: TrainedTeam, run_dir: Path) -> TeamEvaluator:
    """Asks a team by the task, reward and play of its run."""
    config, bundle = team.config, team.models["model"]
    algorithm, streams = config.algorithm, Streams(config.seed)
    task = builder("task", config.task.name)(config.task, bundle.tokenizer, streams.data)
    facts = RunFacts(run_dir, algorithm.iterations)
    reward = builder("reward", config.reward.name)(config.reward, task, bundle.device, facts)
    reward.at(algorithm.iterations)  # as in the run's own last evaluation
    if isinstance(algorithm, TeamConfig):
        return team_evaluator(config, task, reward, team.actors)
    how: dict[str, Any] = {"alone": False, "rows": config.hardware.responses_at_once}
    return TeamEvaluator({}, task, reward, algorithm.sampling, team.play(), team.actors, **how)


def cross_play(run_dirs: Sequence[Path]) -> pd.DataFrame:
    """Team scores (`eval/score/team`) of every pair of runs, by the same random numbers.

    Rows: the run of the first agent that learns; columns: that of all others. Asked are the first
    run's held-out prompts. ConfigError for runs that differ in more than their seed.
    """
    groups = group_runs(run_dirs)
    require(
        len(groups) > 1 and groups["group"].nunique() == 1,
        f"cross-play needs runs that differ in their seed alone, got {', '.join(groups['group'])}",
    )
    teams = [load_team(run_dir) for run_dir in groups.index]
    config = teams[0].config
    require(
        isinstance(config.algorithm, CoryConfig | TeamConfig),
        f"cross-play needs algorithm=cory or team, got {config.algorithm.name}",
    )
    evaluator, cast = evaluator_of(teams[0], groups.index[0]), [*map(speakers, teams)]
    first = next(iter(cast[0]))

    def score(own: dict[str, Actor], others: dict[str, Actor]) -> float:
        asked = config.evaluation.replace(greedy=False)
        trained = config.algorithm.iterations  # for plays that change with it
        request = EvalRequest(asked, config.seed, 0, final=False, trained=trained)
        pair = replace(evaluator, actors={**others, first: own[first]})
        return pair(request, lambda done, rows: None)["eval/score/team"]

    names = [f"seed {seed}" for seed in groups["seed"]]
    scores = [[score(own, others) for others in cast] for own in cast]
    return pd.DataFrame(scores, index=pd.Index(names, name=first), columns=names)


def summary(scores: pd.DataFrame) -> dict[str, tuple[float, float | None, float | None]]:
    """Self-play, cross-play and their difference: mean over runs, and its interval or None, None.

    A run's cross-play is the mean of its row and column without the diagonal; since two runs share
    each of these cells, the intervals are somewhat too narrow.
    """
    values, others = scores.to_numpy(), len(scores) - 1
    own = np.diag(values)
    crossed = (values.sum(0) + values.sum(1) - 2 * own) / (2 * others)
    found = {"self-play": own, "cross-play": crossed, "difference": crossed - own}
    return {
        name: (float(each.mean()), *(mean_interval(each) or (None, None)))
        for name, each in found.items()
    }


def summary_text(scores: pd.DataFrame) -> str:
    """The matrix, and a line for each of `summary`."""
    rows = [f"team score; rows: whose {scores.index.name} it is, columns: whose partners"]
    rows.append(scores.to_string(float_format="{:.3f}".format, index_names=False))
    for name, (value, low, high) in summary(scores).items():
        told = "" if low is None or high is None else f" ({INTERVAL} {interval_text(low, high)})"
        rows.append(f"{name}: {value:.3f}{told}")
    return "\n".join(rows)
