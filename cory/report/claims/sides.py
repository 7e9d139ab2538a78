"""Both sides of a claim's comparison, read from the records, and what a claim is about."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cory.report.claims.measures import Absent, Records, measure, stored_error

ClaimPart = Mapping[str, Any]  # left, relation, right; perhaps factor, within, name
Point = tuple[float, float]  # task reward and KL

DOMINATES = "dominates"
RELATIONS = (">", "<", "<=", "~", DOMINATES)


@dataclass(frozen=True)
class Sides:
    """Both sides of one comparison of a claim, of one seed or as a mean over seeds."""

    left: float
    right: float  # before the part's factor
    margin: float  # of the relation `~`; else 0
    error: float | None = None  # standard error over prompts of the difference, where it is stored
    frontiers: tuple[tuple[Point, ...], tuple[Point, ...]] = ((), ())  # of `dominates`


def difference(part: ClaimPart, sides: Sides) -> float:
    """Left less factor times right: what the interval is about."""
    return sides.left - float(part.get("factor", 1)) * sides.right


def sides_of(name: str, part: ClaimPart, records: Records, seed: int, window: int) -> Sides:
    """Both sides and the margin of a part, for one seed. name: what errors call the claim."""
    reader = _Reader(name, records, seed, window)
    if part["relation"] == DOMINATES:
        ours, theirs = reader.points(part["left"]), reader.points(part["right"])
        beaten = sum(any(s >= score and k <= kl for s, k in ours) for score, kl in theirs)
        return Sides(beaten, len(theirs), 0.0, frontiers=(ours, theirs))
    margin = 0.0
    if part["relation"] == "~":
        margin = part["within"]["share"] * abs(reader.side(part["within"]["of"]))
    left, right = reader.side(part["left"]), reader.side(part["right"])
    errors = reader.error(part["left"]), reader.error(part["right"])
    error = None
    if errors[0] is not None and errors[1] is not None:
        # prompts may be shared; what they share is not stored, so this errs on the wide side
        error = math.hypot(errors[0], float(part.get("factor", 1)) * errors[1])
    return Sides(left, right, margin, error)


@dataclass(frozen=True)
class _Reader:
    """The numbers of one seed's runs, for one claim."""

    name: str
    records: Records
    seed: int
    window: int

    def number(self, experiment: str, metric: str, at: str, **more: Any) -> float:
        """A measure; errors name the run."""
        try:
            return measure(self.records[experiment][self.seed], metric, at, self.window, **more)
        except Absent as error:
            raise Absent(f"{experiment} has {error}") from None
        except ValueError as error:
            raise ValueError(f"{self.name}: {experiment} seed {self.seed}: {error}") from None

    def side(self, operand: Any) -> float:
        """A number, or that of an operand less what it names under `minus`."""
        if not isinstance(operand, Mapping):
            return float(operand)
        own = self.number(
            operand["experiment"],
            operand["metric"],
            operand["at"],
            other=operand.get("with"),
            level=float(operand.get("level", 0)),
        )
        return own - self.side(operand["minus"]) if "minus" in operand else own

    def error(self, operand: Any) -> float | None:
        """The standard error of a side over prompts; None where it is not stored."""
        if not isinstance(operand, Mapping):
            return 0.0
        lines = self.records[operand["experiment"]][self.seed]
        own = stored_error(lines, operand["metric"], operand["at"])
        less = self.error(operand.get("minus", 0))
        return None if own is None or less is None else math.hypot(own, less)

    def points(self, operand: Mapping[str, Any]) -> tuple[Point, ...]:
        """Task reward and KL at the end of each of an operand's experiments."""
        score, kl = frontier_metrics(operand)
        return tuple(
            (self.number(experiment, score, "final"), self.number(experiment, kl, "final"))
            for experiment in operand["experiments"]
        )


def operands(claim: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The operands of a claim: all mappings in it that name experiments."""
    for part in claim["parts"]:
        for operand in (part["left"], part["right"], part.get("within", {}).get("of")):
            while isinstance(operand, Mapping):
                yield operand
                operand = operand.get("minus")


def experiments(claim: Mapping[str, Any]) -> set[str]:
    """The names of the experiments that a claim compares."""
    return {
        name
        for operand in operands(claim)
        for name in operand.get("experiments", [operand.get("experiment")])
    }


def metrics(claim: Mapping[str, Any]) -> set[str]:
    """The names of the metrics that a claim compares."""
    return {
        name
        for operand in operands(claim)
        for name in (
            [operand[key] for key in ("metric", "with") if key in operand]
            or frontier_metrics(operand)
        )
    }


def frontier_metrics(operand: Mapping[str, Any]) -> tuple[str, str]:
    """The two metrics of an agent's frontier: task reward and KL."""
    return f"objective/score/{operand['agent']}", f"objective/kl/{operand['agent']}"
