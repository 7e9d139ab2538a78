"""Build the W&B workspace of a project from docs/metrics.md: each metric, its meaning, its curve.

    python scripts/dashboard.py ENTITY/PROJECT --dry-run    list what it would hold; no network
    python scripts/dashboard.py ENTITY/PROJECT              save it as a new view

Saving needs `pip install ".[dashboard]"` and `wandb login`. Without W&B, scripts/compare.py draws
the three panels that come first here from run directories.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import wandb

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
WHOM = {  # how the names of a metric end, by whom it is about
    # a policy stands for an agent, for a turn of a debate, or for both
    "agent": "(agent_[0-9]+(_turn_[0-9]+)?|turn_[0-9]+|(generation|critic)_[0-9]+|single)",
    "role": "(pioneer|observer)(_[0-9]+)?",
    "team": "team",
    "turn": "turn_[0-9]+",
    "kind": "(generation|critic|single)",
    "answers": "(natural|balanced|within)",
    "opponent": "[^/]+",  # the settings name them freely
}
ENDINGS: dict[str, dict[str, tuple[str, ...]]] = {
    # section of the page -> names of its metrics -> of WHOM; of patterns the first that fits
    "Agents": {"transfer/.+": ("role",), ".+": ("agent",)},
    "Evaluation": {".+": ("agent", "role", "team")},
    "Debates": {
        "debate/(shortened|ended_early)": (),
        "eval/(flow|revision|influence)_.+": ("turn", "team"),
        ".+": ("turn",),
    },
    "Learning from examples": {
        "verifier/.+": (),
        "supervised/(score|kept_score)": ("team",),
        "eval/verifier_.+": ("answers",),
        ".+": ("agent",),
    },
    "Specialised agents": {
        "eval/(kl_base|nll_others)": ("kind",),
        "eval/endpoint_.+|debate/.+": ("team",),
        "supervised/.+": ("agent",),
        ".+": ("turn",),
    },
    "Sets of word games": {".+": ()},
    "Offline updates on word games": {".+": ("agent",)},
    "Evaluation by word games": {".+": ("opponent",)},
    "The whole iteration": {".+": ()},
}
NOT_LOGGED = "Benchmarks"  # a section of numbers that are in no run's metrics, and so not in W&B
PLACEHOLDERS = {
    "<k>": "[0-9]+",
    "<part>": "[^/]+",
    "<name>": ".+",
    "<role>": "(attacker|defender|guesser|oracle)",
}
CURVES = "curves"
# the panels that come first (Ma et al., figs. 3, 4, 6 to 10)
PANELS = ("objective/score", "objective/kl", "objective/combined")


@dataclass(frozen=True)
class Metric:
    """One row of the page."""

    name: str
    meaning: str
    whom: tuple[str, ...]  # of WHOM: logged as name/agent_0, ..., or as name/pioneer, ...


@dataclass(frozen=True)
class Panel:
    """One line plot: every logged metric that the pattern matches."""

    title: str
    pattern: str


@dataclass
class Section:
    """Panels under one heading, with what their metrics mean."""

    name: str
    panels: list[Panel] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)

    def legend(self) -> str:
        """The meanings, as Markdown."""
        return "\n".join(f"- `{metric.name}`: {metric.meaning}" for metric in self.metrics)


def read_metrics(text: str) -> list[Metric]:
    """The rows of the tables of docs/metrics.md, in their order, without what no run logs.

    Raises ValueError where it is not known how the names of a section end.
    """
    parts = re.split("^## (.+)$", text, flags=re.MULTILINE)
    rows = {
        heading: [
            (name, meaning)
            for names, meaning in re.findall(r"^\| `([^|]+)` \|([^|]+)\|", body, flags=re.MULTILINE)
            for name in names.split("`, `")
        ]
        for heading, body in zip(["", *parts[1::2]], parts[::2], strict=True)
    }
    tables = {heading: found for heading, found in rows.items() if found and heading != NOT_LOGGED}
    for heading in sorted(tables.keys() ^ ENDINGS.keys()):
        raise ValueError(f"docs/metrics.md, section '{heading}': how do its metrics' names end?")
    twice = re.search(r"With several agents,\s(.+?)\sare\swritten\sa\s", text, re.DOTALL)
    roles = re.findall(r"`([^`]+)`", twice[1]) if twice else []
    metrics = [
        Metric(name, meaning.strip(), (*whom, "role") if name in roles else whom)
        for heading, found in tables.items()
        for name, meaning in found
        for whom in [ending(heading, name)]
    ]
    by_role = {metric.name for metric in metrics if metric.whom == ("agent", "role")}
    if not roles or not set(roles) <= by_role:
        raise ValueError("docs/metrics.md: the names written under a role are not in its table")
    return metrics


def ending(heading: str, name: str) -> tuple[str, ...]:
    """Whom a metric of a section is about: names of WHOM."""
    return next(whom for names, whom in ENDINGS[heading].items() if re.fullmatch(names, name))


def panels_of(metric: Metric) -> Iterator[Panel]:
    """One panel for the agents of a metric, one for its roles, one for the team, and so on."""
    name = re.escape(metric.name)
    for placeholder, meaning in PLACEHOLDERS.items():
        name = name.replace(placeholder, meaning)
    name = re.sub("^eval/", "(eval|before)/", name)  # of the untrained agents: the curve's start
    if not metric.whom:
        name = re.sub("^reward/", "reward/([^/]+/)?", name)  # in a sum of rewards: of one part
        yield Panel(metric.name, f"^{name}$")
    for whom in metric.whom:
        yield Panel(f"{metric.name}, by {whom}", f"^{name}/{WHOM[whom]}$")


def sections(metrics: list[Metric]) -> list[Section]:
    """First what `compare.py --curves` draws, then a section for each family of names."""
    drawn = [metric for metric in metrics if metric.name in PANELS]
    curves = [panel for metric in drawn for panel in panels_of(metric)]
    # three columns: the agents in the first row, the roles in the second
    curves.sort(key=lambda panel: panel.title.endswith("role"))
    found: dict[str, Section] = {}
    for metric in metrics:
        family = metric.name.partition("/")[0]
        section = found.setdefault(family, Section(family))
        section.metrics.append(metric)
        section.panels += panels_of(metric)
    return [Section(CURVES, curves, drawn), *found.values()]


def build(entity: str, project: str, content: list[Section]) -> Any:
    """The workspace, not yet saved."""
    import wandb_workspaces.reports.v2 as wr  # noqa: PLC0415  an extra that --dry-run does without
    import wandb_workspaces.workspaces as ws  # noqa: PLC0415

    def plot(panel: Panel) -> Any:
        return wr.LinePlot(
            title=panel.title,
            x="iteration",
            metric_regex=panel.pattern,
            groupby_aggfunc="mean",  # over the seeds of an experiment, as compare.py does
            groupby_rangefunc="stddev",
        )

    return ws.Workspace(
        entity=entity,
        project=project,
        name="cory",
        sections=[
            ws.Section(
                name=section.name,
                is_open=section.name == CURVES,
                panels=[*map(plot, section.panels), wr.MarkdownPanel(markdown=section.legend())],
                panel_settings=ws.SectionPanelSettings(x_axis="iteration"),
            )
            for section in content
        ],
        settings=ws.WorkspaceSettings(x_axis="iteration", max_runs=100),
        runset_settings=ws.RunsetSettings(groupby=[ws.Config("experiment"), ws.Config("scale")]),
    )


def show(content: list[Section]) -> None:
    """Print sections, panels and meanings."""
    for section in content:
        print(f"{section.name}: {len(section.panels)} panels")
        for panel in section.panels:
            print(f"  {panel.title:40} {panel.pattern}")
        for line in section.legend().splitlines():
            print(f"    {line}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("project", metavar="ENTITY/PROJECT")
    parser.add_argument("--dry-run", action="store_true", help="print it, save nothing")
    args = parser.parse_args()
    try:
        entity, slash, project = args.project.partition("/")
        if not (entity and slash and project) or "/" in project:
            raise ValueError(f"'{args.project}' is not of the form ENTITY/PROJECT")
        content = sections(read_metrics(PAGE.read_text(encoding="utf-8")))
        if args.dry_run:
            show(content)
        else:
            build(entity, project, content).save()  # says where
    except ModuleNotFoundError as error:
        print(f'error: no {error.name}; pip install ".[dashboard]"', file=sys.stderr)
        sys.exit(1)
    except (ValueError, OSError, wandb.errors.Error) as error:
        print(f"error: {str(error).splitlines()[0]}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
