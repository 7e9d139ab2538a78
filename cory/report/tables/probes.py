"""Results of pages that show what agents say: responses to prompts, and whole games."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from cory.report.paper import Table
from cory.report.records.archive import Probe
from cory.report.records.collect import CountedRuns
from cory.report.tables.games import lengths
from cory.report.tables.markdown import DASH, cell, markdown
from cory.report.tables.table import TableLine, lines, over_agents, render, seeds, trained
from cory.report.tables.training import COLLAPSE, HELD_OUT

LONGEST_RESPONSE = 700  # characters of a response that are shown
LONGEST_GAME = 1500  # characters of a game that are shown
ANSWERS = ("greedy", "sampled")


def examples_results(table: Table, found: CountedRuns) -> list[str]:
    """What every checkpoint of the first seed says to the paper's prompts; signs of collapse."""
    body = lines(table.rows, found, over_agents)
    columns = [*trained(COLLAPSE, table), HELD_OUT, seeds(table, found)]
    blocks = [
        f"Of training's last {table.window} iterations: distinct-2 (different pairs of tokens over "
        "all pairs) and the share of responses that were cut off at the length limit.",
        render(["method"], body, columns),
        f"### Responses of seed {table.seeds[0]}, to what the paper prints",
        f"Responses are shown as they are, cut after {LONGEST_RESPONSE} characters. Of the paper's "
        "own a few words are given; its text has them in full.",
    ]
    for place, prompt in enumerate(table.entry["prompts"], 1):
        text = prompt["text"]

        def asked(line: TableLine, probe: Probe, text: str = text) -> bool:
            return probe.agent == line.words["agent"] and text in probe.text

        answers = [
            _said(table, found, line, asked, lambda one: cell(one, LONGEST_RESPONSE))
            for line in body
        ]
        blocks += [f"**{place}.** {cell(text)}", _beside_paper("who", answers, prompt)]
    return blocks


def dialogues_results(table: Table, found: CountedRuns) -> list[str]:
    """Whole games of the first seed against itself, and how such games end."""
    blocks = lengths(table, found)
    blocks += [
        f"### Games of seed {table.seeds[0]}, against itself",
        "Games are shown as they were played, up to the utterance that decided them, cut after "
        f"{LONGEST_GAME} characters.",
    ]
    for prompt in table.entry["prompts"]:
        word = prompt["text"]
        games = [
            _said(table, found, line, partial(_about, word), _utterances)
            for line in lines(table.rows, found, lambda row, runs: [([row["label"]], {})])
        ]
        blocks += [f"**Target word: {cell(word)}**", _beside_paper("checkpoint", games, prompt)]
    return blocks


def _about(word: str, line: TableLine, probe: Probe) -> bool:
    return probe.text == word


def _said(
    table: Table,
    found: CountedRuns,
    line: TableLine,
    asked: Callable[[TableLine, Probe], bool],
    form: Callable[[str], str],
) -> list[str]:
    """Name, greedy and sampled response of the first seed to a prompt."""
    run = found.counted[line.row["experiment"]].get(table.seeds[0])
    probes = run.probes if run is not None else []
    said = {probe.how: form(probe.response) for probe in probes if asked(line, probe)}
    missing = "not run" if run is None else "not asked"
    return [*line.names, *(said.get(how, missing) for how in ANSWERS)]


def _beside_paper(head: str, ours: list[list[str]], prompt: Mapping[str, Any]) -> str:
    """Responses, and below them what the paper prints."""
    theirs = [[f"paper: {who}", words, DASH] for who, words in prompt.get("paper", {}).items()]
    return markdown([head, *ANSWERS], [*ours, *theirs])


def _utterances(game: str) -> str:
    """A game inside a table's cell, an utterance a line."""
    cut = " [...]" if len(game) > LONGEST_GAME else ""
    return "<br>".join(map(cell, game[:LONGEST_GAME].splitlines() or [""])) + cut
