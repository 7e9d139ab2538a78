"""Verdicts counted, in columns."""

from collections.abc import Mapping, Sequence

from cory.report.claims.judge import CONTRADICTED, HOLDS
from cory.report.kinds import COMPUTED, PRESET
from cory.report.pages.presets import compare
from cory.report.pages.shown import Everything, Shown, about, first_of, scales_of
from cory.report.pages.verdicts import KINDS, ClaimVerdict, cells, counts
from cory.report.paper import Compose
from cory.report.tables.markdown import DASH, markdown

RUNS = (
    "Runs: those that count, some of them shared with other figures, and how long they took one "
    "after another, some of them beside other work on the same machine."
)


def totals(everything: Mapping[str, Everything]) -> str:
    """A row per paper and scale, with the number of each verdict: claims, and our questions."""
    rows = []
    for paper, tables in everything.items():
        link = f"[{about(tables)['short']}]({paper}.md)"
        for at, shown in _settings_of(tables).items():
            judged = [one for each in shown for one in each.judged]
            claims, asked = counts(judged), counts(judged, questions=True)
            both = [f"{claims[kind]} + {asked[kind]}" for kind in KINDS]
            rows.append([f"{link}, {at}", *both])
    return markdown(["claims + our questions", *KINDS], rows)


def _settings_of(tables: Everything) -> dict[str, Sequence[Shown]]:
    """`small scale` -> its tables, for every scale that ran; `computed` -> those without runs."""
    found: dict[str, Sequence[Shown]] = {}
    for scale in scales_of({"": tables}):
        shown = [each[scale] for each in tables.values() if scale in each]
        at = [one for one in shown if one.table.has_runs]
        if any(one.ran for one in at):
            found[f"{scale} scale"] = at
    computed = [one for one in map(first_of, tables.values()) if one.table.kind in COMPUTED]
    if computed:
        found["computed"] = computed
    return found


def paper_counts(tables: Everything, compose: Compose) -> list[str]:
    """Verdicts on the claims of every table and figure, in columns; then what has no claims."""
    rows = [row for scales in tables.values() for row in _count_rows(scales)]
    presets = [
        f"- {one.table.title}: [{settings_as_printed(one, compose)}]({one.page})"
        for one in map(first_of, tables.values())
        if one.table.kind == PRESET
    ]
    head = ["table or figure", "at", "runs", "control works", *KINDS]
    return [markdown(head, rows), RUNS, *(["\n".join(presets)] if presets else [])]


def _count_rows(scales: Mapping[str, Shown]) -> list[list[str]]:
    """A row per scale that ran for the paper's claims, and one for our questions."""
    one = first_of(scales)
    title = one.table.title
    if one.table.kind == PRESET:
        return []
    if one.table.kind in COMPUTED:
        return _both_kinds(title, "computed", "-", one)
    ran = {scale: shown for scale, shown in scales.items() if shown.ran}
    if not ran:
        return [[title, *[DASH] * (len(KINDS) + 2), "all"]]
    rows = []
    for scale, shown in ran.items():
        rows += _both_kinds(title, f"{scale} scale", controls_work(shown.controls), shown)
    return rows


def _both_kinds(title: str, at: str, works: str, shown: Shown) -> list[list[str]]:
    """Counts of a table's claims, and of its questions, where there are any."""
    rows: list[list[str]] = []
    for questions, name in ((False, title), (True, f"{title} (our questions)")):
        number = counts(shown.judged, questions)
        if number:
            work = DASH if rows else shown.work  # the same runs
            rows.append([f"[{name}]({shown.page})", at, work, works, *cells(number)])
    return rows or [[f"[{title}]({shown.page})", at, shown.work, works, *[DASH] * len(KINDS)]]


def controls_work(shown: Sequence[ClaimVerdict]) -> str:
    """`yes`, `no`, `not shown`, or how many do."""
    kinds = [one.kind for one in shown]
    working = kinds.count(HOLDS)
    if not shown:
        return "none"
    if working == 0:
        return "no" if CONTRADICTED in kinds else "not shown"
    return "yes" if working == len(shown) else f"{working} of {len(shown)}"


def preset_counts(tables: Sequence[Shown], compose: Compose) -> tuple[int, int]:
    """How many values of printed tables are those of conf/, and of how many."""
    compared = [c.same for one in tables for c in compare(one.table.entry, compose)]
    same = [one for one in compared if one is not None]
    return sum(same), len(same)


def settings_as_printed(one: Shown, compose: Compose) -> str:
    same, of = preset_counts([one], compose)
    return f"{same} of {of} settings as printed"
