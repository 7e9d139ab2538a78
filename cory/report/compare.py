"""Compare any runs in one table, as at the end of a sweep, and in one figure.

    cory-compare outputs/adhoc/2026-01-31_12-00-00 --curves curves.png
    cory-compare outputs/runs/small --metric 'objective/kl/*,eval/score' --csv all.csv

A folder stands for every run below it. Runs that differ in their seed alone make one row: mean and
standard deviation over seeds, and the difference to the first row, paired by seed. What else
differs names the rows. Runs that are not finished, and all but the last of runs with equal settings
and seed, are left out. Curves have a line for each row and agent, with a band of one standard
deviation. Of a team and a single agent it says whether the team is better at equal cost.
"""

import argparse
import fnmatch
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from cory.config import nearest
from cory.functional.statistics import POWER, mean_interval, pairs_needed
from cory.report.hints import AGENT
from cory.report.plots import draw, draw_matrix, main_metrics
from cory.report.runs import (
    INTERVAL,
    aligned,
    end_values,
    group_runs,
    interval_text,
    judged_by,
    paired,
    read_metrics,
    title,
    way,
)
from cory.runs.files import read_lines, write_whole
from cory.runs.run_dir import METRICS, RECORD, SCORES, read_settings, runs_below

MOST_AGENTS = 4  # whose KL is shown
LEAST_SEEDS = 3  # below, two that happen to agree would pass for certainty
APART = 0.05  # share by which two costs may differ and count as equal
COSTS = {"tokens sampled": "^rollout/tokens$", "optimiser steps": "^ppo/steps/"}
# the team's final answer: the first of these that it has; beside it the single agent's, likewise
FINAL = {
    r"eval/vote/turn_\d+": (r"eval/vote/turn_\d+", rf"eval/pass_at_1/{AGENT}"),
    r"eval/score/observer(_\d+)?": (rf"eval/score/{AGENT}",),
    "eval/score/team": ("eval/score/team", rf"eval/score/{AGENT}"),
}


def find_runs(folders: Sequence[Path]) -> list[Path]:
    """The finished runs in or below the folders, each once; ValueError for a folder without one."""
    found: dict[Path, None] = {}
    for folder in folders:
        begun = runs_below(folder)
        runs = [run for run in begun if (run / METRICS).exists() and (run / RECORD).exists()]
        if not runs:
            raise ValueError(f"{folder} holds no finished run: there is no {RECORD} below it")
        if len(begun) > len(runs):
            print(f"note: {folder}: {len(begun) - len(runs)} unfinished left out", file=sys.stderr)
        found |= dict.fromkeys(runs)
    return list(found)


def compared(run_dirs: Sequence[Path]) -> tuple[pd.DataFrame, list[str]]:
    """How groups of runs compare in every metric, and the metrics that matter most.

    run_dirs: with metrics
    Returns rows by metric and group, those of a metric in the order of the runs, with the columns
    `seeds` (runs that have the metric), `mean`, `std` (of the sample; NaN of one), `before` (mean
    before the training, NaN where it was not measured), `change` (since then), `change_low`,
    `change_high` (its LEVEL interval), `pairs` (seeds that the first group with the metric has,
    too), `difference` (mean over pairs), `low`, `high` (its interval) and `needed` (seeds that
    would show it).
    """
    groups = group_runs(run_dirs)
    frames = {run_dir: read_metrics(run_dir) for run_dir in groups.index}
    ends = pd.DataFrame({run_dir: end_values(frame) for run_dir, frame in frames.items()})
    starts = pd.DataFrame({run: frame[frame.index == 0].mean() for run, frame in frames.items()})
    values, untrained = (
        {  # of each group: metric x seed
            str(name): each[own.index].set_axis(own["seed"], axis="columns")
            for name, own in groups.groupby("group", sort=False)
        }
        for each in (ends, starts.reindex(ends.index))
    )
    main = {name for own in values.values() for name in judged_by([*own.dropna(how="all").index])}
    kl = sorted(ends.index[ends.index.str.fullmatch(f"objective/kl/{AGENT}")])
    rows = []
    for metric in sorted(ends.index):
        first = None
        for name, frame in values.items():
            own = frame.loc[metric].dropna()
            if own.empty:
                continue
            row = {"seeds": len(own), "mean": own.mean(), "std": own.std(), "pairs": 0}
            before = untrained[name].loc[metric]
            change = paired(own, before)
            low, high = mean_interval(change) or (np.nan, np.nan)
            row |= {"before": before.mean(), "change": change.mean()}
            row |= {"change_low": low, "change_high": high}
            if first is not None:
                each = paired(own, first)
                low, high = mean_interval(each) or (np.nan, np.nan)
                row |= {"pairs": len(each), "difference": each.mean(), "low": low, "high": high}
                row |= {"needed": pairs_needed(each) or np.nan}
            rows.append({"metric": metric, "group": name, **row})
            first = own if first is None else first
    table = pd.DataFrame(rows).set_index(["metric", "group"])
    return table, [*sorted(main), *(kl if len(kl) <= MOST_AGENTS else [])]


