"""Results of pages about word games and benchmarks: win rates, lengths, scores, varied factors.

conf/paper/: an entry of kind `matches` says under `shows` which of SHOWN its page has. A row's
`name` is how the runs of later rows call this one as an opponent: `eval/win_rate_attacker/spag_1`.
`by_scale` has the `opponent` that all rows play, as metrics name it, and the `player` in words.

Benchmarks are run on agents of the paper's scale only. At any other scale the same pages show win
rates: against the `opponent` of `by_scale`, called `player` in words, and against itself.

An entry of kind `factor` says under `factor` what was varied: its `name`, the `keys` of the
settings whose product it is, and whether its axis is logarithmic (`log`).
"""

import math
from collections.abc import Sequence

from omegaconf import OmegaConf

from cory.config import GEOMETRIC_MEAN, ITSELF
from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.archive import Archived
from cory.report.records.benchmarks import BENCHMARK_COLUMNS, COT, metric_of
from cory.report.records.collect import CountedRuns
from cory.report.tables.markdown import DASH, markdown, percent
from cory.report.tables.numbers import last, runs_of
from cory.report.tables.second_hand import largest, meaning, second_hand
from cory.report.tables.table import (
    Column,
    TableLine,
    head_of,
    lines,
    names_of,
    number,
    of_fewer,
    render,
    seeds,
    share,
)

# who knows the word, who looks for it; the names differ by game
KNOWS, SEEKS = ("attacker", "oracle"), ("defender", "guesser")
LENGTHS = {
    "game_turns": "turns of a game",
    "utterance_tokens": "tokens of an utterance",
}
INVALID = "Games in which the rules were broken are left out of win rates."
NOT_IN_OUR_SOURCE = "The paper's own numbers are not printed in our source."
WITHOUT_BENCHMARKS = (
    "Benchmarks are not run at this scale: its models are below all of them. Win rates stand in."
)


def matches_results(table: Table, found: CountedRuns) -> list[str]:
    """The parts that the entry asks for."""
    parts = {"win_rates": win_rates, "matrix": matrix, "lengths": lengths}
    return [block for name in table.entry["shows"] for block in parts[name](table, found)]


def rates(opponent: str, heads: Sequence[str]) -> list[Column]:
    """Win rates against an opponent: mean of both roles, knowing the word, looking for it."""
    metrics = [(f"eval/win_rate/{opponent}",), *(in_roles(w, opponent) for w in (KNOWS, SEEKS))]
    return [share(head, *own) for head, own in zip(heads, metrics, strict=True)]


def in_roles(roles: Sequence[str], opponent: str) -> list[str]:
    """The win rates in these roles, of which every game has one."""
    return [f"eval/win_rate_{role}/{opponent}" for role in roles]


def words_found(runs: Sequence[Archived]) -> list[float]:
    """The share of games with itself in which the word is found; of games that both win only."""
    guessing = in_roles(("guesser",), ITSELF)
    asking = [run for run in runs if last([run], *guessing)]
    return last(asking, f"eval/solved/{ITSELF}")


def both_always_win(runs: Sequence[Archived]) -> bool:
    """Whether all runs play games that both players win, or nobody."""
    return all(words_found([run]) for run in runs)


def by_label(table: Table, found: CountedRuns) -> list[TableLine]:
    """A line for each row, called by its label, behind its panel if it has one."""
    return lines(table.rows, found, lambda row, runs: [(names_of(row), {})])


def win_rates(table: Table, found: CountedRuns) -> list[str]:
    """Against the one opponent that every row plays."""
    opponent = table.words["opponent"]
    columns = [
        *rates(opponent, ("win rate", "as attacker", "as defender")),
        *(share(kind, f"eval/{kind}/{opponent}") for kind in ("ties", "invalid")),
        seeds(table, found),
    ]
    return [
        f"### Against {table.words['player']}",
        "Win rate: wins and half the ties over all valid games, mean of both roles; every word of "
        f"the list is played in each. Mean ± sample standard deviation over seeds. {INVALID}",
        render(head_of(table, "checkpoint"), by_label(table, found), columns),
    ]


def matrix(table: Table, found: CountedRuns) -> list[str]:
    """Every checkpoint as attacker against every one as defender."""
    labels = [row["label"] for row in table.rows]
    cells = cells_of(table, found)
    rows = [
        [attacker, *[percent(cells[attacker, defender]) for defender in labels]]
        for attacker in labels
    ]
    return [
        "### Attacker against defender",
        "Win rate of the attacker, mean ± sample standard deviation over seeds. Of two checkpoints "
        "the later one's run has played the games; each plays itself, too. "
        f"A seed's checkpoints descend from each other. {INVALID}",
        markdown(["attacker ↓, defender →", *labels], rows),
    ]


