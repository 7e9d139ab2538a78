"""The page of one table or figure, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from cory.claims import Outcome, Sides, judge, measure
from cory.plots import agent_label, agents_of
from cory.report import Collected, Run, Table

COLUMNS = {
    "objective/score": "task reward",
    "objective/kl": "KL (nats)",
    "objective/combined": "combined reward",
}
MISSING = "???"  # a number that the paper does not print
NONE = "-"


def page(table: Table, found: Collected, image: str | None) -> str:
    """Everything that docs/results/ says about one table or figure.

    image: file name of the curves; None when there are no runs to draw
    """
    about = table.about["tables"][table.name]
    small = "" if table.scale == "paper" else f" ({table.scale} scale, not the paper's setting)"
    results = ["method", *COLUMNS.values(), "held-out task reward", "paper", "seeds"]
    claims = ["the paper says", "section", "per seed", "mean ± std", "here"]
    options = "" if table.scale == "paper" else f" --scale {table.scale}"
    options += " --allow-mixed" if found.notes else ""
    blocks = [
        f"# {about['title']}{small}",
        f"{table.about['title']}, {table.about['where']}.  \n"
        f"Written by `python scripts/table.py {table.paper} {table.name}{options}` from the "
        "records of the runs; not edited by hand.",
        header(table, found.runs),
        *([f"![Training curves]({image})"] if image else []),
        "## Results",
        f"Mean over the last {table.window} iterations of each run, then mean ± sample standard "
        "deviation over seeds. Held-out: one agent alone, after the last iteration. LLM1 and LLM2 "
        "are the agents; they keep their weights when roles are exchanged.",
        markdown(results, result_rows(table, found)),
        *left_out(found),
        "## Claims",
        "A claim holds when it holds for the mean over seeds and for every seed; it is not run "
        "while a run on either side is missing or refused.",
        markdown(claims, claim_rows(table, found)),
        *changes(table, found),
    ]
    return "\n\n".join(blocks) + "\n"


def header(table: Table, runs: Sequence[Run]) -> str:
    """Scale, device, commit, time and duration of the runs that count."""
    records = [run.record for run in runs]
    days = sorted({record["began"][:10] for record in records})
    walls = [record["wall_s"] / 60 for record in records]
    wall = "no runs"
    if walls:
        span = f"{min(walls):.1f} to {max(walls):.1f} min"
        wall = f"{sum(walls):.0f} min: {len(walls)} runs of {span}"
    cells = [
        table.scale,
        ", ".join(sorted({record["device"] for record in records})) or NONE,
        ", ".join(sorted({(record["commit"] or "unknown")[:7] for record in records})) or NONE,
        " to ".join(dict.fromkeys([days[0], days[-1]])) if days else NONE,
        wall,
    ]
    return markdown(["scale", "device", "commit", "when", "wall time"], [cells])


def lacking(table: Table, found: Collected, experiment: str) -> str:
    """`not run (2 of 3 seeds): 1, 2`, the same for refused runs; empty when every seed counts."""
    absent = [seed for seed in table.seeds if seed not in found.counted[experiment]]
    finished = {refused.seed for refused in found.refused if refused.experiment == experiment}
    parts = {
        "not run": [seed for seed in absent if seed not in finished],
        "refused": [seed for seed in absent if seed in finished],
    }
    return "; ".join(
        f"{word} ({len(seeds)} of {len(table.seeds)} seeds): {', '.join(map(str, seeds))}"
        for word, seeds in parts.items()
        if seeds
    )


def result_rows(table: Table, found: Collected) -> list[list[str]]:
    """One line per method and agent: label, end values, held-out reward, paper, seeds."""
    rows = []
    for row in table.rows:
        runs = found.counted[row["experiment"]]
        gaps = lacking(table, found, row["experiment"])
        seeds = "; ".join(filter(None, [f"{len(runs)}", gaps]))
        paper = f"{NONE} ({row['source']})" if row["paper"] == MISSING else f"{row['paper']}"
        if not runs:
            rows.append([row["label"], gaps, NONE, NONE, NONE, paper, seeds])
            continue
        agents = agents_of([line for run in runs.values() for line in run.lines])
        for agent in agents:
            cells = [
                plus_minus(
                    [
                        measure(run.lines, f"{key}/{agent}", "final", table.window)
                        for run in runs.values()
                    ]
                )
                for key in COLUMNS
            ]
            held_out = plus_minus([_last(run, f"eval/score/{agent}") for run in runs.values()])
            label = agent_label(row["label"], agent, agents)
            rows.append([label, *cells, held_out, paper, seeds])
    return rows


def claim_rows(table: Table, found: Collected) -> list[list[str]]:
    """One line per claim: statement, section, numbers per seed, mean and std, verdict."""
    records = {
        name: {seed: run.lines for seed, run in seeds.items()}
        for name, seeds in found.counted.items()
    }
    rows = []
    for claim in table.claims:
        outcome = judge(claim, records, table.seeds, table.window)
        note = f" ({claim['note']})" if "note" in claim else ""
        per_seed = [f"{seed}: {_compared(claim, s)}" for seed, s in sorted(outcome.seeds.items())]
        rows.append(
            [
                claim["text"] + note,
                claim["section"],
                "<br>".join(per_seed) or NONE,
                _mean_text(claim, outcome),
                outcome.verdict,
            ]
        )
    return rows


def plus_minus(values: Sequence[float]) -> str:
    """Mean ± sample standard deviation; the mean alone for one value."""
    spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{spread}"


def _compared(claim: Mapping[str, Any], sides: Sides) -> str:
    """Both numbers of one seed, with what they are compared by."""
    factor = f"{claim['factor']} x " if "factor" in claim else ""
    margin = f" (margin {sides.margin:.2f})" if claim["relation"] == "~" else ""
    return f"{sides.left:.2f} vs {factor}{_side(claim, sides.right)}{margin}"


def _mean_text(claim: Mapping[str, Any], outcome: Outcome) -> str:
    """Both sides over the seeds."""
    if outcome.mean is None:
        return NONE
    if outcome.std is None:
        return _compared(claim, outcome.mean)
    factor = f"{claim['factor']} x " if "factor" in claim else ""
    right = _side(claim, outcome.mean.right)
    if isinstance(claim["right"], Mapping):
        right = f"{right} ± {outcome.std.right:.2f}"
        right = f"({right})" if factor else right
    margin = f" (margin {outcome.mean.margin:.2f})" if claim["relation"] == "~" else ""
    return f"{outcome.mean.left:.2f} ± {outcome.std.left:.2f} vs {factor}{right}{margin}"


def _side(claim: Mapping[str, Any], right: float) -> str:
    """The right side; a plain number as it was written."""
    return f"{right:.2f}" if isinstance(claim["right"], Mapping) else f"{right:g}"


def _last(run: Run, metric: str) -> float:
    """The last value logged."""
    values = [float(line[metric]) for line in run.lines if metric in line]
    if not values:
        raise ValueError(f"{run.name} has no {metric}")
    return values[-1]


def left_out(found: Collected) -> list[str]:
    """What stands under the results: runs that do not count, and doubts about those that do."""
    blocks = []
    if found.refused:
        listed = [f"- `{refused.name}`: {refused.why}" for refused in found.refused]
        blocks.append("Not counted:\n\n" + "\n".join(listed))
    if found.notes:
        listed = [f"- `{note.replace(': ', '`: ', 1)}" for note in found.notes]
        blocks.append("Counted because of `--allow-mixed`:\n\n" + "\n".join(listed))
    return blocks


def changes(table: Table, found: Collected) -> list[str]:
    """How the runs differ from the paper's setting: the scale's reasons, then key by key."""
    reasons = scale_reasons(table.conf / "scale" / f"{table.scale}.yaml")
    rows = setting_differences(table, found)
    if not reasons and not rows:
        return []
    return [
        "## Changes from the paper's setting",
        *(["\n".join(reasons)] if reasons else []),
        *([markdown(["setting", "paper", "used", "in"], rows)] if rows else []),
    ]


def scale_reasons(path: Path) -> list[str]:
    """The commented lines of a scale's file, as a list."""
    pattern = re.compile(r"^\s*(?:- override /)?([\w.]+: \S+)\s+#\s*(.+)$")
    matches = map(pattern.match, path.read_text(encoding="utf-8").splitlines())
    return [f"- `{match[1]}`: {match[2]}" for match in matches if match]


