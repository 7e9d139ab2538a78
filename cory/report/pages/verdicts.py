"""Verdicts on the claims of a table, as text: numbers per seed, over seeds, and the answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cory.report.claims.judge import (
    DOMINATES,
    HOLDS,
    Outcome,
    Records,
    Sides,
    experiments,
    holds,
    judge,
    metrics,
)
from cory.report.kinds import COMPUTED
from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.benchmarks import FAMILY
from cory.report.records.collect import CountedRuns, precisions
from cory.report.tables.markdown import DASH

FAILS, NOT_RUN, NOT_JUDGED = "does not hold", "not run", "not judged"
LEFT_OUT = "left out"  # of a scale that runs some rows of the table only
FEW_PARTS = 2  # of a claim, of which all numbers are shown


@dataclass(frozen=True)
class ClaimVerdict:
    """The verdict on a claim, as pages show it."""

    claim: Mapping[str, Any]
    question: bool  # ours rather than the paper's
    per_seed: str
    mean: str
    kind: str  # holds | does not hold | not run | not judged | left out
    why: str  # in brackets behind it; perhaps empty
    beforehand: bool = False  # settled without a look at the runs

    @property
    def text(self) -> str:
        """The answer in words: a claim holds or does not, a question has yes or no."""
        words = {HOLDS: "yes", FAILS: "no"} if self.question else {}
        return f"{words.get(self.kind, self.kind)}{self.why}"


def verdicts(table: Table, found: CountedRuns) -> list[ClaimVerdict]:
    """Every claim of a table, judged on the runs that count."""
    judged_on = found.records, table.seeds, table.window
    if table.kind in COMPUTED:  # its numbers depend on no seed
        records = COMPUTED[table.kind].records(table.rules)
        judged_on = {name: {0: lines} for name, lines in records.items()}, [0], 1
    asked = [claim for claim in table.claims if _asked(table, claim)]
    return [_with_precisions(_verdict(table, judged_on, claim), found) for claim in asked]


def _with_precisions(one: ClaimVerdict, found: CountedRuns) -> ClaimVerdict:
    """The verdict, naming the precisions where the claim compares runs in different ones."""
    about = () if one.beforehand else sorted(experiments(one.claim))
    runs = [run for name in about for run in found.counted.get(name, {}).values()]
    if len({run.precision for run in runs}) < 2:
        return one
    return replace(one, why=f"{one.why} (different precision: {precisions(runs)})")


def _asked(table: Table, claim: Mapping[str, Any]) -> bool:
    """Whether a claim belongs on the page: one of the small scale only is not on the paper's."""
    return bool({table.scale, PAPER_SCALE} & set(claim.get("scales", [table.scale])))


def _verdict(
    table: Table, judged_on: tuple[Records, Sequence[int], int], claim: Mapping[str, Any]
) -> ClaimVerdict:
    """The verdict on one claim. judged_on: records, seeds, and the window of means."""
    question = not table.in_paper or bool(claim.get("ours", False))
    settled = _beforehand(table, claim)
    if settled is not None:
        return ClaimVerdict(claim, question, DASH, DASH, *settled, beforehand=True)
    outcome = judge(claim, *judged_on)
    per_seed = [f"{seed}: {_sides(claim, sides)}" for seed, sides in sorted(outcome.seeds.items())]
    kind, bracket, rest = outcome.verdict.partition(" (")
    if table.kind in COMPUTED:
        bracket = rest = ""  # about seeds
    listed = "<br>".join(per_seed) or DASH
    return ClaimVerdict(claim, question, listed, _mean(claim, outcome), kind, bracket + rest)