def cells_of(table: Table, found: CountedRuns) -> dict[tuple[str, str], list[float]]:
    """Attacker and defender -> the attacker's win rate, per seed."""
    cells = {}
    for i, attacker in enumerate(table.rows):
        for j, defender in enumerate(table.rows):
            later = runs_of(found, attacker if i >= j else defender)
            if i == j:
                values = last(later, f"eval/win_rate_attacker/{ITSELF}")
            elif i > j:
                values = last(later, f"eval/win_rate_attacker/{defender['name']}")
            else:  # wins, losses and ties add up to the valid games
                rates_of_defender = last(later, f"eval/win_rate_defender/{attacker['name']}")
                values = [1 - rate for rate in rates_of_defender]
            cells[attacker["label"], defender["label"]] = values
    return cells


def lengths(table: Table, found: CountedRuns) -> list[str]:
    """How long games against oneself and their utterances are."""
    shares = {
        "wins_attacker": "attacker wins",
        "wins_defender": "defender wins",
        "ties": "ties",
        "invalid": "invalid",
        "empty_share": "empty utterances",
    }
    columns = [
        *(number(head, f"eval/{kind}/{ITSELF}") for kind, head in LENGTHS.items()),
        *(share(head, f"eval/{kind}/{ITSELF}") for kind, head in shares.items()),
        seeds(table, found),
    ]
    return [
        "### Games against itself",
        "Mean ± sample standard deviation over seeds. A turn is one utterance of each role. Wins "
        "and ties are shares of the valid games, invalid games of all.",
        render(head_of(table, "checkpoint"), by_label(table, found), columns),
    ]


def benchmarks_results(table: Table, found: CountedRuns) -> list[str]:
    """Scores on every benchmark, or win rates at a scale that has none."""
    return _scores(table, found) if table.scale == PAPER_SCALE else _stand_ins(table, found)


def _scores(table: Table, found: CountedRuns) -> list[str]:
    asked = {name: head for name, head in COT.items() if last(found.runs, metric_of(name))}
    columns = [share(head, metric_of(name)) for name, head in (BENCHMARK_COLUMNS | asked).items()]
    columns += [*second_hand(table), seeds(table, found)]
    return [
        "Mean ± sample standard deviation over seeds. BBH: exact matches of generated answers, "
        "with 3 examples; MMLU with 5; the others without. GM: the geometric mean of the eight. "
        f"{NOT_IN_OUR_SOURCE}",
        *meaning(table),
        render(head_of(table), lines(table.rows, found), columns),
        *largest(table),
    ]


def _stand_ins(table: Table, found: CountedRuns) -> list[str]:
    def solved(line: TableLine) -> str:
        values = words_found(line.runs)
        return percent(values) + of_fewer(values, line.runs)

    player = f"against {table.words['player']}"
    columns = [
        *rates(table.words["opponent"], (player, "... knowing the word", "... looking for it")),
        share("itself, knowing", *in_roles(KNOWS, ITSELF)),
        share("itself, looking", *in_roles(SEEKS, ITSELF)),
        *([Column("itself, word found", text=solved)] if words_found(found.runs) else []),
        seeds(table, found),
    ]
    return [
        WITHOUT_BENCHMARKS,
        "Win rate: wins and half the ties over all valid games; in Taboo the attacker knows the "
        "word, in the other games, which both win or neither, the oracle does. Mean ± sample "
        f"standard deviation over seeds. {INVALID}",
        render(head_of(table), lines(table.rows, found), columns),
    ]


def factor_results(table: Table, found: CountedRuns) -> list[str]:
    """The geometric mean, or the win rate, at every value of the factor."""
    if table.scale == PAPER_SCALE:
        columns = [share("GM", metric_of(GEOMETRIC_MEAN)), share("MMLU", metric_of("mmlu"))]
        said = f"GM: the geometric mean over eight benchmarks. {NOT_IN_OUR_SOURCE}"
    else:
        player = f"win rate against {table.words['player']}"
        columns = rates(table.words["opponent"], (player, "as attacker", "as defender"))
        said = f"{WITHOUT_BENCHMARKS} {INVALID}"

    def value(line: TableLine) -> str:
        return f"{value_of(table, line.runs[0]):g}" if line.runs else DASH

    varied = Column(str(table.entry["factor"]["name"]), text=value)
    return [
        f"{said} Mean ± sample standard deviation over seeds.",
        render(
            head_of(table, "paper's value"),
            by_label(table, found),
            [varied, *columns, seeds(table, found)],
        ),
    ]


def value_of(table: Table, run: Archived) -> float:
    """The factor's value in a run's settings."""
    settings = OmegaConf.create(run.settings)
    keys = table.entry["factor"]["keys"]
    return math.prod(float(OmegaConf.select(settings, key)) for key in keys)
