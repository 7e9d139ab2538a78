"""What conf/paper/<paper>.yaml asks for: one entry per table and figure, its rows and claims."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from cory.config import experiment_names
from cory.report.claims import experiments
from cory.report.computed import COMPUTED
from cory.report.templates import expand, fill

PAPER_SCALE = "paper"
PRESET = "preset"  # a table of settings: nothing to run
WITHOUT_RUNS = (PRESET, *COMPUTED)
ACCURACY = "accuracy"  # methods by tasks, beside what the paper prints
ITERATIONS, SCATTER = "iterations", "scatter"  # one point per fine-tuning iteration
# kinds whose numbers are evaluations, none of them a mean over iterations
EVALUATIONS = (
    *("turns", "transitions", "alone", "verifier"),
    *("matches", "benchmarks", "factor", "dialogues"),
    *(ACCURACY, ITERATIONS, SCATTER),
)
EXAMPLES = ("examples", "dialogues")  # long texts, which the overviews leave to their pages
KINDS = (
    "curves",
    "pareto",
    "pass_at_k",
    "grid",
    "examples",
    *EVALUATIONS,
    *WITHOUT_RUNS,
)
SHOWN = ("win_rates", "matrix", "lengths")  # parts of a page of kind matches


@dataclass(frozen=True)
class Table:
    """One table or figure at one scale."""

    paper: str
    name: str
    scale: str
    conf: Path
    about: dict[str, Any]  # the whole file

    @property
    def entry(self) -> dict[str, Any]:
        """The table's own part of the file."""
        entry: dict[str, Any] = self.about["tables"][self.name]
        return entry

    @property
    def kind(self) -> str:
        """One of KINDS."""
        return str(self.entry["kind"])

    @property
    def in_paper(self) -> bool:
        """Whether the paper has it; else it is a question of ours."""
        return bool(self.entry.get("in_paper", True))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows that this scale has, see `all_rows`."""
        if not self.partial:
            return self.all_rows
        return [row for row in self.all_rows if row.get("experiment") in self.swept]

    @property
    def all_rows(self) -> list[dict[str, Any]]:
        """Label and experiment of each row, and what its kind of page needs.

        A label or a panel that names what a scale exchanges has another name at that scale. Where
        the table has columns, a row of the file stands for one of each: `column` is which.
        """
        rows: list[dict[str, Any]] = self.entry["rows"]
        suffix = f"_{self.scale}"
        own = [
            {key.removesuffix(suffix): row[key] for key in row if key.endswith(suffix)}
            for row in rows
        ]
        named = [{"label": None} | row | names for row, names in zip(rows, own, strict=True)]
        if not self.columns:
            return named
        return [
            fill(row, {"t": column})
            | {"column": column, "printed": row.get("printed", {}).get(column)}
            for row in named
            for column in row.get("only", self.columns)
        ]

    @property
    def columns(self) -> dict[str, str]:
        """Of a table of accuracies: what stands for {t} in its rows -> the task's name."""
        own: dict[str, str] = self.entry.get(f"columns_{self.scale}", {})
        return {**self.entry.get("columns", {}), **own}

    @property
    def experiments(self) -> list[str]:
        """The experiments of the rows, each once."""
        return list(dict.fromkeys(r["experiment"] for r in self.rows if "experiment" in r))

    @property
    def needs(self) -> list[str]:
        """Experiments that those of the rows start from or are judged by; the page has no row."""
        return list(self.entry.get("needs", []))

    @property
    def to_run(self) -> list[str]:
        """All experiments of its sweep, in the order in which they must run."""
        every = [*self.needs, *self.experiments]
        return [name for name in every if name in self.swept] if self.partial else every

    @property
    def words(self) -> dict[str, str]:
        """What is called differently at each scale: who stands in for GPT-4, and the like."""
        return {word: names[self.scale] for word, names in self.entry.get("by_scale", {}).items()}

    @cached_property
    def claims(self) -> list[dict[str, Any]]:
        """Statements, as cory/report/claims.py reads them: every template filled in."""
        written = self.entry["claims"]  # a list among them: the claims of other entries
        flat = [own for one in written for own in (one if isinstance(one, list) else [one])]
        return [claim for own in flat for claim in expand(fill(own, self.words))]

    @property
    def shown(self) -> list[str]:
        """The experiments whose runs the page is about: those of its rows, then of its claims."""
        claimed = sorted({name for claim in self.claims for name in experiments(claim)})
        return list(dict.fromkeys([*self.experiments, *claimed]))

    @cached_property
    def seeds(self) -> list[int]:
        """The seeds of the sweep; none for a table of settings."""
        return [] if self.kind in WITHOUT_RUNS else [int(seed) for seed in self._swept("seed")]

    @cached_property
    def swept(self) -> list[str]:
        """The experiments of the sweep."""
        return self._swept("experiment")

    @cached_property
    def partial(self) -> bool:
        """Whether this scale has a sweep of its own, which runs some of the rows only."""
        own = f"{self.entry.get('sweep')}_{self.scale}"
        return (self.conf / "sweep" / f"{own}.yaml").exists()

    @property
    def sweep(self) -> str:
        """The sweep that runs it at this scale."""
        return f"{self.entry['sweep']}_{self.scale}" if self.partial else self.entry["sweep"]

    def _swept(self, key: str) -> list[str]:
        name = self.sweep
        path = self.conf / "sweep" / f"{name}.yaml"
        where = f"{self.paper} {self.name}: sweep={name}"
        if not path.exists():
            raise ValueError(f"{where} does not exist")
        values = OmegaConf.select(OmegaConf.load(path), f"hydra.sweeper.params.{key}")
        if values is None:
            raise ValueError(f"{where} has no hydra.sweeper.params.{key}")
        return [value.strip() for value in str(values).split(",")]

    @property
    def window(self) -> int:
        """Iterations that a number is averaged over."""
        return int(self.about["window"])

    @property
    def averages(self) -> bool:
        """Whether its numbers are means over a window; else they are the last evaluation's."""
        return self.kind not in EVALUATIONS

    @property
    def page(self) -> str:
        """The name of its page, without suffix."""
        own = self.scale == PAPER_SCALE or self.kind in WITHOUT_RUNS
        return self.name if own else f"{self.name}_{self.scale}"


