"""What conf/paper/<paper>.yaml asks for: one entry per table and figure, its rows and claims."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from cory.report import sweeps
from cory.report.claims.sides import experiments
from cory.report.claims.templates import expand, fill

PAPER_SCALE = "paper"
WHOLE_SCALES = (PAPER_SCALE, "small")  # they have a form of every table ...
SCALES = (*WHOLE_SCALES, "medium")  # ... others of those that have a sweep of their own there
Compose = Callable[[str, str], DictConfig]  # experiment, scale -> its settings


@dataclass(frozen=True)
class Table:
    """One table or figure at one scale."""

    paper: str
    name: str
    scale: str
    conf: Path
    about: dict[str, Any]  # the whole file
    averages: bool = True  # its numbers are means over a window; else the last evaluation's
    has_runs: bool = True  # else it is a table of settings, or computed

    @property
    def entry(self) -> dict[str, Any]:
        """The table's own part of the file."""
        entry: dict[str, Any] = self.about["tables"][self.name]
        return entry

    @property
    def where(self) -> str:
        """What errors call it."""
        return f"{self.paper} {self.name}"

    @property
    def kind(self) -> str:
        """What kind of page it has, see cory/report/kinds.py."""
        return str(self.entry["kind"])

    @property
    def rules(self) -> dict[str, Any]:
        """Of a computed table: what it is computed from, under its kind's name."""
        rules: dict[str, Any] = self.entry.get(self.kind, {})
        return rules

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
        suffix = f"_{self.scale}"
        named = [
            {"label": None} | row
            | {key.removesuffix(suffix): row[key] for key in row if key.endswith(suffix)}
            for row in fill(self.entry["rows"], self.words)
        ]  # fmt: skip
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
        return list(fill(self.entry.get("needs", []), self.words))

    @property
    def to_run(self) -> list[str]:
        """All experiments of its sweep, in the order in which they must run."""
        every = [*self.needs, *self.experiments]
        return [name for name in every if name in self.swept] if self.partial else every

    @property
    def words(self) -> dict[str, str]:
        """What is called differently at each scale: who stands in for GPT-4, and the like."""
        return {word: names[self.scale] for word, names in self.entry.get("by_scale", {}).items()}

    @property
    def title(self) -> str:
        """What it is called at this scale."""
        return str(fill(self.entry["title"], self.words))

    @cached_property
    def claims(self) -> list[dict[str, Any]]:
        """Statements, as cory/report/claims/ reads them: every template filled in."""
        written = self.entry["claims"]  # a list among them: the claims of other entries
        flat = [own for one in written for own in (one if isinstance(one, list) else [one])]
        return [claim for own in flat for claim in expand(fill(own, self.words))]

    @cached_property
    def controls(self) -> dict[str, dict[str, Any]]:
        """The positive controls that the claims judged at this scale depend on, by name.

        Each is written like a claim, under `controls` in the paper's file; it is about baselines
        alone, which must visibly work before anything else can be judged.
        """
        written = self.about.get("controls", {})
        judged = [claim for claim in self.claims if not self.unswept(claim)]
        names = dict.fromkeys(n for claim in judged for n in self.control_names(claim))
        words = self.words or {
            word: by[self.scale] for word, by in self.about.get("by_scale", {}).items()
        }
        filled = {name: expand(fill({"id": name, **written[name]}, words))[0] for name in names}
        return {
            name: one
            for name, one in filled.items()
            if self.scale in one.get("scales", [self.scale])
        }

    def control_names(self, claim: Mapping[str, Any]) -> list[str]:
        """The controls that one claim depends on: its own, else the table's."""
        return list(claim.get("control", fill(self.entry.get("control", []), self.words)))

    def unswept(self, claim: Mapping[str, Any]) -> bool:
        """Whether this scale's own sweep leaves out what a claim is about."""
        about = experiments(claim)
        return self.partial and (not about or bool(about - set(self.swept)))

    @property
    def against(self) -> str | None:
        """The experiment without incentives, beside which a page about them sets its rows."""
        return fill(self.entry["against"], self.words) if "against" in self.entry else None

    @property
    def control_runs(self) -> list[str]:
        """The experiments that only controls are about; pages have no rows for them."""
        named = {name for one in self.controls.values() for name in experiments(one)}
        return sorted(named - set(self.experiments) - self.claimed)

    @property
    def shown(self) -> list[str]:
        """The experiments whose runs the page is about: those of its rows, then of its claims."""
        # claims about what a scale's own sweep does not run are left out
        claimed = self.claimed & set(self.swept) if self.partial else self.claimed
        return list(dict.fromkeys([*self.experiments, *sorted(claimed)]))

    @property
    def claimed(self) -> set[str]:
        """The experiments that claims are about, those that this scale leaves out among them."""
        return {name for claim in self.claims for name in experiments(claim)}

    @cached_property
    def seeds(self) -> list[int]:
        """The seeds of the sweep; none where nothing is run."""
        return [int(seed) for seed in self._swept("seed")] if self.has_runs else []

    @cached_property
    def runs_of_others(self) -> set[tuple[str, int]]:
        """Experiment and seed of every run that the paper's other tables ask for at this scale."""
        others = [
            replace(self, name=name)
            for name, entry in self.about["tables"].items()
            if name != self.name and "sweep" in entry
        ]
        return {
            (name, seed)
            for one in others
            if one.offered
            for name in one.swept
            for seed in one.seeds
        }

    @cached_property
    def swept(self) -> list[str]:
        """The experiments of the sweep."""
        return self._swept("experiment")

    def _swept(self, key: str) -> list[str]:
        return sweeps.values_of(self.conf, self.sweep, key, f"{self.where}: sweep={self.sweep}")

    @cached_property
    def partial(self) -> bool:
        """Whether this scale has a sweep of its own, which runs some of the rows only."""
        return sweeps.exists(self.conf, f"{self.entry.get('sweep')}_{self.scale}")

    @property
    def offered(self) -> bool:
        """Whether this scale has a form of it."""
        return self.scale in WHOLE_SCALES or self.partial or not self.has_runs

    @property
    def sweep(self) -> str:
        """The sweep that runs it at this scale."""
        return f"{self.entry['sweep']}_{self.scale}" if self.partial else self.entry["sweep"]

    @property
    def window(self) -> int:
        """Iterations that a number is averaged over."""
        return int(self.about["window"])

    @property
    def page(self) -> str:
        """The name of its page, without suffix: what needs no runs has one for all scales."""
        own = self.scale == PAPER_SCALE or not self.has_runs
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
