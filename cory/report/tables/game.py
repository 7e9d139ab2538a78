"""The toy game's table: nothing is run, every number is computed when the page is written.

Its part of conf/paper/ holds the rules under `game`:

r_syn, r_ind, r_col      what a turn pays
tau, equilibrium, fixed  how agents are trained; the opponents' probabilities of collaborating
thresholds               turns -> distribution of the threshold: {uniform: most} or {exactly: it}
steps                    the observations are checked on multiples of 1 / steps
others                   games of ours: a name, and what differs from the above

Claims compare curves as they compare runs elsewhere: `experiment` is turns<T>/joint,
turns<T>/pi<p>, `observation_1`, `observation_2`, `observation_2_even` or `others`; `metric` is one
of METRICS.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from cory.functional.collaboration_game import (
    EQUILIBRIA,
    MOST,
    Game,
    collaboration,
    constant,
    disagreements,
    exactly,
    joint,
    response,
    uniform,
)
from cory.report.claims.measures import Lines
from cory.report.paper import Table
from cory.report.tables.markdown import markdown

# of a turn; mean of the turns up to it; points or games where something is not as said
GAME_METRICS = ("collaboration", "collaboration_so_far", "disagreements")
GAME_KEYS = {"r_syn", "r_ind", "r_col", "tau", "equilibrium", "fixed", "thresholds", "steps"}
DISTRIBUTIONS = {"uniform": uniform, "exactly": exactly}
OBSERVATIONS = {
    "observation_1": "Observation 1, best response",
    "observation_2": "Observation 2, equilibrium with most collaboration",
    "observation_2_even": "Observation 2, equilibrium that is the better answer to a coin",
}


@dataclass(frozen=True)
class Played:
    """One game of an entry, played by everyone."""

    turns: int
    threshold: str  # its distribution in words
    together: list[float]  # probability of collaborating per turn
    fixed: dict[float, list[float]]  # the opponent's probability -> the same for who is trained

    @property
    def first_turn_higher(self) -> bool:
        """Whether agents trained together collaborate more at turn 1 than everybody else."""
        return all(self.together[0] > alone[0] for alone in self.fixed.values())

    @property
    def higher(self) -> bool:
        """Whether they do on average over the turns."""
        return all(np.mean(self.together) > np.mean(alone) for alone in self.fixed.values())


def played(rules: Mapping[str, Any]) -> list[Played]:
    """The games of an entry, one per number of turns; ValueError for what is no such game."""
    if set(rules) - {"others"} != GAME_KEYS:
        raise ValueError(
            f"game: needs {', '.join(sorted(GAME_KEYS))}; has {', '.join(sorted(rules))}"
        )
    if not rules["thresholds"] or not rules["fixed"]:
        raise ValueError("game: thresholds and fixed must not be empty")
    if rules["equilibrium"] not in EQUILIBRIA:
        words = ", ".join(EQUILIBRIA)
        raise ValueError(f"game.equilibrium={rules['equilibrium']} must be one of {words}")
    found = []
    for turns, threshold in rules["thresholds"].items():
        if len(threshold) != 1 or not set(threshold) <= set(DISTRIBUTIONS):
            words = ", ".join(DISTRIBUTIONS)
            raise ValueError(f"game.thresholds.{turns}={dict(threshold)} must have one of {words}")
        ((kind, number),) = threshold.items()
        words = f"1 to {number}, each as likely" if kind == "uniform" else f"{number}, known"
        chances = DISTRIBUTIONS[kind](number)
        game = Game(turns, chances, rules["r_syn"], rules["r_ind"], rules["r_col"])
        both = joint(game, rules["tau"], rules["equilibrium"])
        opponents = {pi: constant(game, pi) for pi in rules["fixed"]}
        fixed = {
            pi: collaboration(game, response(game, opponent, rules["tau"]), opponent)
            for pi, opponent in opponents.items()
        }
        found.append(Played(turns, words, collaboration(game, both, both), fixed))
    return found


def other_games(rules: Mapping[str, Any]) -> Iterator[tuple[str, Played]]:
    """The games that test how far the claims reach, with their names."""
    base = {key: value for key, value in rules.items() if key != "others"}
    for other in rules["others"]:
        changes = {key: value for key, value in other.items() if key != "name"}
        for one in played({**base, **changes}):
            yield other["name"], one


def game_records(rules: Mapping[str, Any]) -> dict[str, Lines]:
    """Every curve and count, as claims read a run: one line per turn."""
    found: dict[str, Lines] = {}
    for one in played(rules):
        found[f"turns{one.turns}/joint"] = _lines(one.together)
        for pi, curve in one.fixed.items():
            found[f"turns{one.turns}/pi{pi:g}"] = _lines(curve)
    for name, (different, _) in disagreements(rules["r_syn"], rules["steps"]).items():
        found[name] = [{"disagreements": float(different)}]
    against = sum(not one.first_turn_higher for _, one in other_games(rules))
    found["others"] = [{"disagreements": float(against)}]
    return found


def _lines(curve: Sequence[float]) -> Lines:
    sums = accumulate(curve)
    return [
        {"collaboration": p, "collaboration_so_far": total / turn}
        for turn, (p, total) in enumerate(zip(curve, sums, strict=True), 1)
    ]


def label(pi: float | None) -> str:
    """A way of training, as figure and tables call it."""
    return "trained together" if pi is None else f"opponent fixed at {pi:g}"


def game_results(table: Table) -> list[str]:
    """The numbers behind the figure."""
    head = ["T", "trained", "first turn", "middle turn", "last turn", "mean"]
    rows = []
    for one in played(table.rules):
        for pi, curve in [(None, one.together), *one.fixed.items()]:
            numbers = curve[0], curve[(len(curve) - 1) // 2], curve[-1], np.mean(curve)
            rows.append([str(one.turns), label(pi), *(f"{p:.3f}" for p in numbers)])
    return [
        "Probability of collaborating when agents play as they were trained: with each other, or "
        "against the fixed opponent.",
        markdown(head, rows),
    ]


def game_sections(table: Table) -> list[str]:
    """The rules, other games, and the two observations."""
    rules = table.rules
    first = [f"pi = {pi:g}" for pi in rules["fixed"]]
    head = ["changed", "T", "together", *first, "higher at turn 1", "higher on average"]
    counted = disagreements(rules["r_syn"], rules["steps"])
    return [
        "## The game",
        markdown(["", "value", "in the paper"], _parameters(rules)),
        "## Other games",
        "How far the order of the curves reaches is our question: the same game with one thing "
        "changed. In each column: the first turn; the mean over the turns. Higher: trained "
        "together above every fixed opponent.",
        markdown(head, [_compared(name, one) for name, one in other_games(rules)]),
        "## The two observations",
        f"T = 2, C = 1; R_ind and R_col in steps of R_syn / {rules['steps']} from -R_syn, pi in "
        f"steps of 1 / {rules['steps']}. A point agrees when backward induction collaborates at "
        "turn 1 where the printed condition says so, and only there.",
        markdown(
            ["", "points", "that do not agree"],
            [[OBSERVATIONS[name], str(of), str(wrong)] for name, (wrong, of) in counted.items()],
        ),
    ]


def _parameters(rules: Mapping[str, Any]) -> list[list[str]]:
    """Name, value, and whether the paper prints it."""
    thresholds = "; ".join(f"T = {one.turns}: {one.threshold}" for one in played(rules))
    most = rules["equilibrium"] == MOST
    printed, ours = "printed", "ours"
    return [
        ["turns T", ", ".join(map(str, rules["thresholds"])), printed],
        ["R_syn, for collaborating once C is reached", f"{rules['r_syn']:g}", printed],
        ["R_ind, for acting independently", f"{rules['r_ind']:g}", ours],
        ["R_col, for collaborating before", f"{rules['r_col']:g}", ours],
        ["threshold C: turns in which both collaborated", thresholds, ours],
        ["fixed opponents, pi", ", ".join(f"{pi:g}" for pi in rules["fixed"]), printed],
        ["temperature tau, trained together", f"{rules['tau']:g}", printed],
        ["temperature tau, against a fixed opponent", f"{rules['tau']:g}", ours],
        ["of several equilibria: the one with",
         "most collaboration" if most else "the better answer to a coin", ours],
    ]  # fmt: skip


def _compared(name: str, one: Played) -> list[str]:
    """First turns and means of another game, and whether the order is the same."""
    curves = (one.together, *one.fixed.values())
    numbers = [f"{curve[0]:.3f}; {np.mean(curve):.3f}" for curve in curves]
    answers = ["yes" if same else "**no**" for same in (one.first_turn_higher, one.higher)]
    return [name, str(one.turns), *numbers, *answers]
