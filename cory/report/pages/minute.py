"""A paper's results in a minute: one picture, and one table of its main claims."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import fill

from cory.report.claims.judge import HOLDS
from cory.report.pages.shown import Everything, Shown, about
from cory.report.pages.verdicts import ClaimVerdict
from cory.report.paper import PAPER_SCALE
from cory.report.tables.markdown import markdown

WIDTH = 120  # of a line of README
HEAD = ("claim, or our question", "verdict", "values: difference (90 % interval)")


@dataclass(frozen=True)
class Main:
    """One of a paper's main claims with its verdict."""

    shown: Shown
    one: ClaimVerdict
    on: str | None  # the data, where a paper's claims are about several

    def cells(self, root: str) -> list[str]:
        """Its row of the table. root: from the page to docs/results/.

        What was asked when its runs had been seen says so beside its verdict.
        """
        table = self.shown.table
        shown = self.shown.ran or not table.has_runs
        page = self.shown.page if shown else f"{table.paper}.md"  # has a page of its own once run
        before = f"{self.on}: " if self.on else ""
        claim = f"{before}[{self.one.claim['text']}]({root}{page})"
        word = f"{self.one.word} (post hoc)" if self.one.claim.get("post_hoc") else self.one.word
        return [claim, word, self.one.numbers.in_short if table.has_runs else "computed"]

    @property
    def failing(self) -> list[str]:
        """The controls that it depends on and that are not shown to work.

        None of a claim without runs.
        """
        if not self.shown.ran:
            return []
        names = self.shown.table.control_names(self.one.claim)
        return [
            str(one.claim["text"])
            for one in self.shown.controls
            if one.claim["id"] in names and one.kind != HOLDS
        ]


def in_a_minute(tables: Everything, root: str) -> list[str]:
    """Picture, words, table and the controls that do not work; nothing where no claim is named.

    root: from the page to docs/results/
    """
    main = list(main_claims(tables))
    if not main:
        return []
    words = fill(about(tables)["in_a_minute"]["words"], WIDTH, break_on_hyphens=False)
    failing = list(dict.fromkeys(text for each in main for text in each.failing))
    return [
        "\n".join([*_picture(tables, root), words]),
        markdown(HEAD, [each.cells(root) for each in main]),
        *(
            [f"Positive controls that are not shown to work: {'; '.join(failing)}."]
            if failing
            else []
        ),
    ]


def _picture(tables: Everything, root: str) -> list[str]:
    """The picture, as HTML of a fixed width, on a line of its own."""
    own = about(tables).get("in_a_minute", {})
    shown = _first_that_ran(tables.get(own.get("picture"), {}))
    if shown is None or shown.image is None:
        return []
    place = f"{root}{shown.table.paper}/{shown.image}"
    return [f'<img src="{place}" alt="{about(tables)["short"]}" width="{own["width"]}"><br>']


def main_claims(tables: Everything) -> Iterator[Main]:
    """The claims that the paper's file names under `in_a_minute`, of the tables that there are.

    `<table>.<id>` is of the first scale that ran, `<table>@<scale>.<id>` of that one
    ValueError for a claim that there is none of
    """
    names: Mapping[str, str | None] = about(tables).get("in_a_minute", {}).get("claims", {})
    for name, on in names.items():
        place, _, claim = name.partition(".")
        table, _, scale = place.partition("@")
        scales = tables.get(table, {})
        shown = scales.get(scale) if scale else _first_that_ran(scales)
        if shown is None:
            continue
        found = [one for one in shown.judged if one.claim["id"] == claim]
        if not found:
            raise ValueError(f"in_a_minute names {name}, of which there is no claim")
        yield Main(shown, found[0], on)


def _first_that_ran(scales: Mapping[str, Shown]) -> Shown | None:
    """A table at the paper's scale where it ran there, or needs no runs, else at another."""
    own = scales.get(PAPER_SCALE)
    if own is not None and (own.ran or not own.table.has_runs):
        return own
    return next((shown for shown in scales.values() if shown.ran), own)
