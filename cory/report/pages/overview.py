"""The pages over all tables and figures: docs/results/<paper>.md and index.md."""

from collections.abc import Iterable, Mapping

from cory.report.claims.judge import CONTRADICTED
from cory.report.kinds import COMPUTED, PRESET, TABLE_KINDS
from cory.report.pages.counting import paper_counts, settings_as_printed, totals
from cory.report.pages.minute import in_a_minute
from cory.report.pages.page import (
    claims_table,
    control_section,
    header,
    left_out,
    not_asked,
    omitted,
    remarks,
)
from cory.report.pages.shown import Everything, Shown, about, first_of, scales_of
from cory.report.pages.verdicts import LEFT_OUT, by_chance
from cory.report.paper import PAPER_SCALE, Compose
from cory.report.records.collect import lacking
from cory.report.tables.markdown import markdown

COUNTS = "Verdicts in numbers"
MEDIUM = " Medium-scale results come from a pretrained model of 135 million parameters."
BY_HAND = "Written by `make report` from the records of the runs; not edited by hand."


def report(tables: Everything, compose: Compose) -> str:
    """docs/results/<paper>.md: every table and figure with numbers, claims, and what it cost."""
    blocks = [
        f"# {about(tables)['title']}",
        f"{about(tables)['where']}. {BY_HAND} [All figures at a glance](index.md).",
        "Small-scale results come from tiny models and stand-in data on two CPU cores: they say "
        "whether the effect that a claim is about is visible there, not whether the paper's "
        f"numbers are right.{MEDIUM if _at_medium(tables) else ''} "
        "[How claims are judged](../studies.md): by the 90 % interval of the "
        "difference, paired by seed, and only where the study's positive control works.",
        f"## {COUNTS}",
        *paper_counts(tables, compose),
    ]
    for scales in tables.values():
        one = first_of(scales)
        blocks.append(f"## {one.table.title}")
        if one.table.kind == PRESET:
            blocks.append(f"{settings_as_printed(one, compose)}: [setting by setting]({one.page}).")
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


def _at_medium(tables: Everything) -> bool:
    """Whether some table ran at medium scale."""
    return any(scales["medium"].ran for scales in tables.values() if "medium" in scales)


def index(everything: Mapping[str, Everything], compose: Compose) -> str:
    """docs/results/index.md: every figure, a screen each."""
    blocks = ["# Results", BY_HAND]
    for paper, tables in everything.items():
        if minute := in_a_minute(tables, ""):
            blocks += [f"## [{about(tables)['short']}]({paper}.md) in a minute", *minute]
    blocks += ["## At a glance", totals(everything), *at_a_glance(everything)]
    for paper, tables in everything.items():
        blocks += [
            f"## [{about(tables)['title']}]({paper}.md)",
            *paper_counts(tables, compose),
        ]
        for scales in tables.values():
            one = first_of(scales)
            if one.table.kind == PRESET:
                continue
            blocks.append(f"### {one.table.title}")
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
        ran = [
            _how_many_ran(each[scale] for each in tables.values() if scale in each)
            for scale in scales
        ]
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
        *shown.picture(table.title),
        header(table, found.runs),
        *[block.replace("### ", "#### ") for block in numbers],
        *omitted(table),
        *left_out(found),
        *(control_section(table, found, "#### ") if asked else []),
        *([claims_table(table, shown.judged), *by_chance(shown.judged)] if asked else []),
        *not_asked(shown.judged),
        f"[Per seed, settings and every run's cost]({shown.page})",
    ]


def _computed(shown: Shown) -> list[str]:
    """Figure, numbers and claims of a table for which nothing is run."""
    kind = COMPUTED[shown.table.kind]
    return [
        *shown.picture(shown.table.title),
        *kind.results(shown.table),
        claims_table(shown.table, shown.judged),
        f"[{kind.more}]({shown.page})",
    ]


def _glance(how: str, shown: Shown) -> list[str]:
    """One screen: the image and what became of the claims."""
    judged = [one for one in shown.judged if one.kind != LEFT_OUT]
    groups: dict[str, list[str]] = {}
    for one in judged:
        groups.setdefault(one.word, []).append(one.claim["text"])
    lines = [f"- {_mark(word)}: {'; '.join(texts)}" for word, texts in groups.items()]
    return [
        f"**{how}** ([details]({shown.page}))",
        *shown.picture(f"{shown.table.title}, {how}"),
        *(["\n".join(lines)] if lines else []),
    ]


def _mark(word: str) -> str:
    """A verdict; what contradicts the paper stands out."""
    return f"**{word}**" if word == CONTRADICTED else word


def _nothing(shown: Shown) -> str:
    own = shown.table.scale == PAPER_SCALE
    name = f"{shown.table.paper}-{shown.table.name}"
    command = f"make reproduce-{name}" + ("" if own else f" SCALE={shown.table.scale}")
    return f"**{shown.table.scale} scale**: not run (`{command}`)"
