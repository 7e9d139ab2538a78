"""What conf/paper/<paper>.yaml asks for: one entry per table and figure, its rows and claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from cory.report import game
from cory.report.claims import experiments

PAPER_SCALE = "paper"
PRESET = "preset"  # a table of settings: nothing to run
GAME = "game"  # the toy game: computed when its page is written
WITHOUT_RUNS = (PRESET, GAME)
# kinds that show nothing else
LAST_EVALUATION = (
    *("turns", "transitions", "alone", "verifier"),
    *("matches", "benchmarks", "factor", "dialogues"),
)
EXAMPLES = ("examples", "dialogues")  # long texts, which the overviews leave to their pages
KINDS = (
    "curves",
    "pareto",
    "pass_at_k",
    "grid",
    "examples",
    *LAST_EVALUATION,
    PRESET,
    GAME,
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
        """Label and experiment of each row, and what its kind of page needs.

        A label or a panel that names what a scale exchanges has another name at that scale.
        """
        rows: list[dict[str, Any]] = self.entry["rows"]
        suffix = f"_{self.scale}"
        own = [
            {key.removesuffix(suffix): row[key] for key in row if key.endswith(suffix)}
            for row in rows
        ]
        return [{"label": None} | row | names for row, names in zip(rows, own, strict=True)]

    @property
    def experiments(self) -> list[str]:
        """The experiments of the rows, each once."""
        return list(dict.fromkeys(row["experiment"] for row in self.rows))

    @property
    def needs(self) -> list[str]:
        """Experiments that those of the rows start from or are judged by; the page has no row."""
        return list(self.entry.get("needs", []))

    @property
    def to_run(self) -> list[str]:
        """All experiments of its sweep, in the order in which they must run."""
        return [*self.needs, *self.experiments]

    @property
    def words(self) -> dict[str, str]:
        """What is called differently at each scale: who stands in for GPT-4, and the like."""
        return {word: names[self.scale] for word, names in self.entry.get("by_scale", {}).items()}

    @cached_property
    def claims(self) -> list[dict[str, Any]]:
        """Statements, as cory/report/claims.py reads them: every template filled in."""
        written = self.entry["claims"]  # a list among them: the claims of other entries
        flat = [own for one in written for own in (one if isinstance(one, list) else [one])]
        return [claim for own in flat for claim in expand(_fill(own, self.words))]

    @property
    def shown(self) -> list[str]:
        """The experiments whose runs the page is about: those of its rows, then of its claims."""
        claimed = sorted({name for claim in self.claims for name in experiments(claim)})
        return list(dict.fromkeys([*self.experiments, *claimed]))

    @cached_property
    def seeds(self) -> list[int]:
        """The seeds of the sweep; none for a table of settings."""
        return [] if self.kind in WITHOUT_RUNS else [int(seed) for seed in self._swept("seed")]

    @property
    def swept(self) -> list[str]:
        """The experiments of the sweep."""
        return self._swept("experiment")

    def _swept(self, key: str) -> list[str]:
        name = self.entry["sweep"]
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
        return self.kind not in LAST_EVALUATION

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
    if table.kind == GAME:
        _check_game(table)
        return table
    for experiment in dict.fromkeys([*table.to_run, *table.shown]):
        if not (conf / "experiment" / f"{experiment}.yaml").exists():
            raise ValueError(f"{paper} {name}: experiment={experiment} does not exist")
    if table.kind not in WITHOUT_RUNS:
        _check_sweep(table)
    _check_rows(table)
    return table


def _check_game(table: Table) -> None:
    """ValueError where the rules are no game, or a claim names a curve that there is not."""
    where = f"{table.paper} {table.name}"
    try:
        curves = game.names(table.entry.get("game", {}))
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
            f"{where}: sweep={table.entry['sweep']} runs {', '.join(swept)}; "
            f"conf/paper/{table.paper}.yaml shows {', '.join(table.experiments)}{needed}"
        )
    unrun = [name for name in table.shown if name not in swept]
    if unrun:
        raise ValueError(f"{where}: claims are about {', '.join(unrun)}, which it does not run")
    if swept[: len(table.needs)] != table.needs:
        raise ValueError(
            f"{where}: sweep={table.entry['sweep']} must begin with {', '.join(table.needs)}, "
            "which the others need"
        )


def _check_rows(table: Table) -> None:
    """ValueError where rows and entry do not fit together."""
    where = f"{table.paper} {table.name}"
    if set(table.needs) & set(table.experiments):
        raise ValueError(f"{where}: needs names an experiment of a row")
    if any(("panel" in row) != ("panels" in table.entry) for row in table.rows):
        raise ValueError(f"{where}: every row has a panel where the table has panels, else none")
    _check_games(table)
    if "against" in table.entry and table.entry["against"] not in table.experiments:
        raise ValueError(f"{where}: against={table.entry['against']} is no row's experiment")


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


def expand(template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The claims of a template.

    each: one claim for each of these sets of words, filled in for {word}
    every: one part (or several) for each of these; all parts must hold, or `at_least` so many
    unjudged: why no run can say anything about it; it has no parts
    """
    claims = []
    for words in template.get("each", [{}]):
        parts = template.get("parts") or [
            {key: template[key] for key in ("left", "relation", "factor", "right", "within")
             if key in template}
        ]  # fmt: skip
        if "unjudged" in template:
            parts = []
        filled = [
            _fill(part, {**words, **more}) for more in template.get("every", [{}]) for part in parts
        ]
        kept = ("id", "text", "section", "note", "scales", "ours", "at_least", "unjudged")
        rest = {key: template[key] for key in kept if key in template}
        claims.append({**_fill(rest, words), "parts": filled})
    return claims


def _fill(node: Any, words: Mapping[str, Any]) -> Any:
    """The same with {word} replaced in every text."""
    if isinstance(node, dict):
        return {key: _fill(value, words) for key, value in node.items()}
    if isinstance(node, list):
        return [_fill(value, words) for value in node]
    if isinstance(node, str):
        for word, value in words.items():
            node = node.replace(f"{{{word}}}", str(value))
    return node
