"""Runs as tables: what they logged, what they ended with, and which of them belong together.

And numbers as text: differences paired by seed, intervals, aligned columns.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cory.functional.statistics import LEVEL, ROUNDING
from cory.report.hints import AGENT
from cory.runs.files import read_lines
from cory.runs.run_dir import METRICS, comparable_settings, read_settings

INTERVAL = f"{100 * LEVEL:.0f} % interval"
LAST = 10  # values that the end of a metric of the training is averaged over
BEFORE, EVALUATION = "before/", "eval/"
# metric without its last part -> what tables and axes call it
TITLES = {
    "eval/win_rate": "win rate against",
    "eval/vote": "held-out, majority right:",
    "eval/right": "held-out, single answers right:",
    "eval/verifier_auc": "AUC of verdicts on answers:",
    "eval/verifier_accuracy": "accuracy of verdicts on answers:",
    "eval/greedy": "held-out, greedy:",
    "eval/score": "held-out reward,",
    "eval/nll": "held-out answers (nats per token),",
    "eval/solved": "games solved with",
    "objective/score": "reward in training,",
    "objective/kl": "KL to the reference (nats),",
    "objective/combined": "reward - kl_coef x KL,",
    "offline/kl": "KL to the start (nats),",
    "offline/loss": "loss,",
    "supervised/loss": "loss (nats per token),",
    "verifier/loss": "loss (nats per token),",
}
# the metrics that a run is judged by: those of the first pattern that it has
JUDGED_BY = (
    r"eval/win_rate/(?!itself).+",
    r"eval/vote/turn_\d+",
    r"eval/verifier_(auc|accuracy)/.+",
    rf"eval/pass_at_\d+/{AGENT}",
    rf"eval/score/{AGENT}",
    r"eval/solved/.+",
    rf"eval/nll/{AGENT}",
    rf"objective/score/{AGENT}",
    r"(supervised|offline|verifier)/loss(/.+)?",
)
# a metric of a changed team: how it was changed, whom that is about, the metric of the others
CHANGED = r"(muted|untrained|swapped)(?:_(\w+))?"
PROBED = re.compile(rf"eval/{CHANGED}/((?:score|vote|pass_at_\d+)/\w+)")
# first: what they name settles most other settings
NAMES = ("experiment", "scale", "model.name", "task.name", "algorithm.name", "reward.name")


def read_metrics(run_dir: Path) -> pd.DataFrame:
    """The metrics of a run: a column for each, a row per iteration, counted from 1.

    Row 0, where agents were evaluated before the training, has that evaluation (`before/...` in
    the file) under the names of the later ones, `eval/...`.
    """
    frame = pd.DataFrame(read_lines(run_dir / METRICS))
    frame.index = frame.pop("iteration").rename("iterations") + 1
    untrained = [name for name in frame if name.startswith(BEFORE)]
    if untrained:
        names = {name: name.replace(BEFORE, EVALUATION, 1) for name in untrained}
        first = frame[untrained].iloc[:1].rename(columns=names, index={1: 0})
        frame = pd.concat([first, frame.drop(columns=untrained)])
    return frame.dropna(axis="columns", how="all").astype(float)


def end_values(frame: pd.DataFrame) -> pd.Series:
    """What a run ended with: of an evaluation the last value, else the mean of the last LAST.

    frame: as `read_metrics` gives it; the result has the metrics as its index
    """
    ends = {}
    for name, values in frame.items():
        known = values.dropna()
        ends[name] = known.iloc[-1] if str(name).startswith(EVALUATION) else known[-LAST:].mean()
    return pd.Series(ends, dtype=float)


def judged_by(metrics: Sequence[str]) -> list[str]:
    """The metrics that these runs are judged by; of a debate that of its last turn."""
    for pattern in JUDGED_BY:
        found = [name for name in metrics if re.fullmatch(pattern, name)]
        if found and "/vote/" in found[0]:
            return [max(found, key=lambda name: int(name.rpartition("_")[2]))]
        if found:
            return found
    return []


def split_name(metric: str) -> tuple[str, str]:
    """`eval/score/agent_0` as `eval/score` and `agent_0`, whom it is about.

    Metrics of the whole iteration, such as `verifier/loss` and what a reward function logs
    (`reward/logged/<name>`), are about nobody: "".
    """
    name, _, who = metric.rpartition("/")
    return (metric, "") if "/" not in name or "/logged/" in metric else (name, who)


def title(metric: str) -> str:
    """What tables call a metric: `held-out reward, agent 0`."""
    if probe := PROBED.fullmatch(metric):
        return f"{title(f'eval/{probe[3]}')}; {probe[1]} {probe[2] or ''}".replace("_", " ").strip()
    name, who = split_name(metric)
    words = TITLES.get(name, f"{name}:")
    words = re.sub(r"eval/pass_at_(\d+):", r"held-out pass@\1,", words)
    words = re.sub(r"eval/win_rate_(\w+):", r"win rate as \1 against", words)
    return f"{words} {who.replace('_', ' ')}" if who else metric


def group_runs(run_dirs: Sequence[Path]) -> pd.DataFrame:
    """Which group each run belongs to: all settings of a group are equal but for the seed.

    Returns a row per run, by its directory, in the order given: `group`, its name by what differs
    (`ppo, kl_coef=0.3`), and `seed`. Of runs with equal settings and seed the last one stays.
    """
    settings = [settings_of(run_dir) for run_dir in run_dirs]
    keys = telling_keys(settings)
    names = [", ".join(short_words(own, keys)) or str(own.get("experiment")) for own in settings]
    seeds = [read_settings(run_dir).seed for run_dir in run_dirs]
    index = pd.Index(run_dirs, dtype=object)
    return pd.DataFrame({"group": names, "seed": seeds}, index=index).drop_duplicates(keep="last")


def settings_of(run_dir: Path) -> dict[str, Any]:
    """Settings by dotted keys; without the seed, and without those that change no result.

    Nor does the seed count in a path, as that of the run which this one starts from.
    """
    stored = read_settings(run_dir)
    seed = rf"(?<![A-Za-z0-9])seed-?{stored.seed}(?!\d)"  # seed1, or seed-1 of Hydra's -m
    return {
        key: re.sub(seed, "seed*", value) if isinstance(value, str) else value
        for key, value in comparable_settings(stored).items()
        if key != "seed"
    }


def telling_keys(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that tell runs apart: names first, and each tells more than those before it."""
    others = {key for run in runs for key in run} - {*NAMES}
    telling: list[str] = []
    groups = 1
    for key in [*NAMES, *sorted(others, key=lambda key: (not key.endswith(".name"), key))]:
        apart = len({json.dumps([run.get(one) for one in [*telling, key]]) for run in runs})
        if apart > groups:
            telling.append(key)
            groups = apart
    return telling


