"""What README.md shows of the results: a line per paper, and the numbers of a few runs."""

from collections.abc import Hashable, Mapping, Sequence
from textwrap import fill

from cory.config import ITSELF
from cory.report.kinds import COMPUTED, PRESET
from cory.report.pages.overview import Everything, Shown, about, preset_counts, scales_of
from cory.report.pages.presets import Compose
from cory.report.pages.verdicts import tally
from cory.report.paper import PAPER_SCALE
from cory.report.tables.accuracies import measured_accuracy, tasks_of
from cory.report.tables.debates import votes
from cory.report.tables.games import rates
from cory.report.tables.markdown import DASH, markdown
from cory.report.tables.numbers import PaperRow, runs_of
from cory.report.tables.table import (
    Axis,
    Column,
    TableLine,
    lines,
    names_of,
    number,
    once,
    over_agents,
    render,
    trained,
)
from cory.report.tables.training import HELD_OUT, SCORES

BEGIN = "<!-- results: written by `make report` -->"
END = "<!-- results: end -->"
ROOT = "docs/results/"
README_WIDTH = 120  # characters of a line of README.md
SEEDS = Column("seeds", text=lambda line: str(len(line.runs)))


def readme_block(everything: Mapping[str, Everything], compose: Compose) -> str:
    """The results in README.md, with their markers."""
    scales = scales_of(everything)
    summaries = [_summary(paper, tables, compose) for paper, tables in everything.items()]
    blocks = [BEGIN, "\n".join(summaries)]
    for tables in everything.values():
        paper = about(tables)
        for scale in scales:
            shown = [each[scale] for each in tables.values()]
            shown = [one for one in shown if one.table.entry.get("in_readme", False)]
            own = "the paper's" if scale == PAPER_SCALE else scale
            spread = f"{paper['short']} at {own} scale, mean ± standard deviation over seeds."
            for numbers in (_curves, _turns, _win_rates, _accuracies):
                if text := numbers(shown):
                    blocks += [_wrapped(f"{spread} {paper['readme_note']}"), text]
    return "\n\n".join([*blocks, END])


def _summary(paper: str, tables: Everything, compose: Compose) -> str:
    """A list item: how many tables a paper has, and the verdicts on its claims at each scale."""
    text = f"- [{about(tables)['short']}]({ROOT}{paper}.md), {len(tables)} tables and figures."
    for scale in next(iter(tables.values())):
        text += f" {scale.capitalize()} scale: {_claims(tables, scale, compose)}."
    return _wrapped(text, indent="  ")


def _wrapped(text: str, indent: str = "") -> str:
    """A paragraph in lines of at most WIDTH characters."""
    return fill(text, README_WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _claims(tables: Everything, scale: str, compose: Compose) -> str:
    """What became of all claims at a scale; what needs no runs counts at the paper's."""
    shown = [each[scale] for each in tables.values()]
    runs = [one for one in shown if one.table.has_runs]
    ran = any(one.ran for one in runs)
    parts = [tally([judged for one in runs for judged in one.judged]) if ran else "not run"]
    if scale == PAPER_SCALE:
        computed = [one for one in shown if one.table.kind in COMPUTED]
        parts += [f"{COMPUTED[one.table.kind].spoken}: {tally(one.judged)}" for one in computed]
        presets = [one for one in shown if one.table.kind == PRESET]
        same, of = preset_counts(presets, compose)
        parts += [f"{same} of {of} settings as printed"] if presets else []
    return "; ".join(parts)


def _each_once(shown: Sequence[Shown], axis: Axis = once) -> list[TableLine]:
    """The lines of all tables that have runs, an experiment's agents once, by its name."""
    found: dict[Hashable, TableLine] = {}
    for one in shown:
        for line in lines(one.table.rows, one.found, axis):
            if line.runs:
                name = f"`{line.row['experiment'].partition('/')[2]}`"
                agent = line.words.get("agent")
                if agent and line.names != [line.row["label"]]:
                    name += f" LLM{int(agent[6:]) + 1}"
                own = TableLine([name], line.row, line.runs, line.words)
                found.setdefault((line.row["experiment"], agent), own)
    return list(found.values())


def _curves(shown: Sequence[Shown]) -> str:
    """End values of every training run."""
    pages = [one for one in shown if one.table.kind == "curves"]
    body = [line for line in _each_once(pages, over_agents) if line.words["agent"]]
    if not body:
        return ""
    return render(["run"], body, [*trained(SCORES, pages[0].table), HELD_OUT, SEEDS])


def _turns(shown: Sequence[Shown]) -> str:
    """Votes of every debate."""
    body = _each_once([one for one in shown if one.table.kind == "turns"])
    runs = [run for line in body for run in line.runs]
    return render(["run"], body, [*votes(runs), SEEDS]) if body else ""


def _win_rates(shown: Sequence[Shown]) -> str:
    """Win rates of every player."""
    pages = [one for one in shown if "win_rates" in one.table.entry.get("shows", [])]
    body = _each_once(pages)
    if not body:
        return ""
    words = pages[0].table.words
    heads = (f"win rate against {words['player']}", "as attacker", "as defender")
    length = number("turns of a game against itself", f"eval/game_turns/{ITSELF}")
    return render(["run"], body, [*rates(words["opponent"], heads), length, SEEDS])


def _accuracies(shown: Sequence[Shown]) -> str:
    """Accuracies of every method that was run; the same number may stand under two labels."""
    tables = [one for one in shown if one.table.kind == "accuracy"]
    names = {task: name for one in tables for task, name in one.table.columns.items()}
    known: dict[Hashable, tuple[Shown, PaperRow]] = {}
    for one in tables:
        for row in one.table.rows:
            if runs_of(one.found, row):
                known.setdefault((row["experiment"], row["metric"]), (one, row))
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for one, row in known.values():
        cells.setdefault(tuple(names_of(row)), {})[row["column"]] = measured_accuracy(
            one.found, row
        )
    ran = {row["column"] for _, row in known.values()}
    tasks = [t for t in tasks_of([row for one in tables for row in one.table.rows]) if t in ran]
    rows = [[*own, *[line.get(task, DASH) for task in tasks]] for own, line in cells.items()]
    return markdown(["model", "method", *[names[task] for task in tasks]], rows) if tasks else ""