def setting_differences(table: Table, found: Collected) -> list[list[str]]:
    """Key, the paper's value, the value used, and the methods where they differ.

    The paper's values are those of the options of conf/ that conf/paper/ names.
    """
    methods: dict[tuple[str, str, str], list[str]] = {}
    for row in table.rows:
        options = {"model": row["model"], **table.about["settings"]}
        for run in list(found.counted[row["experiment"]].values())[:1]:
            for group, option in options.items():
                paper = _flat(load_option(table.conf / group, option))
                used = _flat(OmegaConf.to_container(run.settings[group]))
                for key in paper.keys() & used.keys() - {"name"}:
                    if paper[key] != used[key]:
                        change = (f"{group}.{key}", f"{paper[key]}", f"{used[key]}")
                        methods.setdefault(change, []).append(row["label"])
    every = [row["label"] for row in table.rows if found.counted[row["experiment"]]]
    return [
        [f"`{key}`", paper, used, "all" if labels == every else ", ".join(labels)]
        for (key, paper, used), labels in sorted(methods.items())
    ]


def load_option(group: Path, option: str) -> Any:
    """An option of conf/ with the ones it builds on, as Hydra would put them together."""
    own = OmegaConf.load(group / f"{option}.yaml")
    assert isinstance(own, DictConfig)
    bases = [str(base) for base in own.pop("defaults", []) if base != "_self_"]
    merged = OmegaConf.merge(*(load_option(group, base) for base in bases), own)
    return OmegaConf.to_container(merged)


def _flat(node: Any, prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in node.items():
        inner = isinstance(value, dict)
        flat |= _flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return flat


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
