"""The page of one table or figure, as Markdown."""

from collections.abc import Callable, Sequence
from itertools import groupby

from cory.report.claims.judge import CONTRADICTED, HOLDS, UNDECIDED
from cory.report.claims.sides import DOMINATES
from cory.report.claims.templates import fill
from cory.report.kinds import COMPUTED, PRESET, TABLE_KINDS
from cory.report.pages.changes import changes
from cory.report.pages.presets import compare
from cory.report.pages.verdicts import LEFT_OUT, ClaimVerdict, by_chance, controls, verdicts
from cory.report.paper import PAPER_SCALE, Compose, Table
from cory.report.records.archive import Archived
from cory.report.records.collect import CountedRuns, precisions
from cory.report.records.gather import short
from cory.report.tables.markdown import DASH, markdown

SEVERAL = (
    "A claim with k comparisons that must all hold is contradicted only by a wider interval, with "
    "5 % / k left out at each end; where fewer must hold, and between frontiers, to hold takes "
    "wider intervals, too."
)


def page(table: Table, found: CountedRuns, image: str | None, compose: Compose) -> str:
    """Everything that docs/results/ says about one table or figure at one scale.

    image: file name of the figure; None when there is none
    """
    picture = [f"![{table.title}]({image})"] if image else []
    judged = verdicts(table, found)
    if table.kind == PRESET:
        source = " from conf/paper/ and the composed settings of the experiments"
        blocks = _preset(table, compose)
    elif table.kind in COMPUTED:
        source, kind = ": computed from conf/paper/, nothing is run", COMPUTED[table.kind]
        blocks = [
            *picture,
            "## Results",
            *kind.results(table),
            *kind.sections(table),
            "## Claims",
            kind.about_claims,
            claims_table(table, judged),
        ]
    else:
        source = f" from the records in [records/{table.scale}](records/{table.scale})"
        blocks = [
            header(table, found.runs),
            *picture,
            "## Results",
            *TABLE_KINDS[table.kind].results(table, found),
            *omitted(table),
            *left_out(found),
            *_claims(table, found, judged),
            *changes(table, found, compose),
            *_runs(found),
        ]
    return "\n\n".join([*_head(table, source), *blocks]) + "\n"


def _head(table: Table, source: str) -> list[str]:
    """Title, where figure and page come from, and the entry's note."""
    own = table.scale == PAPER_SCALE or not table.has_runs
    small = "" if own else f" ({table.scale} scale, not the paper's setting)"
    where = f"{table.about['title']}, {table.about['where']}."
    if not table.in_paper:
        where = f"Not in the paper ({table.about['title']}): a question of this project."
    return [
        f"# {table.title}{small}",
        f"{where}  \nWritten by `make report`{source}; not edited by hand.",
        *remarks(table),
    ]


def remarks(table: Table) -> list[str]:
    """What the file of the paper says about this table beside rows and claims."""
    return [fill(table.entry["note"], table.words)] if "note" in table.entry else []


def header(table: Table, runs: Sequence[Archived]) -> str:
    """Scale, fidelity, device, precision, commit, time and duration of the runs that count."""
    records = [run.record for run in runs]
    days = sorted({record["began"][:10] for record in records})
    walls = [record["wall_s"] / 60 for record in records]
    wall = "no runs"
    if walls:
        span = f"{min(walls):.1f} to {max(walls):.1f} min"
        wall = f"{sum(walls):.0f} min: {len(walls)} runs of {span}"
    cells = {
        "scale": table.scale,
        "fidelity": ", ".join(sorted({run.fidelity for run in runs})),
        "device": ", ".join(sorted({record["device"] for record in records})),
        "precision": precisions(runs),
        "commit": ", ".join(sorted({short(record["commit"]) for record in records})),
        "when": " to ".join(dict.fromkeys([*days[:1], *days[-1:]])),
        "wall time": wall,
    }
    return markdown(list(cells), [[cell or DASH for cell in cells.values()]])


def omitted(table: Table) -> list[str]:
    """The rows that this scale leaves out, in a line: whole panels, else columns or methods."""
    if not table.partial:
        return []
    shown, parts = table.rows, []
    for panel in dict.fromkeys(row.get("panel", "") for row in table.all_rows):
        every = [row for row in table.all_rows if row.get("panel", "") == panel]
        here = [row for row in shown if row.get("panel", "") == panel]
        columns = {row["column"] for row in here if "column" in row}
        absent = [table.columns[c] for c in table.columns if here and columns and c not in columns]
        labels = dict.fromkeys(row["label"] for row in every)
        absent += [name for name in labels if here and name not in {row["label"] for row in here}]
        if len(here) < len(every):
            parts.append(": ".join(filter(None, [panel, ", ".join(absent)])))
    reason = table.about.get("left_out", "")
    return [f"Left out at this scale: {'; '.join(parts)}. {reason}".strip()] if parts else []


def left_out(found: CountedRuns) -> list[str]:
    """What stands under the results: runs that do not count, and doubts about those that do."""
    refused = [f"- `{one.name}`: {one.why}" for one in found.refused]
    notes = [f"- {note}" for note in found.notes]
    named = {"Not counted:": refused, "Counted, although:": notes}
    return ["\n".join([f"{head}\n", *listed]) for head, listed in named.items() if listed]