def comparison_text(table: pd.DataFrame, metrics: Sequence[str]) -> str:
    """The rows of some metrics as text, and what the columns are."""
    blocks = []
    for metric in metrics:
        rows = [["", "seeds", "before", "mean ± std", "change", INTERVAL,
                 "difference", f"its {INTERVAL}", "seeds to tell"]]  # fmt: skip
        for name, row in table.loc[metric].iterrows():
            spread = "" if np.isnan(row["std"]) else f" ± {row['std']:.3f}"
            cells = [f"  {name}", f"{row['seeds']:.0f}", *_change(row)]
            cells.insert(3, f"{row['mean']:.3f}{spread}")
            rows.append([*cells, *(_difference(row) if row["pairs"] else ["", "", ""])])
        blocks.append(f"{title(metric)} ({metric})\n{aligned(rows)}")
    note = "mean ± standard deviation, and intervals, over seeds"
    if table["pairs"].any():
        note += (
            f"; the difference is to the first row, over the seeds that both have.\nseeds to tell: "
            f"so many would show such a difference, if it is real, in {10 * POWER:.0f} of 10 "
            f"studies; told: its interval excludes 0"
        )
    if (table["seeds"] == 1).all():
        note += "\none run in each row: nothing says how much seeds differ; add some, as seed=0,1,2"
    elif (table["seeds"] < LEAST_SEEDS).any():
        note += f"\nof fewer than {LEAST_SEEDS} seeds nothing is told: two may agree by chance"
    return "\n\n".join(filter(None, [*blocks, note, what_rose(table, metrics)]))


def what_rose(table: pd.DataFrame, metrics: Sequence[str]) -> str:
    """`Held-out reward, agent 0: rose in cory; undecided in ppo`, by intervals over seeds."""
    lines = []
    for metric in metrics:
        groups: dict[str, list[str]] = {}
        for name, row in table.loc[metric].dropna(subset=["change_low"]).iterrows():
            told = verdict(row["change_low"], row["change_high"], row["seeds"])
            groups.setdefault(told, []).append(str(name))
        said = "; ".join(f"{told} in {', '.join(names)}" for told, names in groups.items())
        lines += [f"{title(metric)[0].upper()}{title(metric)[1:]}: {said}"] if said else []
    return "\n".join(lines)


def verdict(low: float, high: float, seeds: float) -> str:
    """As `way`; undecided of fewer than LEAST_SEEDS."""
    return way(low, high) if seeds >= LEAST_SEEDS else "undecided"


def unlike_rewards(run_dirs: Sequence[Path]) -> str:
    """A note where the runs have different rewards; else empty."""
    keys = ("reward.name", "reward.function")
    found = {tuple(OmegaConf.select(read_settings(run), key) for key in keys) for run in run_dirs}
    said = "note: the runs have different rewards, so their scores cannot be compared"
    return said if len(found) > 1 else ""


def remarks(run_dirs: Sequence[Path], scores: Sequence[str] = ()) -> str:
    """What stands below a comparison: `unlike_rewards` and `worth_text`."""
    return "\n\n".join(filter(None, [unlike_rewards(run_dirs), worth_text(run_dirs, scores)]))


def _change(row: pd.Series) -> list[str]:
    """What a row began with, what it changed by, and the interval of that."""
    if np.isnan(row["change"]):
        return ["", "", ""]
    interval = interval_text(row["change_low"], row["change_high"])
    return [f"{row['before']:.3f}", f"{row['change']:+.3f}", interval]


