"""The page of one table or figure, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from cory.report.archive import Archived
from cory.report.gather import short
from cory.report.markdown import NONE, cell, markdown
from cory.report.paper import PAPER_SCALE, PRESET, Table
from cory.report.presets import Compared, Compose, compare
from cory.report.results import results
from cory.report.runs import Collected
from cory.report.verdicts import Verdict, verdicts

# settings that say how fast, where, and under which name a run was made, not what it does
NOT_COMPARED = ("hardware", "wandb", "experiment", "sweep", "scale", "seed")
KEEPING = ("samples_every", "samples_kept", "checkpoint_every", "keep_last", "preflight_only")


def page(table: Table, found: Collected, image: str | None, compose: Compose) -> str:
    """Everything that docs/results/ says about one table or figure at one scale.

    image: file name of the figure; None when there is none
    """
    if table.kind == PRESET:
        return _preset(table, compose)
    small = "" if table.scale == PAPER_SCALE else f" ({table.scale} scale, not the paper's setting)"
    blocks = [
        f"# {table.entry['title']}{small}",
        _written(table),
        *_remarks(table),
        header(table, found.runs),
        *([f"![{table.entry['title']}]({image})"] if image else []),
        "## Results",
        *results(table, found),
        *left_out(found),
        *claims_section(table, verdicts(table, found)),
        *changes(table, found, compose),
        *runs_section(found.runs),
    ]
    return "\n\n".join(blocks) + "\n"


def _written(table: Table) -> str:
    """Where the figure comes from, and where the page does."""
    about = table.about
    where = (
        f"{about['title']}, {about['where']}." if table.in_paper else
        f"Not in the paper ({about['title']}): a question of this project."
    )  # fmt: skip
    return (
        f"{where}  \nWritten by `make report` from the records in "
        f"[records/{table.scale}](records/{table.scale}); not edited by hand."
    )


def _remarks(table: Table) -> list[str]:
    """What the file of the paper says about this table beside rows and claims."""
    return [str(table.entry["note"])] if "note" in table.entry else []


def header(table: Table, runs: Sequence[Archived]) -> str:
    """Scale, fidelity, device, commit, time and duration of the runs that count."""
    records = [run.record for run in runs]
    days = sorted({record["began"][:10] for record in records})
    walls = [record["wall_s"] / 60 for record in records]
    wall = "no runs"
    if walls:
        span = f"{min(walls):.1f} to {max(walls):.1f} min"
        wall = f"{sum(walls):.0f} min: {len(walls)} runs of {span}"
    cells = [
        table.scale,
        ", ".join(sorted({run.fidelity for run in runs})) or NONE,
        ", ".join(sorted({record["device"] for record in records})) or NONE,
        ", ".join(sorted({short(record["commit"]) for record in records})) or NONE,
        " to ".join(dict.fromkeys([days[0], days[-1]])) if days else NONE,
        wall,
    ]
    return markdown(["scale", "fidelity", "device", "commit", "when", "wall time"], [cells])


def left_out(found: Collected) -> list[str]:
    """What stands under the results: runs that do not count, and doubts about those that do."""
    blocks = []
    if found.refused:
        listed = [f"- `{refused.name}`: {refused.why}" for refused in found.refused]
        blocks.append("Not counted:\n\n" + "\n".join(listed))
    if found.notes:
        blocks.append("Counted, although:\n\n" + "\n".join(f"- {note}" for note in found.notes))
    return blocks


def claims_section(table: Table, judged: Sequence[Verdict]) -> list[str]:
    """Every claim with its numbers."""
    if not judged:
        return ["## Claims", "The paper says nothing about it that runs could contradict."]
    rows = [
        [
            statement(table, one),
            str(one.claim["section"]),
            one.per_seed,
            one.mean,
            one.text,
        ]
        for one in judged
    ]
    said = "the paper says" if table.in_paper else "asked"
    return [
        "## Claims" if table.in_paper else "## Questions",
        "A claim holds when it holds for the mean over seeds and for every seed; it is not run "
        "while a run on either side is missing or refused. Margins and factors are ours wherever "
        "the paper gives none.",
        markdown([said, "section", "per seed", "mean ± std", "here"], rows),
    ]


def statement(table: Table, one: Verdict) -> str:
    """The claim with its note; whose it is where that is not the page's subject."""
    note = f" ({one.claim['note']})" if "note" in one.claim else ""
    ours = "Our question, not the paper's: " if one.question and table.in_paper else ""
    return f"{ours}{one.claim['text']}{note}"


