"""The section on changes from the paper's setting: what a scale changes and why, key by key."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from cory.config import named_experiments, small_file, with_values_of_before
from cory.report.paper import PAPER_SCALE, Compose, Table
from cory.report.records.archive import Archived
from cory.report.records.collect import CountedRuns
from cory.report.tables.markdown import cell, markdown

# settings that say how fast, where, and under which name a run was made, not what it does
NOT_COMPARED = ("hardware", "wandb", "tensorboard", "experiment", "sweep", "scale", "seed")
KEEPING = (
    "samples_every",
    "samples_kept",
    "checkpoint_every",
    "export_every",
    "keep_last",
    "keep_state",
    "keep_best",
    "keep_best_mode",
    "stretch_schedule",
    "parallel_runs",
    "evaluation.before",  # one measurement more, before the training begins
)


def changes(table: Table, found: CountedRuns, compose: Compose) -> list[str]:
    """The whole section: the reasons in the files of the scale, then the settings that differ."""
    first = {name: seeds[min(seeds)] for name, seeds in found.counted.items() if seeds}
    paper = {name: _paper_settings(compose, name) for name in first}
    # a file that other experiments start from, too, stands where its own experiment does
    forms = table.conf / table.scale / "experiment"
    owners = {forms / f"{name}.yaml": name for name in first}
    paths = [
        path
        for name in first
        for path in scale_files(table.conf, table.scale, name)
        if owners.get(path, name) == name
    ]
    used = [_used(run) for run in first.values()]
    reasons = list(dict.fromkeys(reason for path in paths for reason in scale_reasons(path, used)))
    rows = setting_differences(table, first, paper)
    if not reasons and not rows:
        return []
    return [
        "## Changes from the paper's setting",
        *(["\n".join(reasons)] if reasons else []),
        *([markdown(["setting", "paper", "used", "in"], rows)] if rows else []),
    ]


@cache  # most experiments are on several pages
def _paper_settings(compose: Compose, experiment: str) -> Any:
    """An experiment's settings at the paper's scale; nobody may change them."""
    return OmegaConf.to_container(compose(experiment, PAPER_SCALE), resolve=True)


def scale_files(conf: Path, scale: str, experiment: str) -> list[Path]:
    """The files of conf/ that change an experiment at a scale, see conf/<scale>/<scale>.yaml."""
    options = chosen(conf, "train") | chosen(conf, f"experiment/{experiment}")
    groups = ("model", "task", "reward", "algorithm")
    model, task, reward, algorithm = (options.get(group) for group in groups)
    forms = conf / scale
    paths = [
        conf / "scale" / f"{scale}.yaml",
        forms / "model" / f"{model}.yaml",
        forms / "task" / f"{task}.yaml",
        forms / "reward" / f"{reward}.yaml",
        forms / "algorithm" / f"{task}_{algorithm}.yaml",
        *([small_file(conf, experiment)] if forms.name == "small" else []),
    ]
    return [part for path in paths if path.exists() for part in with_bases(path)]


def with_bases(path: Path) -> list[Path]:
    """A file of conf/ after those of its group that it builds on."""
    settings = OmegaConf.to_container(OmegaConf.load(path))
    listed = settings.get("defaults", []) if isinstance(settings, dict) else []
    names = [entry for entry in listed if isinstance(entry, str) and entry.isidentifier()]
    bases = [path.with_name(f"{name}.yaml") for name in names if name != "_self_"]
    return [*(part for base in bases for part in with_bases(base)), path]


@cache
def chosen(conf: Path, name: str) -> dict[str, str]:
    """Group -> option, by the defaults of a file of conf/ and of the experiments it builds on.

    name: a file of conf/, or experiment/<entry of conf/names.yaml>
    """
    named = named_experiments(conf).get(name.removeprefix("experiment/"))
    if named is not None:
        words = dict(word.split("=", 1) for word in named.words)
        return chosen(conf, f"experiment/{named.base}") | words
    found: dict[str, str] = {}
    settings = OmegaConf.to_container(OmegaConf.load(conf / f"{name}.yaml"))
    assert isinstance(settings, dict)
    for entry in settings.get("defaults", []):
        if not isinstance(entry, str):
            found |= {str(k).removeprefix("override ").lstrip("/"): v for k, v in entry.items()}
        elif entry.startswith("/experiment/"):
            found |= chosen(conf, entry.lstrip("/"))
    return found


def scale_reasons(path: Path, used: Sequence[Mapping[str, Any]]) -> list[str]:
    """The commented lines of a scale's file, as a list.

    used: the settings of runs, flat; what none of them has, as another file has the last word about
        it, is left out
    """
    pattern = re.compile(r"^( *)(- override /)?([\w.]+):(?: (.*?\S))??(?:\s+#\s*(.+))?$")
    reasons: list[str] = []
    above: list[tuple[int, str]] = []  # keys that a line lies below, and how far they are indented
    for match in map(pattern.match, path.read_text(encoding="utf-8").splitlines()):
        if match is None:
            continue
        indent, option, key, value, reason = match.groups()
        above = [(at, name) for at, name in above if at < len(indent)]
        setting = ".".join([*(name for _, name in above), key])
        above.append((len(indent), key))
        if value is None or reason is None:
            continue
        if option or _is_used(setting, value, used):
            reasons.append(f"- `{key}: {value}`: {reason}")
    return reasons


def _is_used(setting: str, value: str, used: Sequence[Mapping[str, Any]]) -> bool:
    """Whether some run has this value, as far as a line can tell: it may refer to another value."""
    known = [settings[setting] for settings in used if setting in settings]
    return not known or "${" in value or OmegaConf.create(f"value: {value}").value in known


def _used(run: Archived) -> Mapping[str, Any]:
    return with_values_of_before(_flat(run.settings))


def setting_differences(
    table: Table, first: Mapping[str, Archived], paper: Mapping[str, Any]
) -> list[list[str]]:
    """Key, the paper's value, the value used, and the methods where they differ."""
    labels = {name: name for name in first}  # of runs that only claims are about
    labels |= labels_of(table)
    for row in table.rows:
        if "eta" in row:
            learning_rate = f"lr {row['lr']}, " if "lr" in row else f"{row['label']}, "
            labels[row["experiment"]] = f"{learning_rate}eta {row['eta']}"
    methods: dict[tuple[str, str, str], list[str]] = {}
    for name, run in first.items():
        # a run of before a setting came had its value of before, which may not be the paper's
        asked, used = map(with_values_of_before, (_flat(paper[name]), _flat(run.settings)))
        for key in asked.keys() & used.keys():
            if {key, key.partition(".")[0]} & {*NOT_COMPARED, *KEEPING}:
                continue
            if asked[key] != used[key]:
                change = (key, cell(f"{asked[key]}", 120), cell(f"{used[key]}", 120))
                methods.setdefault(change, []).append(labels[name])
    every = [labels[name] for name in first]
    return [
        [f"`{key}`", before, used, "all" if named == every else ", ".join(named)]
        for (key, before, used), named in sorted(methods.items())
    ]


def labels_of(table: Table) -> dict[str, str]:
    """Experiment -> the labels of the rows that show it."""
    labels: dict[str, dict[str, None]] = {}
    for row in table.rows:
        if "experiment" in row:
            label = row.get("label") or row["experiment"]
            labels.setdefault(row["experiment"], {})[label] = None
    return {name: ", ".join(own) for name, own in labels.items()}


def _flat(node: Any, prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in node.items():
        inner = isinstance(value, dict) and value
        flat |= _flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return flat
