"""A paper's results in a minute: one picture, and its main claims by verdict."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cory.report.claims.judge import BY_INTERVAL, CONTRADICTED, HOLDS, NOT_RUN
from cory.report.pages.shown import Everything, Shown, about
from cory.report.pages.verdicts import CANNOT, ClaimVerdict
from cory.report.paper import PAPER_SCALE

ORDER = (*BY_INTERVAL, CANNOT, NOT_RUN)


@dataclass(frozen=True)
class Main:
    """One of a paper's main claims with its verdict."""

    shown: Shown
    one: ClaimVerdict

    @property
    def line(self) -> str:
        """The claim with its table, and its numbers where it is a single comparison."""
        return self._with(self.shown.table.name)

    @property
    def short_line(self) -> str:
        """The same without the table."""
        return self._with("")

    def _with(self, where: str) -> str:
        parts = self.one.claim["parts"]
        if not self.shown.table.has_runs:
            said = ["computed"]
        elif len(parts) > 1:
            said = [where]
        else:
            margin = parts[0]["right"]
            off = (
                "" if isinstance(margin, Mapping) or not margin else f"less the margin {margin:g}: "
            )
            said = [where, f"{off}{self.one.numbers.difference}"]
        shown = "; ".join(filter(None, said))
        return f"{self.text} ({shown})" if shown else self.text

    @property
    def text(self) -> str:
        """The claim alone."""
        return str(self.one.claim["text"])

    @property
    def failing(self) -> list[str]:
        """The controls that it depends on and that do not work."""
        names = self.shown.table.control_names(self.one.claim)
        return [
            str(one.claim["text"])
            for one in self.shown.controls
            if one.claim["id"] in names and one.kind != HOLDS
        ]


def in_a_minute(everything: Mapping[str, Everything]) -> list[str]:
    """Every paper: its picture, and its main claims with their numbers, by verdict."""
    blocks: list[str] = []
    for paper, tables in everything.items():
        main = main_claims(tables)
        if not main:
            continue
        blocks += [f"### [{about(tables)['short']}]({paper}.md) in a minute", *picture(tables, "")]
        lines = []
        for kind in ORDER:
            own = [each for each in main if each.one.kind == kind]
            lines += [f"- **{kind}**"] if own else []
            lines += [f"  - {each.line}" for each in own]
        lines += [f"- control that does not work: {text}" for text in failing_controls(main)]
        blocks.append("\n".join(lines))
    return blocks


def compact(tables: Everything, root: str) -> list[str]:
    """The same of one paper as a few lines: numbers only of what is decided."""
    main = main_claims(tables)
    lines = []
    for kind in ORDER:
        own = [each for each in main if each.one.kind == kind]
        decided = kind in (HOLDS, CONTRADICTED)
        texts = [each.short_line if decided else each.text for each in own]
        said = f"*{kind}*" + (" (claims, no findings)" if kind == CANNOT else "")
        lines += [f"  - {said}: {'; '.join(texts)}"] if own else []
    failing = failing_controls(main)
    lines += [f"  - *controls that do not work*: {'; '.join(failing)}"] if failing else []
    paper = next(iter(next(iter(tables.values())).values())).table.paper
    return [f"- **[{about(tables)['short']}]({root}{paper}.md)**", *lines] if lines else []


def picture(tables: Everything, root: str, width: int | None = None) -> list[str]:
    """The paper's picture, as HTML of a fixed width. root: from the page to docs/results/."""
    own = about(tables).get("in_a_minute", {})
    shown = _largest(tables.get(own.get("picture"), {}))
    if shown is None or shown.image is None:
        return []
    place, size = f"{root}{shown.table.paper}/{shown.image}", width or own["width"]
    return [f'<img src="{place}" alt="{about(tables)["short"]}" width="{size}">']


def failing_controls(main: Sequence[Main]) -> list[str]:
    """The controls that do not work, each once."""
    return list(dict.fromkeys(text for each in main for text in each.failing))


def main_claims(tables: Everything) -> list[Main]:
    """The claims that the paper's file names under `in_a_minute`, of the tables that there are."""
    return list(_main_claims(tables, about(tables).get("in_a_minute", {}).get("claims", [])))


def _main_claims(tables: Everything, names: Sequence[str]) -> Iterator[Main]:
    """The claims `<table>.<id>`, at the largest scale that ran; ValueError for an unknown one."""
    for name in names:
        table, _, claim = name.partition(".")
        shown = _largest(tables.get(table, {}))
        if shown is None:
            continue
        found = [one for one in shown.judged if one.claim["id"] == claim]
        if not found:
            raise ValueError(f"in_a_minute names {name}, of which there is no claim")
        yield Main(shown, found[0])


def _largest(scales: Mapping[str, Shown]) -> Shown | None:
    """A table at the paper's scale where it ran there, or needs no runs, else at another."""
    own = scales.get(PAPER_SCALE)
    if own is not None and (own.ran or not own.table.has_runs):
        return own
    return next((shown for shown in scales.values() if shown.ran), own)
