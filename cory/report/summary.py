"""The end of a run: what training changed, a sentence on it, hints, the last episodes, curves.

The agents answer the same held-out prompts before and after the training with the same random
numbers, so that differences are taken prompt by prompt.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from cory.evaluation.responses import BEFORE, MEASURED, TEAM
from cory.functional.statistics import ROUNDING, mean_interval, paired_interval, share_interval
from cory.report.hints import AGENT, obstacles, of_agents
from cory.report.runs import (
    EVALUATION,
    INTERVAL,
    LAST,
    PROBED,
    aligned,
    end_values,
    interval_text,
    judged_by,
    read_metrics,
    title,
    way,
)
from cory.runs.files import read_lines
from cory.runs.recorder import TRAINING
from cory.runs.run_dir import AGENTS, SAMPLES, SCORES, read_record, read_settings

CURVES = "curves.png"
LEAST_PROMPTS = 20  # of fewer nothing is claimed: their intervals are too narrow too often
EPISODES = 2  # that are shown
SHOWN = (
    r"eval/(win_rate(_\w+)?|solved)/.+",
    r"eval/(vote|right)/turn_\d+",
    r"eval/verifier_(auc|accuracy)/natural",
    r"eval/(pass_at_\d+|greedy|score|nll)/.+",
    rf"objective/(score|kl)/{AGENT}",
    rf"objective/combined/{AGENT}",
    r"(supervised|offline|verifier)/(loss|kl)(/.+)?",
    PROBED.pattern,
)
NORM, SPIKE = "ppo/gradient_norm", 100.0  # how often the median spoils Adam's second moments
LEAST_KL = 1.0  # nats below which a KL is no matter
COLUMNS = ["before", "after", "low", "high", "prompts"]


def before_after(run_dir: Path) -> pd.DataFrame:
    """What training changed: a row per metric that matters, by its name.

    Columns: `before`, `after`, `change`; `low`, `high`: the LEVEL interval of the change over
    `prompts`, of `after` where there is no before. NaN where it is not known. Of evaluations,
    before is the one before the training and after the last one; of the training the first
    iteration, NaN if it is the only one, and the mean of the last LAST; of a changed team the team
    as it is, and the changed one, in the last evaluation.
    """
    frame = read_metrics(run_dir)
    names, ends = _shown(frame), end_values(frame)
    scores = read_lines(run_dir / SCORES) if (run_dir / SCORES).exists() else []
    rows = []
    for name in names:
        logged = frame[name].dropna()
        first = logged.get(0) if name.startswith(EVALUATION) or len(logged) == 1 else logged.iloc[0]
        pair = scores
        if scores and (probe := PROBED.fullmatch(name)):
            team, last = f"eval/{probe[3]}", scores[-1]
            first = ends.get(team)  # None: nobody had this role in the unchanged team
            known = {kind: {name: last[kind].get(team)} for kind in ("values", "shares")}
            pair = [{**last, "iteration": -1, **known}, last]
        rows.append({"before": first, "after": ends[name], **_over_prompts(pair, name)})
    table = pd.DataFrame(rows, index=names, columns=COLUMNS, dtype=float)
    table.insert(2, "change", table["after"] - table["before"])
    return table


def _over_prompts(scores: Sequence[Mapping[str, Any]], metric: str) -> dict[str, float | None]:
    """The columns of a metric that come from its values prompt by prompt.

    scores: the lines of prompt_scores.jsonl, of which the first has iteration -1 if it is of before
        the training
    """
    if not scores or metric not in scores[-1]["values"]:
        return {}
    first, last = scores[0], scores[-1]
    after, tries, interval = last["values"][metric], last["shares"].get(metric), None
    if first["iteration"] >= 0:
        interval = mean_interval(after) if tries is None else share_interval(after, tries)
    elif first["values"].get(metric) is not None and first["prompts"] == last["prompts"]:
        # by chance all values of one evaluation may be 0 or 1
        tries = tries if tries == first["shares"].get(metric) else None
        interval = paired_interval(first["values"][metric], after, tries)
    low, high = interval or (None, None)
    return {"low": low, "high": high, "prompts": len(after)}


def _shown(frame: pd.DataFrame) -> list[str]:
    """The metrics of SHOWN that a run has, without what says the same twice."""
    names = [name for pattern in SHOWN for name in frame if re.fullmatch(pattern, name)]
    if any(name.startswith("eval/vote/") for name in names):  # debates, not single answers
        names = [name for name in names if not re.match("eval/(pass_at|greedy|score)", name)]
    if any(name.startswith(EVALUATION) for name in names):
        names = [name for name in names if not name.startswith("objective/score/")]
    twins = {name: {name.replace("/score/", "/pass_at_1/")} for name in names}
    for name in filter(PROBED.fullmatch, names):
        twins[name].add(f"{name.rpartition('/')[0]}/team")
    said = {
        name
        for name in names
        for one in (twins[name] - {name}) & {*frame}
        if np.allclose(frame[name], frame[one], rtol=ROUNDING, equal_nan=True)
    }
    return [name for name in names if name not in said]


def _number(value: float, form: str = ".3f") -> str:
    return "" if np.isnan(value) else f"{value + 0.0:{form}}"


def sentence(changes: pd.DataFrame) -> str:
    """What the table says of the metrics that the run is judged by; empty without an interval."""
    about = _judged(changes)
    if about.empty:
        return ""
    prompts = int(about["prompts"].max())
    if prompts < LEAST_PROMPTS:
        return f"Undecided: of fewer than {LEAST_PROMPTS} held-out prompts nothing can be told."
    said = []
    for name, row in about.iterrows():
        told, size = way(row["low"], row["high"]), f"{row['change']:+.3f}"
        size = f"{told} ({size})" if told == "undecided" else f"{told} by {size.lstrip('+-')}"
        said.append(f"{title(str(name))}: {size}")
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}. ({INTERVAL}s over {prompts} prompts)"


def hints(
    changes: pd.DataFrame,
    frame: pd.DataFrame,
    one_seed: bool,
    prompts: int | None,
    clipped: bool = False,
) -> list[str]:
    """What to look at or to try next, what spoils a run first; at most seven.

    changes: as `before_after` gives them; frame: as `read_metrics`
    one_seed: the run is none of several that differ in their seed
    prompts: evaluation.prompts of the run; None: all that are held out
    clipped: the norm of gradients was clipped
    """
    ends = end_values(frame)
    answers = any(re.match("eval/(pass_at|vote)", name) for name in ends.index)
    found = obstacles(ends.to_dict(), answers)
    for who, kl in of_agents(ends.to_dict(), "objective/kl").items():
        combined = frame[f"objective/combined/{who}"].dropna()
        last = combined[-LAST:]
        if kl > LEAST_KL and last.mean() + 2 * last.sem() < combined.iloc[0]:
            found.append(
                f"algorithm.kl_coef: {kl:.1f} nats of KL cost {who} more than the reward that they "
                f"brought; a higher coefficient, or a lower learning rate, holds the KL"
            )
            break
    largest = {who: frame[f"{NORM}/{who}"].max() for who in of_agents(ends.to_dict(), NORM)}
    for who, norm in largest.items():
        usual = frame[f"{NORM}/{who}"].median()
        if not clipped and norm > SPIKE * usual:
            found.append(
                f"algorithm.max_grad_norm: the norm of {who}'s gradient was once {norm:,.0f}, and "
                f"{usual:.2g} as a rule; after such a one Adam's steps stay small for hundreds "
                f"more, unless it is clipped, as by 1.0"
            )
            break
    about = _judged(changes)
    asked = 0 if about.empty else int(about["prompts"].max())
    undecided = "undecided" in map(way, about["low"], about["high"])
    if (undecided or asked < LEAST_PROMPTS) and asked == prompts:  # there may be more
        found.append(
            f"evaluation.prompts: beside the interval over {asked} prompts the change is small; "
            f"{max(4 * asked, LEAST_PROMPTS)} would halve it"
        )
    elif 0 < asked < LEAST_PROMPTS:  # all that there are
        found.append(
            f"task.held_out_share: {asked} held-out prompts tell nothing; {LEAST_PROMPTS} may do"
        )
    if one_seed:
        found.append("seed: this is one run; -m seed=0,1,2 shows how much seeds differ")
    return found


def _judged(changes: pd.DataFrame) -> pd.DataFrame:
    """The rows that the run is judged by, where there is an interval of a change."""
    return changes.loc[judged_by([*changes.index])].dropna(subset=["change", "low"])


def episodes(lines: Sequence[dict[str, Any]]) -> str:
    """The last training episode of samples.jsonl and a held-out prompt, before and after.

    Of each the query, and each answer with its score. Two of the training where there is no before.
    """
    pair = held_out_pair(lines)
    last = [line for line in lines if line["kind"] == TRAINING][-1 if pair else -EPISODES :]
    shown = [(f"iteration {line['iteration'] + 1}", line) for line in last]
    rows = []
    for head, line in [*shown, *zip(("held out, before", "held out, after"), pair, strict=False)]:
        query = textwrap.shorten(line["prompt"], 200, placeholder=" ...")
        rows.append(f"{head}: {query}")
        for turn in line["turns"]:
            silent = "(thinking alone)" if turn.get("thinking") else "(absent)"
            text = textwrap.shorten(turn["response"] or silent, 100, placeholder=" ...")
            role = "" if turn["role"] in ("solo", turn["agent"]) else f" ({turn['role']})"
            score = "" if turn["score"] is None else f"  [{turn['score']:+.2f}]"
            rows.append(f"  {turn['agent']}{role}: {text}{score}")
    return "\n".join(rows)


def held_out_pair(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first held-out prompt before the training and in the last evaluation, of the team first.

    Empty where no prompt was answered both times.
    """

    def answered(kind: str) -> dict[tuple[Any, ...], dict[str, Any]]:
        keys = ("who", "prompt_id", "sample")
        return {tuple(line[key] for key in keys): line for line in lines if line["kind"] == kind}

    before, after = answered(BEFORE), answered(MEASURED)
    both = [key for key in after if key in before]
    key = min(both, key=lambda key: key[0] != TEAM, default=None)
    return [] if key is None else [before[key], after[key]]


