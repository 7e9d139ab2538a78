"""The pages over all tables and figures: docs/results/<paper>.md and index.md."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cory.report.kinds import COMPUTED, PRESET, TABLE_KINDS
from cory.report.pages.page import (
    claims_table,
    header,
    left_out,
    not_asked,
    omitted,
    remarks,
)
from cory.report.pages.presets import Compose, compare
from cory.report.pages.verdicts import FAILS, LEFT_OUT, ClaimVerdict, tally, verdicts
from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.collect import CountedRuns, lacking
from cory.report.tables.markdown import DASH, markdown

BY_HAND = "Written by `make report` from the records of the runs; not edited by hand."


@dataclass(frozen=True)
class Shown:
    """One table or figure at one scale, as the overviews show it."""

    table: Table
    found: CountedRuns
    image: str | None  # file name beside its page

    @property
    def ran(self) -> bool:
        """Whether there is anything to show: runs, or runs that were refused."""
        return bool(self.found.runs or self.found.refused)

    @property
    def judged(self) -> list[ClaimVerdict]:
        """Its claims."""
        return verdicts(self.table, self.found)

    @property
    def page(self) -> str:
        """Its page, from docs/results/."""
        return f"{self.table.paper}/{self.table.page}.md"

    def picture(self, name: str) -> list[str]:
        """Its figure, called by a name."""
        return [f"![{name}]({self.table.paper}/{self.image})"] if self.image else []


# table -> scale -> what there is
Everything = Mapping[str, Mapping[str, Shown]]


def first_of(scales: Mapping[str, Shown]) -> Shown:
    """A table at its first scale, for what is the same at every scale."""
    return next(iter(scales.values()))


def about(tables: Everything) -> Mapping[str, Any]:
    """The head of a paper's file."""
    return first_of(next(iter(tables.values()))).table.about


def scales_of(everything: Mapping[str, Everything]) -> list[str]:
    """The scales that tables are shown at."""
    return list(next(iter(next(iter(everything.values())).values())))


def report(tables: Everything, compose: Compose) -> str:
    """docs/results/<paper>.md: every table and figure with numbers, claims, and what it cost."""
    blocks = [
        f"# {about(tables)['title']}",
        f"{about(tables)['where']}. {BY_HAND} [All figures at a glance](index.md).",
        "Small-scale results come from tiny models and stand-in data on two CPU cores: they say "
        "whether the effect that a claim is about is visible there, not whether the paper's "
        "numbers are right. A claim holds when it holds for the mean over seeds and for every "
        "seed.",
    ]
    for scales in tables.values():
        one = first_of(scales)
        blocks.append(f"## {one.table.entry['title']}")
        if one.table.kind == PRESET:
            blocks.append(f"{_settings(one, compose)}: [setting by setting]({one.page}).")
            continue
        blocks += remarks(one.table)
        if one.table.kind in COMPUTED:
            blocks += _computed(one)
            continue
        for scale, shown in scales.items():
            own = scale == PAPER_SCALE
            blocks.append(f"### {'At the paper’s scale' if own else f'At {scale} scale'}")
            known = TABLE_KINDS[one.table.kind].printed
            blocks += _shown(shown) if shown.ran else [_nothing(shown), *known(shown.table)]
    return "\n\n".join(blocks) + "\n"


def index(everything: Mapping[str, Everything], compose: Compose) -> str:
    """docs/results/index.md: every figure, a screen each."""
    blocks = ["# Results", BY_HAND, *at_a_glance(everything)]
    head = [f"claims at {scale} scale" for scale in scales_of(everything)]
    for paper, tables in everything.items():
        rows = [_index_row(scales, compose) for scales in tables.values()]
        blocks += [
            f"## [{about(tables)['title']}]({paper}.md)",
            markdown(["table or figure", *head], rows),
        ]
        for scales in tables.values():
            one = first_of(scales)
            if one.table.kind == PRESET:
                continue
            blocks.append(f"### {one.table.entry['title']}")
            if one.table.kind in COMPUTED:
                blocks += _glance("computed", one)
                continue
            for scale, shown in scales.items():
                blocks += _glance(f"{scale} scale", shown) if shown.ran else [_nothing(shown)]
    return "\n\n".join(blocks) + "\n"


