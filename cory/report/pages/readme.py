"""What README.md shows of the results: per paper its verdicts in numbers, and in a minute."""

from collections.abc import Mapping, Sequence
from textwrap import fill

from cory.report.kinds import COMPUTED, PRESET
from cory.report.pages.counting import preset_counts
from cory.report.pages.minute import compact, picture
from cory.report.pages.presets import Compose
from cory.report.pages.shown import Everything, Shown, about, first_of, scales_of
from cory.report.pages.verdicts import KINDS, counts
from cory.report.tables.markdown import markdown

BEGIN = "<!-- results: written by `make report` -->"
END = "<!-- results: end -->"
ROOT = "docs/results/"
README_WIDTH = 120  # characters of a line of README.md, but for tables
PICTURE = 210  # width of a picture; all stand side by side


def readme_block(everything: Mapping[str, Everything], compose: Compose) -> str:
    """The results in README.md, with their markers."""
    lines = [line for tables in everything.values() for line in _of_paper(tables, compose)]
    images = [line for tables in everything.values() for line in picture(tables, ROOT, PICTURE)]
    gallery = "\n".join(images)
    return "\n\n".join(
        [BEGIN, *filter(None, [totals(everything, ROOT), gallery, _wrapped(lines)]), END]
    )


def _of_paper(tables: Everything, compose: Compose) -> list[str]:
    """The main claims of a paper by verdict, where findings are, how many settings are ours."""
    head, *lines = compact(tables, ROOT) or [""]
    if not head:
        return []
    beside = [f"[findings]({about(tables)['findings']})"]
    presets = [one for one in map(first_of, tables.values()) if one.table.kind == PRESET]
    if presets:
        same, of = preset_counts(presets, compose)
        beside.append(f"{same} of {of} printed settings as printed")
    return [f"{head} ({'; '.join(beside)})", *lines]


def totals(everything: Mapping[str, Everything], root: str) -> str:
    """A row per paper and scale, with the number of each verdict: claims, and our questions."""
    rows = []
    for paper, tables in everything.items():
        link = f"[{about(tables)['short']}]({root}{paper}.md)"
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
        at = [each[scale] for each in tables.values() if each[scale].table.has_runs]
        if any(one.ran for one in at):
            found[f"{scale} scale"] = at
    computed = [one for one in map(first_of, tables.values()) if one.table.kind in COMPUTED]
    if computed:
        found["computed"] = computed
    return found


def _wrapped(written: Sequence[str]) -> str:
    """Items of lists in lines of at most README_WIDTH characters, each with its indent."""
    lines = []
    for line in written:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        lines.append(fill(line, README_WIDTH, subsequent_indent=indent, break_on_hyphens=False))
    return "\n".join(lines)
