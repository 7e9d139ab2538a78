"""What README.md shows of the results: every paper in a minute."""

from collections.abc import Mapping

from cory.report.kinds import PRESET
from cory.report.pages.counting import preset_counts
from cory.report.pages.minute import in_a_minute
from cory.report.pages.shown import Everything, about, first_of
from cory.report.paper import Compose

BEGIN = "<!-- results: written by `make report` -->"
END = "<!-- results: end -->"
ROOT = "docs/results/"


def readme_block(everything: Mapping[str, Everything], compose: Compose) -> str:
    """The results in README.md, with their markers."""
    papers = [block for tables in everything.values() for block in _of_paper(tables, compose)]
    return "\n\n".join([BEGIN, *papers, END])


def _of_paper(tables: Everything, compose: Compose) -> list[str]:
    """A paper in a minute, where its findings are, how many settings have the printed value."""
    minute = in_a_minute(tables, ROOT)
    if not minute:
        return []
    own = about(tables)
    beside = [f"[findings]({own['findings']})"]
    presets = [one for one in map(first_of, tables.values()) if one.table.kind == PRESET]
    if presets:
        same, of = preset_counts(presets, compose)
        beside.append(f"{same} of {of} compared settings have the printed value")
    paper = first_of(next(iter(tables.values()))).table.paper
    head = f"**[{own['short']}]({ROOT}{paper}.md)** ({'; '.join(beside)})"
    return [f"{head}\n{minute[0]}", *minute[1:]]
