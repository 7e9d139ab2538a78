"""Is a team worth it: its final answer beside a single agent's, at equal cost of training.

The cost is what the runs have logged, tokens sampled and optimiser steps of all policies. Which
scores are compared follows from the method or is asked for, so never from the results.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from omegaconf import OmegaConf

from cory.functional.statistics import mean_interval, pairs_needed
from cory.report.hints import AGENT
from cory.report.runs import end_values, group_runs, paired, read_metrics
from cory.runs.files import read_lines
from cory.runs.run_dir import SCORES, read_settings

APART = 0.05  # share by which two costs may differ and count as equal
COSTS = {"tokens sampled": "^rollout/tokens$", "optimiser steps": "^ppo/steps/"}
# the team's final answer: the first of these that it has; and the single agent's beside it
FINAL = {
    r"eval/vote/turn_\d+": rf"eval/(vote/turn_\d+|pass_at_1/{AGENT})",
    r"eval/score/observer(_\d+)?": rf"eval/score/{AGENT}",
    "eval/score/team": rf"eval/score/(team|{AGENT})",
}


def worth_text(run_dirs: Sequence[Path], scores: Sequence[str] = ()) -> str:
    """Whether a team is better than a single agent, and what was compared: a line each.

    run_dirs: with metrics; "" unless they are of one team and of one single agent, any seeds
    scores: the metric of the team and that of the single agent, or one for both; none: the held-out
        score of the final answer, as FINAL says
    Raises ValueError where scores are asked for and the runs are others.
    """
    groups = [own["seed"] for _, own in group_runs(run_dirs).groupby("group", sort=False)]
    single = [own for own in groups if speakers(own.index[0]) == 1]
    team = [own for own in groups if speakers(own.index[0]) > 1]
    if len(single) != 1 or len(team) != 1:
        if scores:
            raise ValueError(f"--worth: {len(team)} groups of teams, {len(single)} of one agent")
        return ""
    try:
        return compared_by_seed(team[0], single[0], scores)
    except ValueError as error:
        return f"whether the team is worth it is not known: {error}"


def speakers(run_dir: Path) -> int:
    """How many agents a run has."""
    agents = OmegaConf.select(read_settings(run_dir), "algorithm.agents", default=1)
    return agents if isinstance(agents, int) else len(agents)


def compared_by_seed(team: pd.Series, single: pd.Series, scores: Sequence[str]) -> str:
    """As `worth_text`; team, single: the seed of each run, by its directory.

    Raises ValueError where a number is missing, or the two share no seeds or held-out prompts.
    """
    runs = [{seed: numbers_of(run) for run, seed in own.items()} for own in (team, single)]
    left, right = (pd.DataFrame(own) for own in runs)
    names = [scores[0], scores[-1]] if scores else final_metrics(left.index, right.index)
    if len({held_out(run) for run in (*team.index, *single.index)}) > 1:
        raise ValueError("the runs were evaluated on different prompts")
    for own, name in ((left, names[0]), (right, names[1])):
        if missing := {name, *COSTS} - {*own.dropna().index}:
            raise ValueError(f"not every run has logged {', '.join(sorted(missing))}")
    left, right = left.align(right, join="inner", axis="columns")  # by seed
    if left.empty:
        raise ValueError("the team and the single agent have no seed in common")
    differences = paired(left.loc[names[0]], right.loc[names[1]])
    line = answer(differences)
    shares = {cost: left.loc[cost].sum() / right.loc[cost].sum() for cost in COSTS}
    if any(max(share, 1 / share) > 1 + APART for share in shares.values()):
        line = f"not at equal cost, so not answered: difference {differences.mean():+.3f}"
    spent = " and ".join(f"{share:.3f} of its {cost}" for cost, share in shares.items())
    return (
        f"{line}\n({names[0]} of the team, {left.loc[names[0]].mean():.3f}, less {names[1]} of the "
        f"single agent, {right.loc[names[1]].mean():.3f}; seeds: {len(differences)}; the team had "
        f"{spent})"
    )


def answer(differences: pd.Series) -> str:
    """Better, not better, or undecided: from the team's score less the single agent's, by seed.

    By Student's LEVEL interval of the paired differences: each side of it excludes 0 in one study
    of twenty where nothing differs.
    """
    size, interval = differences.mean(), mean_interval(differences)
    if interval is None and len(differences) > 1 and not differences.any():
        return f"not better: equal in each of {len(differences)} seeds"
    if interval is None:
        return f"undecided: difference {size:+.3f}, and nothing says how much seeds differ"
    low, high = interval
    if low > 0:
        return f"the team is better by {size:.3f} ({low:.3f} to {high:.3f})"
    if high < 0:
        return f"not better: the team is worse by {-size:.3f} ({-high:.3f} to {-low:.3f})"
    needed = pairs_needed(differences)
    more = f"about {max(needed, len(differences) + 1)}" if needed else "more than 1000"
    known = f"difference {size:+.3f} ({low:+.3f} to {high:+.3f})"
    return f"undecided: {known}; {more} seeds would tell"


def final_metrics(team: Sequence[str], single: Sequence[str]) -> list[str]:
    """The metrics of FINAL, by the names that each has; of several the last, as of a debate."""
    for pattern, beside in FINAL.items():
        own = [name for name in team if re.fullmatch(pattern, name)]
        its = [name for name in single if re.fullmatch(beside, name)]
        if own and its:
            return [max(names, key=lambda name: (len(name), name)) for names in (own, its)]
        if own:
            break
    raise ValueError("final answers were not measured: evaluation.team=true, or --worth <metric>")


def numbers_of(run_dir: Path) -> pd.Series:
    """What a run ended with, and its COSTS over all iterations; NaN where they were not logged."""
    frame = read_metrics(run_dir)
    spent = {cost: frame.filter(regex=pattern).sum().sum() for cost, pattern in COSTS.items()}
    return pd.concat([end_values(frame), pd.Series(spent).replace(0, float("nan"))])


def held_out(run_dir: Path) -> tuple[str, ...]:
    """Ids of the prompts of a run's last evaluation; none where there was none."""
    evaluations = read_lines(run_dir / SCORES) if (run_dir / SCORES).exists() else []
    return tuple(evaluations[-1]["prompts"]) if evaluations else ()