def _claims(table: Table, found: CountedRuns, judged: Sequence[ClaimVerdict]) -> list[str]:
    """Every claim with its numbers."""
    if not judged:
        return ["## Claims", "The paper says nothing about it that runs could contradict."]
    return [
        *control_section(table, found, "## "),
        "## Claims" if table.in_paper else "## Questions",
        "A claim *holds* if the 90 % interval of the difference, paired by seed, lies on its "
        "side, is *contradicted* if it lies on the other, else *undecided*; it *cannot be judged "
        "here* if its positive control does not work ([how claims are judged](../../studies.md)). "
        "Difference: left less right of the numbers before it. Smallest detectable: the true "
        "difference that as many seeds with as much spread would find 4 times out of 5. Margins "
        "and factors are ours wherever the paper gives none.",
        *_several(judged),
        claims_table(table, judged, per_seed=True),
        *by_chance(judged),
        *not_asked(judged),
    ]


def _several(judged: Sequence[ClaimVerdict]) -> list[str]:
    """What claims with several comparisons ask of their intervals; nothing where there is none."""
    parts = [one.claim["parts"] for one in judged if one.kind != LEFT_OUT]
    several = any(len(own) > 1 or own[0]["relation"] == DOMINATES for own in parts if own)
    return [SEVERAL] if several else []


def control_section(table: Table, found: CountedRuns, level: str) -> list[str]:
    """What must visibly work before the claims can be judged, and whether it does.

    level: of the heading; `## `, ...
    """
    shown = controls(table, found)
    if not shown:
        return []
    rows = [
        [statement(table, one), one.numbers.mean, one.numbers.difference, one.numbers.seeds,
         one.numbers.detectable, _works(one)]
        for one in shown
    ]  # fmt: skip
    head = ["baseline that must work first", "mean ± std", "difference [90 % interval]", "seeds",
            "smallest detectable", "works"]  # fmt: skip
    return [f"{level}Positive control", markdown(head, rows)]


def _works(one: ClaimVerdict) -> str:
    """Whether a control works, by its verdict."""
    words = {HOLDS: "yes", CONTRADICTED: "**no**", UNDECIDED: "**not shown**"}
    return f"{words.get(one.kind, one.kind)}{one.why}"


def claims_table(table: Table, judged: Sequence[ClaimVerdict], per_seed: bool = False) -> str:
    """Every claim that is asked at this scale, with its numbers.

    per_seed: with the numbers of every seed and the smallest detectable difference
    """
    said = "the paper says" if table.in_paper else "asked"
    computed = table.kind in COMPUTED
    columns: dict[str, Callable[[ClaimVerdict], str]] = {
        said: lambda one: statement(table, one),
        "section": lambda one: str(one.claim["section"]),
    }
    if per_seed:
        columns["per seed"] = lambda one: one.numbers.per_seed
    columns["numbers" if computed else "mean ± std"] = lambda one: one.numbers.mean
    if not computed:
        columns["difference [90 % interval]"] = lambda one: one.numbers.difference
        columns["seeds"] = lambda one: one.numbers.seeds
    if per_seed:
        columns["smallest detectable"] = lambda one: one.numbers.detectable
    columns["here"] = lambda one: one.text
    rows = [[cell(one) for cell in columns.values()] for one in judged if one.kind != LEFT_OUT]
    return markdown(list(columns), rows)


def not_asked(judged: Sequence[ClaimVerdict]) -> list[str]:
    """How many claims are about rows that this scale leaves out."""
    number = sum(one.kind == LEFT_OUT for one in judged)
    words = "statement is" if number == 1 else "statements are"
    return [f"{number} more {words} about rows that are left out here."] if number else []


def statement(table: Table, one: ClaimVerdict) -> str:
    """The claim with its note; whose it is where that is not the page's subject."""
    note = f" ({one.claim['note']})" if "note" in one.claim else ""
    ours = "Our question, not the paper's: " if one.question and table.in_paper else ""
    return f"{ours}{one.claim['text']}{note}"


def _runs(found: CountedRuns) -> list[str]:
    """What every run cost: those that count, then those that only controls are about."""
    blocks = [_costs(found.runs)] if found.runs else []
    if found.control_runs:
        blocks += ["Runs that only the positive control is about:", _costs(found.control_runs)]
    return ["## Runs", *blocks] if blocks else []


def _costs(runs: Sequence[Archived]) -> str:
    """A row per run."""
    rows = [
        [
            f"`{run.name}`",
            run.fidelity,
            short(run.record["commit"]),
            run.record["device"],
            run.record["began"],
            str(run.record["iterations"]),
            f"{run.record['wall_s'] / 60:.1f}",
        ]
        for run in runs
    ]
    head = ["run", "fidelity", "commit", "device", "began", "iterations", "minutes"]
    return markdown(head, rows)


def _preset(table: Table, compose: Compose) -> list[str]:
    """A printed table of settings beside conf/."""
    compared, rows = compare(table.entry, compose), []
    for setting, group in groupby(compared, lambda one: one.setting):
        columns = list(group)
        keys = "<br>".join(f"`{key}`" for key in columns[0].keys) or DASH
        values = [
            f"{one.printed}; {', '.join(dict.fromkeys(f'{v}' for v in one.ours)) or DASH}"
            for one in columns
        ]
        same = [one.same for one in columns]
        word = "no counterpart" if None in same else "yes" if all(same) else "**no**"
        rows.append([setting, keys, *values, word, columns[0].note])
    judged = [one.same for one in compared if one.same is not None]
    labels = [f"{row['label']} (`{row['experiment']}`)" for row in table.rows]
    return [
        f"{sum(judged)} of {len(judged)} printed values are those of conf/. In each column: the "
        "printed value; the value in conf/.",
        markdown(["hyper-parameter", "key", *labels, "same", "note"], rows),
    ]