def team_line(frame: pd.DataFrame) -> str:
    """`team score: before 0.12, after 0.95, muted 0.13`; empty where no team was changed."""
    ends, found = end_values(frame), dict[str, float]()
    probes = [own for own in map(PROBED.fullmatch, ends.index) if own and own[3] == "score/team"]
    kinds = [probe[1] for probe in probes]
    for probe in probes:
        team = f"eval/{probe[3]}"
        found |= {"before ": frame[team][0]} if 0 in frame.index else {}
        found["after " if 0 in frame.index else ""] = ends[team]
        whom = f"{probe[2]} " if kinds.count(probe[1]) > 1 else ""
        found[f"{probe[1]} {whom}"] = ends[probe[0]]
    said = ", ".join(f"{who}{value + 0.0:.2f}" for who, value in found.items())
    return f"team score: {said}" if probes else ""


def show_summary(run_dir: Path) -> None:
    """Print the end of a finished run and draw its curves.png."""
    record, changes = read_record(run_dir) or {}, before_after(run_dir)
    rows = [["", "before", "after", "change", INTERVAL, "prompts"]]
    for name, row in changes.iterrows():
        numbers = [_number(row["before"]), _number(row["after"]), _number(row["change"], "+.3f")]
        interval = interval_text(row["low"], row["high"])
        rows.append([title(str(name)), *numbers, interval, _number(row["prompts"], ".0f")])
    iterations, parts = record["iterations"], [aligned(rows)]
    line = team_line(read_metrics(run_dir))
    if iterations > 0:
        last = min(LAST, iterations)
        note = f"of the training: its first iteration, and the mean of its last {last}"
        note = note if last > 1 else "of the training: its one iteration"
        if line:
            note += "; of a changed team: as it is and changed, both after the training"
        if changes["change"].isna()[changes["low"].notna()].any():
            note += "; without a before, the interval is that of after"
        last_ones = episodes(read_lines(run_dir / SAMPLES))
        parts = [last_ones, f"{parts[0]}\n({note})", sentence(changes)]
        alone = "seed-" not in run_dir.name and not run_dir.name.startswith("seed")
        keys = ("evaluation.prompts", "algorithm.max_grad_norm")
        prompts, clip = (OmegaConf.select(read_settings(run_dir), key) for key in keys)
        next_steps = hints(changes, read_metrics(run_dir), alone, prompts, clip is not None)
        parts.append("\n- ".join(["What next:", *next_steps]) if next_steps else "")
    print("\n" + "\n\n".join(filter(None, parts)))
    done = f"{iterations} iteration{'' if iterations == 1 else 's'}"
    print(f"\n{done} in {record['wall_s']:.0f} s; records in {run_dir}")
    if iterations > 0:
        from cory.report.plots import draw_run  # noqa: PLC0415  matplotlib takes half a second

        curves = run_dir / CURVES
        draw_run(run_dir, curves)
        drawn = f"; curves in {curves}" if curves.exists() else ""
        print(f"agents in {run_dir / AGENTS}{drawn}")
    if line:
        print(line)
