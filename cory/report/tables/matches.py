"""Layouts of pages about word games: win rates, who wins against whom, how long games are.

conf/paper/: an entry of kind `matches` says under `shows` which of SHOWN its page has. A row's
`name` is how the runs of later rows call this one as an opponent: `eval/win_rate_attacker/spag_1`.
`by_scale` has the `opponent` that all rows play, as metrics name it, and the `player` in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cory.report.paper import Table
from cory.report.records.archive import Archived
from cory.report.records.collect import Collected
from cory.report.tables.markdown import NONE, cell, markdown, percent, plus_minus
from cory.report.tables.numbers import last, runs_of, seeds_text

ITSELF = "itself"
# who knows the word, who looks for it; the names differ by game
KNOWS, SEEKS = ("attacker", "oracle"), ("defender", "guesser")
LENGTHS = {
    "game_turns": "turns of a game",
    "utterance_tokens": "tokens of an utterance",
}
LONGEST = 1500  # characters of a game that are shown
INTERVAL = 1.96  # standard errors to either side


def matches(table: Table, found: Collected) -> list[str]:
    """The parts that the entry asks for."""
    parts = {"win_rates": win_rates, "matrix": matrix, "lengths": lengths}
    return [block for name in table.entry["shows"] for block in parts[name](table, found)]


def win_rates(table: Table, found: Collected) -> list[str]:
    """Against the one opponent that every row plays."""
    opponent = table.words["opponent"]
    rows = []
    for row in table.rows:
        runs = runs_of(found, row)
        shares = [percent(last(runs, f"eval/{kind}/{opponent}")) for kind in ("ties", "invalid")]
        seeds = seeds_text(table, found, row["experiment"])
        rows.append([row["label"], *rates(runs, opponent), *shares, seeds])
    head = ["checkpoint", "win rate", "as attacker", "as defender", "ties", "invalid", "seeds"]
    return [
        f"### Against {table.words['player']}",
        "Win rate: wins and half the ties over all valid games, mean of both roles; every word of "
        f"the list is played in each. Mean ± sample standard deviation over seeds. {INVALID}",
        markdown(head, rows),
    ]


INVALID = "Games in which the rules were broken are left out of win rates."


def rates(runs: Sequence[Archived], opponent: str) -> list[str]:
    """Win rates against an opponent, as text."""
    return [percent(values) for values in win_rates_of(runs, opponent)]


def win_rates_of(runs: Sequence[Archived], opponent: str) -> list[list[float]]:
    """Mean of both roles, knowing the word, and looking for it: a value per seed each."""
    both = last(runs, f"eval/win_rate/{opponent}")
    return [both, *[in_role(runs, roles, opponent) for roles in (KNOWS, SEEKS)]]


def in_role(runs: Sequence[Archived], roles: Sequence[str], opponent: str) -> list[float]:
    """Win rates of the runs' agents in whichever of these roles their game has."""
    return [
        value for run in runs for role in roles
        for value in last([run], f"eval/win_rate_{role}/{opponent}")
    ]  # fmt: skip


def matrix(table: Table, found: Collected) -> list[str]:
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


def cells_of(table: Table, found: Collected) -> dict[tuple[str, str], list[float]]:
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


def lengths(table: Table, found: Collected) -> list[str]:
    """How long games against oneself and their utterances are."""
    rows = []
    for row in table.rows:
        runs = runs_of(found, row)
        numbers = [plus_minus(last(runs, f"eval/{kind}/{ITSELF}")) for kind in LENGTHS]
        shares = [
            percent(last(runs, f"eval/{kind}/{ITSELF}"))
            for kind in ("wins_attacker", "wins_defender", "ties", "invalid", "empty_share")
        ]
        rows.append([row["label"], *numbers, *shares, seeds_text(table, found, row["experiment"])])
    head = [
        *("checkpoint", *LENGTHS.values(), "attacker wins", "defender wins", "ties", "invalid"),
        *("empty utterances", "seeds"),
    ]
    return [
        "### Games against itself",
        "Mean ± sample standard deviation over seeds. A turn is one utterance of each role. Wins "
        "and ties are shares of the valid games, invalid games of all.",
        markdown(head, rows),
    ]


def intervals(runs: Sequence[Archived], metric: str, opponent: str) -> list[Any]:
    """Per seed: the last value, and both ends of its 95 % interval; no width where none is known.

    metric: as `eval/win_rate`
    """
    found = []
    for run in runs:
        errors = last([run], f"{metric}_se/{opponent}") or [0.0]
        for value in last([run], f"{metric}/{opponent}"):
            found.append((value, value - INTERVAL * errors[0], value + INTERVAL * errors[0]))
    return found


def dialogues(table: Table, found: Collected) -> list[str]:
    """Whole games of seed 0 against itself, and how such games end."""
    blocks = lengths(table, found)
    blocks += [
        "### Games of seed 0, against itself",
        "Games are shown as they were played, up to the utterance that decided them, cut after "
        f"{LONGEST} characters.",
    ]
    for prompt in table.entry["prompts"]:
        blocks.append(f"**Target word: {cell(prompt['text'])}**")
        rows = [[row["label"], *_games(found, row, prompt["text"])] for row in table.rows] + [
            [f"paper: {who}", words, NONE] for who, words in prompt.get("paper", {}).items()
        ]
        blocks.append(markdown(["checkpoint", "greedy", "sampled"], rows))
    return blocks


def _games(found: Collected, row: dict[str, Any], word: str) -> list[str]:
    """A greedy and a sampled game of seed 0 about a word."""
    run = found.counted[row["experiment"]].get(0)
    said = {
        probe.how: _lines(probe.response)
        for probe in (run.probes if run is not None else [])
        if probe.text == word
    }
    missing = "not run" if run is None else "not asked"
    return [said.get(how, missing) for how in ("greedy", "sampled")]


def _lines(game: str) -> str:
    """A game inside a table's cell, an utterance a line."""
    cut = " [...]" if len(game) > LONGEST else ""
    return "<br>".join(map(cell, game[:LONGEST].splitlines() or [""])) + cut
