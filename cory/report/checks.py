"""Loading a table: its entry of conf/paper/ checked against conf/, the archive and docs/metrics.md.

Every refusal is a ValueError of one line that begins with the paper's and the table's name.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cory.config import experiment_names
from cory.report.claims.measures import require_measure
from cory.report.claims.sides import RELATIONS, experiments, metrics, operands
from cory.report.kinds import COMPUTED, KIND_NAMES, TABLE_KINDS
from cory.report.paper import Table, load_paper
from cory.report.records import archive

SHOWN = ("win_rates", "matrix", "lengths")  # parts of a page of kind matches
OPPONENT_NAMES = ("itself", "start", "scripted", "random", "endpoint", "im", r"spag_\d+")
GAME_ROLES = ("attacker", "defender", "guesser", "oracle")
WHO = re.compile(  # the last part of a metric's name
    r"agent_\d+(_turn_\d+)?|turn_\d+|pioneer|observer(_\d+)?|team|natural|balanced|within|"
    r"(generation|critic)(_\d+)?|single|" + "|".join(OPPONENT_NAMES)
)
# what stands for a part of a name in docs/metrics.md; anything else for a number
PLACES = {"<role>": f"({'|'.join(GAME_ROLES)})"}


def load_table(conf: Path, paper: str, name: str, scale: str) -> Table:
    """One table at one scale, checked against conf/."""
    about = load_paper(conf, paper)
    if name not in about["tables"]:
        raise ValueError(f"{paper} has no {name}; choose one of {', '.join(about['tables'])}")
    if not (conf / "scale" / f"{scale}.yaml").exists():
        raise ValueError(f"--scale {scale}: there is no conf/scale/{scale}.yaml")
    kind = about["tables"][name]["kind"]
    if kind not in KIND_NAMES:
        raise ValueError(f"{paper} {name}: kind {kind} is none of {', '.join(KIND_NAMES)}")
    averages = kind in TABLE_KINDS and TABLE_KINDS[kind].averages
    table = Table(paper, name, scale, conf, about, averages, kind in TABLE_KINDS)
    if not table.offered:
        sweep = f"conf/sweep/{table.sweep}_{scale}.yaml"
        raise ValueError(f"scale {scale} has no form of {table.where}: there is no {sweep}")
    flaws = _computed_flaws(table) if kind in COMPUTED else _flaws(table)
    for flaw in flaws:
        raise ValueError(f"{table.where}: {flaw}")
    return table


def check_claims(table: Table, defined: set[str]) -> None:
    """ValueError for a claim over a metric that nobody defines, or with an unknown word.

    defined: the names of docs/metrics.md, see `defined_metrics`
    """
    for flaw in _control_flaws(table):
        raise ValueError(f"{table.where}: {flaw}")
    for claim in [*table.claims, *table.controls.values()]:
        for flaw in _claim_flaws(table, claim, defined):
            raise ValueError(f"{table.where}: claim {claim['id']}: {flaw}")


def _control_flaws(table: Table) -> Iterator[str]:
    """Controls that the paper's file does not have, or that are named like a claim."""
    known = table.about.get("controls", {})
    for claim in table.claims:
        for name in table.control_names(claim):
            if name not in known:
                yield f"claim {claim['id']}: control {name} is none of {', '.join(known)}"
        if claim["id"] in known:
            yield f"claim {claim['id']} has the name of a control"
    experiments_there = set(experiment_names(table.conf))
    for name in table.control_runs:
        if name not in experiments_there:
            yield f"a control is about {name}, which does not exist"


def _computed_flaws(table: Table) -> Iterator[str]:
    """Errors in the rules of a computed table, and claims about curves that it has not."""
    try:
        curves = COMPUTED[table.kind].records(table.rules)
    except ValueError as error:
        yield str(error)
        return
    named = {name for claim in table.claims for name in experiments(claim)}
    for experiment in sorted(named - curves.keys()):
        yield f"experiment={experiment} is none of {', '.join(sorted(curves))}"


def _flaws(table: Table) -> Iterator[str]:
    """Errors in an entry: unknown experiments, another sweep, contradicting rows."""
    known = set(experiment_names(table.conf))
    for experiment in dict.fromkeys([*table.to_run, *table.shown]):
        if experiment not in known:
            yield f"experiment={experiment} does not exist"
    if table.has_runs:
        yield from _sweep_flaws(table)
        yield from _entry_flaws(table)
    if set(table.needs) & set(table.experiments):
        yield "needs names an experiment of a row"
    if any(("panel" in row) != ("panels" in table.entry) for row in table.rows):
        yield "every row has a panel where the table has panels, else none"
    if table.kind == "accuracy":
        yield from _accuracy_flaws(table)
    if table.against is not None and table.against not in table.experiments:
        yield f"against={table.against} is no row's experiment"


