"""The pages over all tables and figures: docs/results/<paper>.md and index.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cory.report.pages.computed_pages import PAGES
from cory.report.pages.game_page import game_claims
from cory.report.pages.page import header, left_out, not_asked, omitted, statement
from cory.report.pages.presets import Compose, compare
from cory.report.pages.verdicts import FAILS, LEFT_OUT, Verdict, tally, verdicts
from cory.report.paper import (
    ACCURACY,
    EXAMPLES,
    ITERATIONS,
    PAPER_SCALE,
    PRESET,
    WITHOUT_RUNS,
    Table,
)
from cory.report.records.collect import Collected, lacking
from cory.report.tables import accuracies, iterations, second_hand
from cory.report.tables.computed import COMPUTED
from cory.report.tables.markdown import NONE, markdown
from cory.report.tables.results import results

BY_HAND = "Written by `make report` from the records of the runs; not edited by hand."


@dataclass(frozen=True)
class Shown:
    """One table or figure at one scale, as the overviews show it."""

    table: Table
    found: Collected
    image: str | None  # file name beside its page

    @property
    def ran(self) -> bool:
        """Whether there is anything to show: runs, or runs that were refused."""
        return bool(self.found.runs or self.found.refused)

    @property
    def judged(self) -> list[Verdict]:
        """Its claims."""
        return verdicts(self.table, self.found)

    @property
    def page(self) -> str:
        """Its page, from docs/results/."""
        return f"{self.table.paper}/{self.table.page}.md"


# table -> scale -> what there is
Everything = Mapping[str, Mapping[str, Shown]]


def report(everything: Everything, compose: Compose) -> str:
    """docs/results/<paper>.md: every table and figure with numbers, claims, and what it cost."""
    about = next(iter(next(iter(everything.values())).values())).table.about
    blocks = [
        f"# {about['title']}",
        f"{about['where']}. {BY_HAND} [All figures at a glance](index.md).",
        "Small-scale results come from tiny models and stand-in data on two CPU cores: they say "
        "whether the effect that a claim is about is visible there, not whether the paper's "
        "numbers are right. A claim holds when it holds for the mean over seeds and for every "
        "seed.",
    ]
    for scales in everything.values():
        one = next(iter(scales.values()))
        blocks.append(f"## {one.table.entry['title']}")
        if one.table.kind == PRESET:
            blocks += [_preset_line(one, compose)]
            continue
        if "note" in one.table.entry:
            blocks.append(str(one.table.entry["note"]))
        if one.table.kind in COMPUTED:
            blocks += _computed(one)
            continue
        for scale, shown in scales.items():
            own = scale == PAPER_SCALE
            blocks.append(f"### {'At the paper’s scale' if own else f'At {scale} scale'}")
            blocks += _shown(shown) if shown.ran else [_nothing(shown), *_known(shown.table)]
    return "\n\n".join(blocks) + "\n"


def _known(table: Table) -> list[str]:
    """What is known of the paper's numbers, where there are none of ours to stand beside."""
    if table.kind == ACCURACY:
        return accuracies.printed_block(table)
    if table.kind == ITERATIONS:
        return iterations.printed_block(table)
    return second_hand.block(table)


def index(everything: Mapping[str, Everything], compose: Compose) -> str:
    """docs/results/index.md: every figure, a screen each."""
    blocks = ["# Results", BY_HAND, *at_a_glance(everything)]
    for paper, tables in everything.items():
        rows = [_index_row(scales, compose) for scales in tables.values()]
        scales = list(next(iter(tables.values())))
        title = next(iter(next(iter(tables.values())).values())).table.about["title"]
        blocks += [
            f"## [{title}]({paper}.md)",
            markdown(["table or figure", *[f"claims at {scale} scale" for scale in scales]], rows),
        ]
        for each in tables.values():
            one = next(iter(each.values()))
            if one.table.kind == PRESET:
                continue
            blocks.append(f"### {one.table.entry['title']}")
            if one.table.kind in COMPUTED:
                blocks += _glance("computed", one)
                continue
            for scale, shown in each.items():
                blocks += _glance(f"{scale} scale", shown)
    return "\n\n".join(blocks) + "\n"