def load_paper(conf: Path, paper: str) -> dict[str, Any]:
    """The whole file of a paper, or ValueError that names what there is."""
    path = conf / "paper" / f"{paper}.yaml"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
        raise ValueError(f"{paper} is not a paper; choose one of {known}")
    return _loaded(path, path.stat().st_mtime_ns)


@cache
def _loaded(path: Path, changed: int) -> dict[str, Any]:
    """A file as it was when last changed: every table of a paper asks for it, to read it alone."""
    about = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(about, dict)
    return {str(key): value for key, value in about.items()}


def load_table(conf: Path, paper: str, name: str, scale: str) -> Table:
    """One table at one scale, checked against conf/ and the archive, or ValueError in one line."""
    about = load_paper(conf, paper)
    if name not in about["tables"]:
        raise ValueError(f"{paper} has no {name}; choose one of {', '.join(about['tables'])}")
    if not (conf / "scale" / f"{scale}.yaml").exists():
        raise ValueError(f"--scale {scale}: there is no conf/scale/{scale}.yaml")
    table = Table(paper, name, scale, conf, about)
    if table.kind not in KINDS:
        raise ValueError(f"{paper} {name}: kind {table.kind} is none of {', '.join(KINDS)}")
    if table.kind in COMPUTED:
        _check_computed(table)
        return table
    known = set(experiment_names(conf))
    for experiment in dict.fromkeys([*table.to_run, *table.shown]):
        if experiment not in known:
            raise ValueError(f"{paper} {name}: experiment={experiment} does not exist")
    if table.kind not in WITHOUT_RUNS:
        _check_sweep(table)
    _check_rows(table)
    return table