def _sweep_flaws(table: Table) -> Iterator[str]:
    """Errors of the sweep: it runs other experiments, or needed ones too late."""
    swept = table.swept
    if set(swept) != set(table.to_run):
        needed = f" and needs {', '.join(table.needs)}" if table.needs else ""
        yield (
            f"sweep={table.sweep} runs {', '.join(swept)}; "
            f"conf/paper/{table.paper}.yaml shows {', '.join(table.experiments)}{needed}"
        )
    unrun = [name for name in table.shown if name not in swept and not table.partial]
    if unrun:
        yield f"claims are about {', '.join(unrun)}, which it does not run"
    needs = [name for name in table.needs if name in table.to_run]
    if swept[: len(needs)] != needs:
        yield f"sweep={table.sweep} must begin with {', '.join(needs)}, which the others need"


def _entry_flaws(table: Table) -> Iterator[str]:
    """Parts that an entry of this kind lacks, and parts that belong to another kind."""
    entry, kind = table.entry, TABLE_KINDS[table.kind]
    shows = entry.get("shows", [])
    if (table.kind == "matches") != bool(shows) or not set(shows) <= set(SHOWN):
        yield f"shows must be some of {', '.join(SHOWN)} for kind matches only"
    if "matrix" in shows and any("name" not in row for row in table.rows):
        yield "every row of a matrix has a name"
    if "matrix" in shows and "panels" in entry:
        yield "a matrix has no panels"
    versus = table.kind in ("benchmarks", "factor") or "win_rates" in shows
    if versus and not {"opponent", "player"} <= set(table.words):
        yield "by_scale must name opponent and player"
    if (table.kind == "factor") != ("factor" in entry):
        yield "factor belongs to kind factor, and only to it"
    if not all(entry.get(part) for part in kind.needs):
        yield f"kind {table.kind} needs {' and '.join(kind.needs)}"


def _accuracy_flaws(table: Table) -> Iterator[str]:
    """Rows of accuracies that are neither measured nor marked as unsupported."""
    for row in table.all_rows:
        if ("experiment" in row) == ("unsupported" in row):
            yield f"{row['label']} has an experiment, or why there is none"
        if ("experiment" in row) != ("metric" in row):
            yield f"{row['label']} has an experiment and a metric, or neither"


def _claim_flaws(table: Table, claim: dict[str, Any], defined: set[str]) -> Iterator[str]:
    """Unknown metrics, measures and relations of a claim."""
    for metric in sorted(metrics(claim)):
        if table.kind in COMPUTED:
            if metric not in COMPUTED[table.kind].metrics:
                yield f"metric={metric} is none of {', '.join(COMPUTED[table.kind].metrics)}"
        elif not is_defined(metric, defined):
            yield f"docs/metrics.md does not define {metric}"
        elif not archive.kept(metric):
            yield f"the archive does not keep {metric}"
    for operand in operands(claim):
        try:
            require_measure(operand.get("at", "last"))
        except ValueError as error:
            yield str(error)
        if operand.get("at") == "reached" and not {"with", "level"} <= operand.keys():
            yield "at=reached needs a metric under with, and its level"
    if any(part["relation"] not in RELATIONS for part in claim["parts"]):
        yield f"relation must be one of {', '.join(RELATIONS)}"


def defined_metrics(doc: Path) -> set[str]:
    """The names in the first column of the tables of docs/metrics.md, with their PLACES."""
    text = doc.read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name for cell in rows for name in re.findall(r"`([^`]+)`", cell)}


def is_defined(metric: str, defined: set[str]) -> bool:
    """Whether docs/metrics.md has the metric, alone or for an agent, a role, an opponent, ..."""
    base, _, who = metric.rpartition("/")
    names = {metric, base} if WHO.fullmatch(who) else {metric}
    return any(re.fullmatch(_pattern(name), own) for name in defined for own in names)


def _pattern(name: str) -> str:
    """A name of docs/metrics.md as an expression."""
    return re.sub(r"<\w+>", lambda place: PLACES.get(place[0], r"\d+"), re.escape(name))