def _difference(row: pd.Series) -> list[str]:
    """A row's difference to the first one, its interval, and the seeds that would tell."""
    few = f" ({row['pairs']:.0f} of them)" if row["pairs"] < row["seeds"] else ""
    size = f"{row['difference']:+.3f}{few}"
    if np.isnan(row["low"]):
        return [size, "", ""]
    told = verdict(row["low"], row["high"], row["pairs"]) != "undecided"
    needed = "> 1000" if np.isnan(row["needed"]) else f"{max(row['needed'], row['pairs'] + 1):.0f}"
    return [size, interval_text(row["low"], row["high"]), "told" if told else needed]


def chosen(metrics: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The metrics that patterns name; ValueError for a pattern that names none."""
    found: dict[str, None] = {}
    for pattern in patterns:
        own = fnmatch.filter(metrics, pattern) or fnmatch.filter(metrics, f"{pattern}/*")
        if not own:
            raise ValueError(f"{pattern} is no metric of these runs{nearest(pattern, metrics)}")
        found |= dict.fromkeys(own)
    return [*found]


def play_across(run_dirs: Sequence[Path], scores_to: Path | None, figure_to: Path | None) -> None:
    """Print the cross-play of runs; write it as JSON and as a PNG where a file is named."""
    # models are needed for nothing else here
    from cory.report.cross_play import cross_play, summary, summary_text  # noqa: PLC0415

    scores = cross_play(run_dirs)
    print(summary_text(scores))
    if scores_to:
        told = {**scores.to_dict("split", index=True), **summary(scores)}
        write_whole(scores_to, json.dumps(told, indent=1))
    if figure_to:
        draw_matrix(scores, figure_to)


def worth_text(run_dirs: Sequence[Path], scores: Sequence[str] = ()) -> str:
    """Whether a team is better than a single agent, at equal cost of training: a line each.

    The cost is what the runs have logged, tokens sampled and optimiser steps of all policies. Which
    scores are compared follows from the method or is asked for, so never from the results.

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
    told = verdict(low, high, len(differences))
    if told == "rose":
        return f"the team is better by {size:.3f} ({low:.3f} to {high:.3f})"
    if told == "fell":
        return f"not better: the team is worse by {-size:.3f} ({-high:.3f} to {-low:.3f})"
    needed = pairs_needed(differences)
    more = f"about {max(needed, len(differences) + 1)}" if needed else "more than 1000"
    known = f"difference {size:+.3f} ({low:+.3f} to {high:+.3f})"
    return f"undecided: {known}; {more} seeds would tell"


def final_metrics(team: Sequence[str], single: Sequence[str]) -> list[str]:
    """The metrics of FINAL, by the names that each has; of several the last, as of a debate."""
    for pattern, beside in FINAL.items():
        own = [name for name in team if re.fullmatch(pattern, name)]
        found = ([name for name in single if re.fullmatch(one, name)] for one in beside)
        its = next(filter(None, found), [])
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


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    add = parser.add_argument
    add("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    add("--metric", metavar="METRIC,...", help="of docs/metrics.md, as objective/kl or 'eval/*'")
    add("--worth", metavar="METRIC[,METRIC]", help="scores of a team and a single agent to compare")
    add("--csv", type=Path, metavar="FILE", help="write every metric to this file")
    add("--curves", type=Path, metavar="FILE", help="draw them into this PNG")
    add("--cross-play", action="store_true", help="ask agents of each run beside those of others")
    add("--json", type=Path, metavar="FILE", help="... write the scores")
    add("--heat-map", type=Path, metavar="FILE", help="... draw them into this PNG")
    args = parser.parse_args()
    try:
        run_dirs = find_runs(args.run_dirs)
        if args.cross_play:
            play_across(run_dirs, args.json, args.heat_map)
            return
        table, metrics = compared(run_dirs)
        patterns = args.metric.split(",") if args.metric else []
        asked = chosen([*table.index.unique("metric")], patterns)
        print(comparison_text(table, asked or metrics))
        if said := remarks(run_dirs, args.worth.split(",") if args.worth else ()):
            print(f"\n{said}")
        if args.csv:
            table.to_csv(args.csv)
        if args.curves:
            groups = {
                str(name): [read_metrics(run_dir) for run_dir in own.index]
                for name, own in group_runs(run_dirs).groupby("group", sort=False)
            }
            shown = asked or main_metrics([frame for own in groups.values() for frame in own])
            draw(groups, shown, args.curves, "mean ± one standard deviation of runs")
            print(args.curves)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
