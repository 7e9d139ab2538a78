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

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from typing import Any

import numpy as np

from cory.functional.collaboration_game import (
    EQUILIBRIA,
    EVEN,
    MOST,
    Game,
    collaboration,
    constant,
    exactly,
    joint,
    observation_1,
    observation_2,
    response,
    uniform,
)
from cory.report.claims.judge import Lines, Records

KIND = "game"
JOINT = "joint"
# of a turn; mean of the turns up to it; points or games where something is not as said
METRICS = ("collaboration", "collaboration_so_far", "disagreements")
KEYS = {"r_syn", "r_ind", "r_col", "tau", "equilibrium", "fixed", "thresholds", "steps"}
DISTRIBUTIONS = {"uniform": uniform, "exactly": exactly}
COLD = 1e-3  # temperature that stands for the limit 0
SEED = 0  # of numbers that depend on none


@dataclass(frozen=True)
class Played:
    """One game of an entry, played by everyone."""

    game: Game
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
        mean = float(np.mean(self.together))
        return all(mean > float(np.mean(alone)) for alone in self.fixed.values())


def played(rules: Mapping[str, Any]) -> list[Played]:
    """The games of an entry, one per number of turns; ValueError for what is no such game."""
    if set(rules) - {"others"} != KEYS:
        raise ValueError(f"game: needs {', '.join(sorted(KEYS))}; has {', '.join(sorted(rules))}")
    if not rules["thresholds"] or not rules["fixed"]:
        raise ValueError("game: thresholds and fixed must not be empty")
    if rules["equilibrium"] not in EQUILIBRIA:
        words = ", ".join(EQUILIBRIA)
        raise ValueError(f"game.equilibrium={rules['equilibrium']} must be one of {words}")
    found = []
    for turns, threshold in rules["thresholds"].items():
        chances, words = _distribution(turns, threshold)
        game = Game(turns, chances, rules["r_syn"], rules["r_ind"], rules["r_col"])
        both = joint(game, rules["tau"], rules["equilibrium"])
        fixed = {}
        for pi in rules["fixed"]:
            opponent = constant(game, pi)
            own = response(game, opponent, rules["tau"])
            fixed[pi] = collaboration(game, own, opponent)
        found.append(Played(game, words, collaboration(game, both, both), fixed))
    return found


def others(rules: Mapping[str, Any]) -> Iterator[tuple[str, Played]]:
    """The games that test how far the claims reach, with their names."""
    base = {key: value for key, value in rules.items() if key != "others"}
    for other in rules["others"]:
        changes = {key: value for key, value in other.items() if key != "name"}
        for one in played({**base, **changes}):
            yield other["name"], one


def names(rules: Mapping[str, Any]) -> set[str]:
    """What a claim may call `experiment`."""
    return set(records(rules))


def records(rules: Mapping[str, Any]) -> Records:
    """Every curve and count, as claims read runs: one line per turn."""
    found: dict[str, Lines] = {}
    for one in played(rules):
        turns = one.game.turns
        found[f"turns{turns}/{JOINT}"] = _lines(one.together)
        for pi, curve in one.fixed.items():
            found[f"turns{turns}/pi{pi:g}"] = _lines(curve)
    for name, (different, _) in observations(rules).items():
        found[name] = [{"disagreements": float(different)}]
    against = sum(not one.first_turn_higher for _, one in others(rules))
    found["others"] = [{"disagreements": float(against)}]
    return {name: {SEED: lines} for name, lines in found.items()}


def observations(rules: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Observation -> points where backward induction differs from the printed condition, of all.

    Two turns, threshold 1, R_syn as given; rewards from -R_syn to R_syn and pi from 0 to 1 in
    equal steps. With steps that are a power of 2 also the points on the border are exact.
    """
    steps, top = rules["steps"], rules["r_syn"]
    levels = [top * step / steps for step in range(-steps, steps)]
    games = [
        Game(2, exactly(1), top, ind, col) for ind, col in product(levels, levels) if col < ind
    ]
    first = [
        (response(game, constant(game, pi), 0).before[0][0] == 1) == observation_1(game, pi)
        for game, pi in product(games, [step / steps for step in range(steps + 1)])
    ]
    found = {"observation_1": (first.count(False), len(first))}
    for name, equilibrium in (("observation_2", MOST), ("observation_2_even", EVEN)):
        second = [
            (joint(game, COLD * top, equilibrium).before[0][0] > 0.5) == observation_2(game)
            for game in games
        ]
        found[name] = (second.count(False), len(second))
    return found


def label(pi: float | None) -> str:
    """A way of training, as figure and tables call it."""
    return "trained together" if pi is None else f"opponent fixed at {pi:g}"


def rules_table(rules: Mapping[str, Any]) -> list[list[str]]:
    """The parameters: name, value, and whether the paper prints it."""
    thresholds = "; ".join(f"T = {one.game.turns}: {one.threshold}" for one in played(rules))
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
        ["of several equilibria: the one with", _kind(rules["equilibrium"]), ours],
    ]


def curves_table(found: Sequence[Played]) -> list[list[str]]:
    """Turns, way of training, and the probabilities at the first, middle and last turn."""
    return [
        [str(one.game.turns), label(pi), *_numbers(curve)]
        for one in found
        for pi, curve in [(None, one.together), *one.fixed.items()]
    ]


def others_table(rules: Mapping[str, Any]) -> list[list[str]]:
    """Name, turns, first turns and means of the other games, and whether the order is the same."""
    return [
        [
            name,
            str(one.game.turns),
            *(
                f"{curve[0]:.3f}; {np.mean(curve):.3f}"
                for curve in (one.together, *one.fixed.values())
            ),
            "yes" if one.first_turn_higher else "**no**",
            "yes" if one.higher else "**no**",
        ]
        for name, one in others(rules)
    ]


def _numbers(curve: Sequence[float]) -> list[str]:
    """First, middle and last turn, and the mean."""
    middle = curve[(len(curve) - 1) // 2]
    return [f"{p:.3f}" for p in (curve[0], middle, curve[-1], float(np.mean(curve)))]


def _kind(equilibrium: str) -> str:
    most = "most collaboration"
    return most if equilibrium == MOST else "the better answer to a coin"


def _lines(curve: Sequence[float]) -> Lines:
    sums = accumulate(curve)
    return [
        {"collaboration": p, "collaboration_so_far": total / turn}
        for turn, (p, total) in enumerate(zip(curve, sums, strict=True), 1)
    ]


def _distribution(turns: int, threshold: Mapping[str, int]) -> tuple[tuple[float, ...], str]:
    """Its probabilities and its words."""
    if len(threshold) != 1 or not set(threshold) <= set(DISTRIBUTIONS):
        words = ", ".join(DISTRIBUTIONS)
        raise ValueError(f"game.thresholds.{turns}={dict(threshold)} must have one of {words}")
    ((kind, number),) = threshold.items()
    words = f"1 to {number}, each as likely" if kind == "uniform" else f"{number}, known"
    return DISTRIBUTIONS[kind](number), words