def short_words(settings: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    """These settings of a run in short, one text each: `cory`, `kl_coef=0.3`.

    A name stands alone; of two keys with the same last part all is said. A setting without a value
    in this run is left out.
    """
    leaves = [key.rpartition(".")[2] for key in keys]
    words = []
    for key, leaf in zip(keys, leaves, strict=True):
        if key in settings:
            named = key in NAMES or leaf == "name"
            short = leaf if leaves.count(leaf) == 1 else key
            words.append(str(settings[key]) if named else f"{short}={settings[key]}")
    return words


def paired(left: pd.Series, right: pd.Series) -> pd.Series:
    """left - right for each seed that both have, all three indexed by seed.

    What differs by float32's rounding alone is equal.
    """
    left, right = left.dropna().align(right.dropna(), join="inner")
    return (left - right).mask(np.isclose(left, right, rtol=ROUNDING, atol=0), 0.0)


def way(low: float, high: float) -> str:
    """`rose`, `fell` or `undecided`: by the interval of a change."""
    return "rose" if low > 0 else "fell" if high < 0 else "undecided"


def interval_text(low: float, high: float) -> str:
    """`+0.563 to +0.924`; empty where it is not known (NaN)."""
    return "" if math.isnan(low) else f"{low + 0.0:+.3f} to {high + 0.0:+.3f}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table as text: the first column to the left, the others to the right.

    rows: the heads first; columns that have nothing but a head are left out
    """
    table = pd.DataFrame(rows[1:], columns=rows[0]).set_index(rows[0][0]).rename_axis(None)
    return str(table.loc[:, (table != "").any()].to_string())