def _beforehand(table: Table, claim: Mapping[str, Any]) -> tuple[str, str] | None:
    """Kind and reason of a claim that no run of this scale is asked about; else None."""
    elsewhere = table.scale not in claim.get("scales", [table.scale])
    about_runs = experiments(claim)
    if table.partial and (elsewhere or not about_runs or about_runs - set(table.swept)):
        return LEFT_OUT, ""
    if "unjudged" in claim:
        return NOT_JUDGED, f" ({claim['unjudged']})"
    if elsewhere:
        return NOT_RUN, " (a number of the paper's own model and data)"
    about = metrics(claim)
    if table.scale != PAPER_SCALE and about and all(name.startswith(FAMILY) for name in about):
        return NOT_JUDGED, " (about benchmarks, which are run at the paper's scale only)"
    return None


def tally(found: Sequence[ClaimVerdict]) -> str:
    """`3 hold, 1 does not hold, 2 not run`; behind it the questions: `2 yes, 1 no`."""
    claims = [verdict.kind for verdict in found if not verdict.question]
    questions = [verdict.kind for verdict in found if verdict.question]
    parts = []
    for kinds, words in (
        (claims, {HOLDS: ("holds", "hold"), FAILS: (FAILS, "do not hold")}),
        (questions, {HOLDS: ("yes", "yes"), FAILS: ("no", "no")}),
    ):
        words |= {kind: (kind, kind) for kind in (NOT_RUN, NOT_JUDGED, LEFT_OUT)}
        counts = [(kinds.count(kind), one, many) for kind, (one, many) in words.items()]
        parts.append(", ".join(f"{n} {one if n == 1 else many}" for n, one, many in counts if n))
    if parts[1]:
        parts[1] = f"questions: {parts[1]}"
    return "; ".join(filter(None, parts)) or DASH


def _sides(claim: Mapping[str, Any], sides: Sequence[Sides]) -> str:
    """The numbers of each part of a claim; of a claim with many parts, of those that fail."""
    parts = claim["parts"]
    if len(parts) <= FEW_PARTS:
        return "; ".join(_compared(part, one) for part, one in zip(parts, sides, strict=True))
    failing = [
        f"{part.get('name', number)}: {_compared(part, one)}"
        for number, (part, one) in enumerate(zip(parts, sides, strict=True), 1)
        if not holds(part, one)
    ]
    listed = f" (not: {'; '.join(failing)})" if failing else ""
    return f"{len(parts) - len(failing)} of {len(parts)} comparisons{listed}"


def _mean(claim: Mapping[str, Any], outcome: Outcome) -> str:
    """The numbers of a claim as mean and standard deviation over seeds."""
    if outcome.mean is None:
        return DASH
    parts = claim["parts"]
    if len(parts) > FEW_PARTS:
        holding = sum(map(holds, parts, outcome.mean))
        return f"{holding} of {len(parts)} comparisons"
    if outcome.std is None:
        return _sides(claim, outcome.mean)
    return "; ".join(
        _compared(part, mean, std)
        for part, mean, std in zip(parts, outcome.mean, outcome.std, strict=True)
    )


def _compared(part: Mapping[str, Any], sides: Sides, std: Sides | None = None) -> str:
    """One comparison as text: `left vs factor x right (margin)`."""
    if part["relation"] == DOMINATES:
        return f"{sides.left:.3g} of {sides.right:g} points"
    factor = f"{part['factor']:g} x " if "factor" in part else ""
    left, right = _number(sides.left), _number(sides.right)
    if not isinstance(part["right"], Mapping):
        right = f"{sides.right:g}"
    elif std is not None:
        right = f"{right} ± {_number(std.right)}"
        right = f"({right})" if factor else right
    if std is not None:
        left = f"{left} ± {_number(std.left)}"
    margin = f" (margin {_number(sides.margin)})" if part["relation"] == "~" else ""
    return f"{left} vs {factor}{right}{margin}"


def _number(value: float) -> str:
    """Three significant digits: two decimals would hide why a claim about small numbers fails."""
    return f"{value:#.3g}" if 1e-4 <= abs(value) < 1e3 else f"{value:.3g}"
