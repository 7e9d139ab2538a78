"""What README.md shows of the results: a line per paper, and the numbers of a few runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cory.report.pages.overview import Everything, Shown, preset_counts
from cory.report.pages.presets import Compose
from cory.report.pages.verdicts import tally
from cory.report.paper import ACCURACY, PAPER_SCALE, PRESET
from cory.report.tables.accuracies import columns_of, measured
from cory.report.tables.computed import COMPUTED
from cory.report.tables.debates import turns_in
from cory.report.tables.markdown import NONE, markdown, percent, plus_minus
from cory.report.tables.matches import ITSELF, rates
from cory.report.tables.numbers import at_end, labelled, last, names_of, runs_of
from cory.report.tables.results import COLUMNS

BEGIN = "<!-- results: written by `make report` -->"
END = "<!-- results: end -->"
ROOT = "docs/results/"


def readme_block(everything: Mapping[str, Everything], compose: Compose) -> str:
    """The results in README.md, with their markers."""
    scales = list(next(iter(next(iter(everything.values())).values())))
    head = ["paper", "tables and figures", *[f"claims at {scale} scale" for scale in scales]]
    rows = [
        [f"[{_about(tables)['short']}]({ROOT}{paper}.md)", str(len(tables)),
         *[_claims(tables, scale, compose) for scale in scales]]
        for paper, tables in everything.items()
    ]  # fmt: skip
    blocks = [BEGIN, markdown(head, rows)]
    for tables in everything.values():
        about = _about(tables)
        for scale in scales:
            shown = [each[scale] for each in tables.values()]
            shown = [one for one in shown if one.table.entry.get("in_readme", False)]
            own = "the paper's" if scale == PAPER_SCALE else scale
            spread = f"{about['short']} at {own} scale, mean ± standard deviation over seeds."
            kinds = (_curves, _turns, _win_rates, _accuracies)
            for numbers in filter(None, (numbers_of(shown) for numbers_of in kinds)):
                blocks += [f"{spread} {about['readme_note']}", numbers]
    return "\n\n".join([*blocks, END])


def _about(tables: Everything) -> Mapping[str, str]:
    """The head of a paper's file."""
    return next(iter(next(iter(tables.values())).values())).table.about


def _claims(tables: Everything, scale: str, compose: Compose) -> str:
    """What became of all claims at a scale; what needs no runs counts at the paper's."""
    shown = [each[scale] for each in tables.values()]
    computed = [one for one in shown if one.table.kind in COMPUTED]
    presets = [one for one in shown if one.table.kind == PRESET]
    runs = [one for one in shown if one not in computed and one not in presets]
    ran = any(one.ran for one in runs)
    parts = [tally([judged for one in runs for judged in one.judged]) if ran else "not run"]
    if scale == PAPER_SCALE:
        parts += [f"{COMPUTED[one.table.kind].spoken}: {tally(one.judged)}" for one in computed]
        counts = [preset_counts(one, compose) for one in presets]
        if counts:
            same, of = map(sum, zip(*counts, strict=True))
            parts.append(f"{same} of {of} settings as printed")
    return "; ".join(parts)


def _name(experiment: str) -> str:
    return f"`{experiment.partition('/')[2]}`"


def _curves(shown: Sequence[Shown]) -> str:
    """End values of every training run, each once."""
    rows: dict[tuple[str, str | None], list[str]] = {}
    for one in shown:
        if one.table.kind != "curves":
            continue
        for row, label, agent in labelled(one.table, one.found):
            runs = runs_of(one.found, row)
            if agent is not None:
                window = one.table.window
                numbers = [plus_minus(at_end(runs, f"{key}/{agent}", window)) for key in COLUMNS]
                held_out = plus_minus(last(runs, f"eval/score/{agent}"))
                name = _name(row["experiment"])
                number = f" LLM{int(agent[6:]) + 1}" if label != row["label"] else ""
                rows.setdefault((name, agent), [name + number, *numbers, held_out, str(len(runs))])
    head = ["run", *COLUMNS.values(), "held-out task reward", "seeds"]
    return markdown(head, list(rows.values())) if rows else ""


def _turns(shown: Sequence[Shown]) -> str:
    """Votes of every debate, each once."""
    debates = [one for one in shown if one.table.kind == "turns"]
    steps = turns_in([run for one in debates for run in one.found.runs], "eval/vote")
    rows: dict[str, list[str]] = {}
    for one in debates:
        for row in one.table.rows:
            runs = runs_of(one.found, row)
            if runs:
                votes = [percent(last(runs, f"eval/vote/turn_{turn}")) for turn in steps]
                name = _name(row["experiment"])
                rows.setdefault(name, [name, *votes, str(len(runs))])
    head = ["run", *[f"vote, turn {turn}" for turn in steps], "seeds"]
    return markdown(head, list(rows.values())) if rows else ""


def _win_rates(shown: Sequence[Shown]) -> str:
    """Win rates of every player, each once."""
    pages = [one for one in shown if "win_rates" in one.table.entry.get("shows", [])]
    rows: dict[str, list[str]] = {}
    for one in pages:
        for row in one.table.rows:
            runs = runs_of(one.found, row)
            if runs:
                length = plus_minus(last(runs, f"eval/game_turns/{ITSELF}"))
                numbers = [*rates(runs, one.table.words["opponent"]), length, str(len(runs))]
                rows.setdefault(row["experiment"], [_name(row["experiment"]), *numbers])
    if not rows:
        return ""
    player = pages[0].table.words["player"]
    own = "turns of a game against itself"
    head = ["run", f"win rate against {player}", "as attacker", "as defender", own, "seeds"]
    return markdown(head, list(rows.values()))


def _accuracies(shown: Sequence[Shown]) -> str:
    """Accuracies of every method that was run, each once."""
    tables = [one for one in shown if one.table.kind == ACCURACY]
    every = [row for one in tables for row in one.table.rows]
    names = {column: name for one in tables for column, name in one.table.columns.items()}
    ran: dict[str, None] = {}  # columns
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    known: set[tuple[str, str]] = set()  # the same number may stand under two labels
    for one in tables:
        for row in one.table.rows:
            if "experiment" not in row or not runs_of(one.found, row):
                continue
            source = row["experiment"], row["metric"]
            if source not in known:
                known.add(source)
                ran[row["column"]] = None
                line = rows.setdefault(tuple(names_of(row)), {})
                line[row["column"]] = measured(one.found, row)
    columns = [column for column in columns_of(every) if column in ran]
    if not columns:
        return ""
    return markdown(
        ["model", "method", *[names[column] for column in columns]],
        [[*name, *[line.get(column, NONE) for column in columns]] for name, line in rows.items()],
    )