def changes(table: Table, found: Collected, compose: Compose) -> list[str]:
    """How the runs differ from the paper's setting: the scale's reasons, then key by key."""
    first = {name: seeds[min(seeds)] for name, seeds in found.counted.items() if seeds}
    paper = {
        name: OmegaConf.to_container(compose(name, PAPER_SCALE), resolve=True) for name in first
    }
    reasons = list(
        dict.fromkeys(
            reason
            for name in first
            for path in scale_files(table.conf, table.scale, paper[name])
            for reason in scale_reasons(path)
        )
    )
    rows = setting_differences(table, first, paper)
    if not reasons and not rows:
        return []
    return [
        "## Changes from the paper's setting",
        *(["\n".join(reasons)] if reasons else []),
        *([markdown(["setting", "paper", "used", "in"], rows)] if rows else []),
    ]


def scale_files(conf: Path, scale: str, paper: Any) -> list[Path]:
    """The files of conf/ that turn an experiment into its form at a scale."""
    model, task, algorithm = (paper[group]["name"] for group in ("model", "task", "algorithm"))
    paths = [
        conf / "scale" / f"{scale}.yaml",
        conf / "stand_in" / f"{scale}_{model}.yaml",
        conf / "stand_in_task" / f"{scale}_{task}.yaml",
        conf / "stand_in_algorithm" / f"{scale}_{task}_{algorithm}.yaml",
    ]
    return [path for path in paths if path.exists()]


def scale_reasons(path: Path) -> list[str]:
    """The commented lines of a scale's file, as a list."""
    pattern = re.compile(r"^\s*(?:- override /)?([\w.]+: .*?\S)\s+#\s*(.+)$")
    matches = map(pattern.match, path.read_text(encoding="utf-8").splitlines())
    return [f"- `{match[1]}`: {match[2]}" for match in matches if match]


def setting_differences(
    table: Table, first: Mapping[str, Archived], paper: Mapping[str, Any]
) -> list[list[str]]:
    """Key, the paper's value, the value used, and the methods where they differ."""
    labels = {row["experiment"]: row.get("label") or row["experiment"] for row in table.rows}
    for row in table.rows:
        if "eta" in row:
            learning_rate = f"lr {row['lr']}, " if "lr" in row else f"{row['label']}, "
            labels[row["experiment"]] = f"{learning_rate}eta {row['eta']}"
    methods: dict[tuple[str, str, str], list[str]] = {}
    for name, run in first.items():
        asked, used = _flat(paper[name]), _flat(run.settings)
        for key in asked.keys() & used.keys():
            if key.partition(".")[0] not in (*NOT_COMPARED, *KEEPING) and asked[key] != used[key]:
                change = (key, cell(f"{asked[key]}", 120), cell(f"{used[key]}", 120))
                methods.setdefault(change, []).append(labels[name])
    every = [labels[name] for name in first]
    return [
        [f"`{key}`", before, used, "all" if named == every else ", ".join(named)]
        for (key, before, used), named in sorted(methods.items())
    ]


def runs_section(runs: Sequence[Archived]) -> list[str]:
    """What every run cost."""
    if not runs:
        return []
    rows = [
        [
            f"`{run.name}`",
            run.fidelity,
            short(run.record["commit"]),
            run.record["device"],
            run.record["began"],
            str(run.record["iterations"]),
            f"{run.record['wall_s'] / 60:.1f}",
        ]
        for run in runs
    ]
    head = ["run", "fidelity", "commit", "device", "began", "iterations", "minutes"]
    return ["## Runs", markdown(head, rows)]


def _preset(table: Table, compose: Compose) -> str:
    """A printed table of settings beside conf/."""
    compared = compare(table.entry, compose)
    settings: dict[str, list[Compared]] = {}
    for one in compared:
        settings.setdefault(one.setting, []).append(one)
    rows = []
    for setting, columns in settings.items():
        keys = "<br>".join(f"`{key}`" for key in columns[0].keys) or NONE
        values = [
            f"{one.printed}; {', '.join(dict.fromkeys(f'{v}' for v in one.ours)) or NONE}"
            for one in columns
        ]
        same = [one.same for one in columns]
        word = "no counterpart" if None in same else "yes" if all(same) else "**no**"
        rows.append([setting, keys, *values, word, columns[0].note])
    judged = [one.same for one in compared if one.same is not None]
    labels = [f"{row['label']} (`{row['experiment']}`)" for row in table.rows]
    blocks = [
        f"# {table.entry['title']}",
        f"{table.about['title']}, {table.about['where']}.  \nWritten by `make report` from "
        "conf/paper/ and the composed settings of the experiments; not edited by hand.",
        *_remarks(table),
        f"{sum(judged)} of {len(judged)} printed values are those of conf/. In each column: the "
        "printed value; the value in conf/.",
        markdown(["hyper-parameter", "key", *labels, "same", "note"], rows),
    ]
    return "\n\n".join(blocks) + "\n"


def _flat(node: Any, prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in node.items():
        inner = isinstance(value, dict) and value
        flat |= _flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return flat