def at_a_glance(everything: Mapping[str, Everything]) -> list[str]:
    """Per paper: how many tables and figures can be run, and have been, at each scale."""
    scales = scales_of(everything)
    rows = []
    for paper, tables in everything.items():
        with_sweep = sum(first_of(each).table.has_runs for each in tables.values())
        ran = [_how_many_ran(each[scale] for each in tables.values()) for scale in scales]
        counts = [len(tables), len(tables) - with_sweep, with_sweep, *ran]
        rows.append([f"[{about(tables)['short']}]({paper}.md)", *map(str, counts)])
    head = ["paper", "tables and figures", "need no runs", "have a sweep"]
    return [
        markdown([*head, *[f"run at {scale} scale" for scale in scales]], rows),
        "Questions of ours count as figures. Run: every row that the scale has, with every seed.",
    ]


def _how_many_ran(tables: Iterable[Shown]) -> str:
    """`3`, or `3 (and 2 in part)` where some runs of others count."""
    begun = [one for one in tables if one.found.runs]
    whole = sum(
        not any(lacking(one.table, one.found, name) for name in one.table.experiments)
        for one in begun
    )
    return f"{whole} (and {len(begun) - whole} in part)" if len(begun) > whole else str(whole)


def _shown(shown: Shown) -> list[str]:
    """Figure, numbers, claims, cost."""
    table, found, kind = shown.table, shown.found, TABLE_KINDS[shown.table.kind]
    numbers = [] if kind.long else kind.results(table, found)
    asked = any(one.kind != LEFT_OUT for one in shown.judged)
    return [
        *shown.picture(table.entry["title"]),
        header(table, found.runs),
        *[block.replace("### ", "#### ") for block in numbers],
        *omitted(table),
        *left_out(found),
        *([claims_table(table, shown.judged)] if asked else []),
        *not_asked(shown.judged),
        f"[Per seed, settings and every run's cost]({shown.page})",
    ]


def _computed(shown: Shown) -> list[str]:
    """Figure, numbers and claims of a table for which nothing is run."""
    kind = COMPUTED[shown.table.kind]
    return [
        *shown.picture(shown.table.entry["title"]),
        *kind.results(shown.table),
        claims_table(shown.table, shown.judged),
        f"[{kind.more}]({shown.page})",
    ]


def _glance(how: str, shown: Shown) -> list[str]:
    """One screen: the image and what became of the claims."""
    judged = shown.judged
    lines = [f"- {_mark(one)}: {one.claim['text']}" for one in judged if one.kind != LEFT_OUT]
    return [
        f"**{how}** ([details]({shown.page})): {tally(judged)}",
        *shown.picture(f"{shown.table.entry['title']}, {how}"),
        *(["\n".join(lines)] if lines else []),
    ]


def _mark(one: ClaimVerdict) -> str:
    """The verdict without its reasons; what contradicts the paper stands out."""
    word = one.text.partition(" (")[0]
    return f"**{word}**" if one.kind == FAILS and not one.question else word


def _nothing(shown: Shown) -> str:
    own = shown.table.scale == PAPER_SCALE
    name = f"{shown.table.paper}-{shown.table.name}"
    command = f"make reproduce-{name}" + ("" if own else f" SCALE={shown.table.scale}")
    return f"**{shown.table.scale} scale**: not run (`{command}`)"


def _index_row(scales: Mapping[str, Shown], compose: Compose) -> list[str]:
    """Title, and per scale the tally with a link."""
    one = first_of(scales)
    cells = [
        f"[{tally(shown.judged)}]({shown.page})" if shown.ran else "not run"
        for shown in scales.values()
    ]
    if not one.table.has_runs:
        counts = _settings(one, compose) if one.table.kind == PRESET else tally(one.judged)
        cells = [f"[{counts}]({one.page})", *[DASH] * (len(scales) - 1)]
    return [str(one.table.entry["title"]), *cells]


def preset_counts(tables: Sequence[Shown], compose: Compose) -> tuple[int, int]:
    """How many values of printed tables are those of conf/, and of how many."""
    compared = [c.same for one in tables for c in compare(one.table.entry, compose)]
    same = [one for one in compared if one is not None]
    return sum(same), len(same)


def _settings(one: Shown, compose: Compose) -> str:
    same, of = preset_counts([one], compose)
    return f"{same} of {of} settings as printed"