def at_a_glance(everything: Mapping[str, Everything]) -> list[str]:
    """Per paper: how many tables and figures can be run, and have been, at each scale."""
    scales = list(next(iter(next(iter(everything.values())).values())))
    rows = []
    for paper, tables in everything.items():
        first = [next(iter(each.values())) for each in tables.values()]
        computed = sum(one.table.kind in WITHOUT_RUNS for one in first)
        ran = [_how_many_ran([each[scale] for each in tables.values()]) for scale in scales]
        name = f"[{first[0].table.about['short']}]({paper}.md)"
        counts = [len(first), computed, len(first) - computed, *ran]
        rows.append([name, *map(str, counts)])
    head = ["paper", "tables and figures", "need no runs", "have a sweep"]
    return [
        markdown([*head, *[f"run at {scale} scale" for scale in scales]], rows),
        "Questions of ours count as figures. Run: every row that the scale has, with every seed.",
    ]


def _how_many_ran(tables: Sequence[Shown]) -> str:
    """`3`, or `3 (and 2 in part)` where some runs of others count."""
    begun = [one for one in tables if one.found.runs]
    whole = sum(
        not any(lacking(one.table, one.found, name) for name in one.table.experiments)
        for one in begun
    )
    return f"{whole} (and {len(begun) - whole} in part)" if len(begun) > whole else str(whole)


def _shown(shown: Shown) -> list[str]:
    """Figure, numbers, claims, cost."""
    table, found = shown.table, shown.found
    rows = [
        [statement(table, one), str(one.claim["section"]), one.mean, one.text]
        for one in shown.judged
        if one.kind != LEFT_OUT
    ]
    said = "the paper says" if table.in_paper else "asked"
    numbers = [] if table.kind in EXAMPLES else results(table, found)
    pictures = [f"![{table.entry['title']}]({table.paper}/{shown.image})"] if shown.image else []
    return [
        *pictures,
        header(table, found.runs),
        *[block.replace("### ", "#### ") for block in numbers],
        *omitted(table),
        *left_out(found),
        *([markdown([said, "section", "mean ± std", "here"], rows)] if rows else []),
        *not_asked(shown.judged),
        f"[Per seed, settings and every run's cost]({shown.page})",
    ]


def _computed(shown: Shown) -> list[str]:
    """Figure, numbers and claims of a table for which nothing is run."""
    return [
        f"![{shown.table.entry['title']}]({shown.table.paper}/{shown.image})",
        *PAGES[shown.table.kind].results(shown.table),
        game_claims(shown.table, shown.judged),
        f"[{PAGES[shown.table.kind].more}]({shown.page})",
    ]


def _glance(how: str, shown: Shown) -> list[str]:
    """One screen: the image and what became of the claims."""
    if not shown.ran and shown.table.kind not in WITHOUT_RUNS:
        return [_nothing(shown)]
    judged = shown.judged
    asked = [one for one in judged if one.kind != LEFT_OUT]
    lines = [f"- {_mark(one)}: {one.claim['text']}" for one in asked]
    name = shown.table.entry["title"]
    pictures = [f"![{name}, {how}]({shown.table.paper}/{shown.image})"] if shown.image else []
    return [
        f"**{how}** ([details]({shown.page})): {tally(judged)}",
        *pictures,
        *(["\n".join(lines)] if lines else []),
    ]


def _mark(one: Verdict) -> str:
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
    one = next(iter(scales.values()))
    title = str(one.table.entry["title"])
    if one.table.kind in WITHOUT_RUNS:
        preset = one.table.kind == PRESET
        counts = _settings(one, compose) if preset else tally(one.judged)
        return [title, f"[{counts}]({one.page})", *[NONE] * (len(scales) - 1)]
    cells = [
        f"[{tally(shown.judged)}]({shown.page})" if shown.ran else "not run"
        for shown in scales.values()
    ]
    return [title, *cells]


def preset_counts(one: Shown, compose: Compose) -> tuple[int, int]:
    """How many values of a printed table are those of conf/, and of how many."""
    same = [c.same for c in compare(one.table.entry, compose) if c.same is not None]
    return sum(same), len(same)


def _settings(one: Shown, compose: Compose) -> str:
    same, of = preset_counts(one, compose)
    return f"{same} of {of} settings as printed"


def _preset_line(one: Shown, compose: Compose) -> str:
    return f"{_settings(one, compose)}: [setting by setting]({one.page})."