def _check_computed(table: Table) -> None:
    """ValueError where its rules are none, or a claim names a curve that there is not."""
    where = f"{table.paper} {table.name}"
    try:
        curves = COMPUTED[table.kind].names(table.entry.get(table.kind, {}))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    for experiment in sorted({n for claim in table.claims for n in experiments(claim)} - curves):
        known = ", ".join(sorted(curves))
        raise ValueError(f"{where}: experiment={experiment} is none of {known}")


def _check_sweep(table: Table) -> None:
    """ValueError where the sweep runs something else, or what others need too late."""
    where, swept = f"{table.paper} {table.name}", table.swept
    if set(swept) != set(table.to_run):
        needed = f" and needs {', '.join(table.needs)}" if table.needs else ""
        raise ValueError(
            f"{where}: sweep={table.sweep} runs {', '.join(swept)}; "
            f"conf/paper/{table.paper}.yaml shows {', '.join(table.experiments)}{needed}"
        )
    unrun = [name for name in table.shown if name not in swept and not table.partial]
    if unrun:
        raise ValueError(f"{where}: claims are about {', '.join(unrun)}, which it does not run")
    needs = [name for name in table.needs if name in table.to_run]
    if swept[: len(needs)] != needs:
        raise ValueError(
            f"{where}: sweep={table.sweep} must begin with {', '.join(needs)}, "
            "which the others need"
        )


def _check_rows(table: Table) -> None:
    """ValueError where rows and entry do not fit together."""
    where = f"{table.paper} {table.name}"
    if set(table.needs) & set(table.experiments):
        raise ValueError(f"{where}: needs names an experiment of a row")
    if any(("panel" in row) != ("panels" in table.entry) for row in table.rows):
        raise ValueError(f"{where}: every row has a panel where the table has panels, else none")
    if table.kind in (ITERATIONS, SCATTER) and "axis" not in table.entry:
        raise ValueError(f"{where}: kind {table.kind} needs axis")
    if table.kind == ACCURACY:
        _check_accuracies(table)
    _check_games(table)
    if "against" in table.entry and table.entry["against"] not in table.experiments:
        raise ValueError(f"{where}: against={table.entry['against']} is no row's experiment")


def _check_accuracies(table: Table) -> None:
    """ValueError where a row of accuracies is neither measured nor known to be impossible."""
    where = f"{table.paper} {table.name}"
    if not table.columns or "problems" not in table.entry:
        raise ValueError(f"{where}: kind {ACCURACY} needs columns and problems")
    for row in table.all_rows:
        if ("experiment" in row) == ("unsupported" in row):
            raise ValueError(f"{where}: {row['label']} has an experiment, or why there is none")
        if ("experiment" in row) != ("metric" in row):
            raise ValueError(f"{where}: {row['label']} has an experiment and a metric, or neither")


def _check_games(table: Table) -> None:
    """ValueError where an entry about word games or benchmarks lacks what its kind needs."""
    where = f"{table.paper} {table.name}"
    shows = table.entry.get("shows", [])
    if (table.kind == "matches") != bool(shows) or not set(shows) <= set(SHOWN):
        raise ValueError(f"{where}: shows must be some of {', '.join(SHOWN)} for kind matches only")
    if "matrix" in shows and any("name" not in row for row in table.rows):
        raise ValueError(f"{where}: every row of a matrix has a name")
    versus = table.kind in ("benchmarks", "factor") or "win_rates" in shows
    if versus and not {"opponent", "player"} <= set(table.words):
        raise ValueError(f"{where}: by_scale must name opponent and player")
    if (table.kind == "factor") != ("factor" in table.entry):
        raise ValueError(f"{where}: factor belongs to kind factor, and only to it")
