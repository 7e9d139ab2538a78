"""Verdicts on the claims of a table, as text: numbers per seed, the interval, and the answer."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cory.report.claims.judge import BY_INTERVAL, CONTRADICTED, HOLDS, NOT_RUN, Outcome, judge
from cory.report.claims.sides import experiments, metrics
from cory.report.kinds import COMPUTED
from cory.report.pages.claim_numbers import Numbers, numbers_of
from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.benchmarks import FAMILY
from cory.report.records.collect import CountedRuns, precisions
from cory.report.tables.markdown import DASH

CANNOT = "cannot be judged here"  # the study's positive control does not work
LEFT_OUT = "left out"  # of a scale that runs some rows of the table only
KINDS = (*BY_INTERVAL, CANNOT, NOT_RUN)  # the columns of counts; what is left out is not run
CHANCE = 0.05  # of a claim without an effect, to come out on either side


@dataclass(frozen=True)
class ClaimVerdict:
    """The verdict on a claim, as pages show it."""

    claim: Mapping[str, Any]
    question: bool  # ours rather than the paper's
    numbers: Numbers
    kind: str  # holds | contradicted | undecided | cannot be judged here | not run | left out
    why: str = ""  # in brackets behind it; perhaps empty
    by_intervals: bool = False  # they could decide it either way, whatever the control says
    beforehand: bool = False  # settled without a look at the runs

    @property
    def word(self) -> str:
        """The verdict in a word or few: a claim holds or is contradicted, a question has yes or no.

        Of a claim that cannot be judged, what its interval alone would say stands behind it.
        """
        words = {HOLDS: "yes", CONTRADICTED: "no"} if self.question else {}
        return words.get(self.kind, self.kind)

    @property
    def text(self) -> str:
        """The verdict with its reason."""
        return f"{self.word}{self.why}"


def verdicts(table: Table, found: CountedRuns) -> list[ClaimVerdict]:
    """Every claim of a table, judged on the runs that count."""
    failed = {one.claim["id"] for one in controls(table, found) if one.kind != HOLDS}
    asked = [claim for claim in table.claims if _asked(table, claim)]
    return [
        _controlled(table, _with_precisions(_verdict(table, found, claim), found), failed)
        for claim in asked
    ]


def controls(table: Table, found: CountedRuns) -> list[ClaimVerdict]:
    """The positive controls of a table, judged like claims."""
    return [_verdict(table, found, claim) for claim in table.controls.values()]


def _controlled(table: Table, one: ClaimVerdict, failed: set[str]) -> ClaimVerdict:
    """The verdict where every control of the claim works; else that it cannot be judged here."""
    if one.kind not in BY_INTERVAL or not failed & set(table.control_names(one.claim)):
        return one
    said = f"; its interval alone: {one.text}"
    return replace(one, kind=CANNOT, why=said)


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


def _verdict(table: Table, found: CountedRuns, claim: Mapping[str, Any]) -> ClaimVerdict:
    """The verdict on one claim by itself."""
    question = not table.in_paper or bool(claim.get("ours", False))
    settled = _beforehand(table, claim)
    if settled is not None:
        kind, why = settled
        return ClaimVerdict(claim, question, Numbers(), kind, why, beforehand=True)
    outcome = _outcome(table, found, claim)
    why = outcome.why if table.kind not in COMPUTED else ""
    numbers = numbers_of(claim, outcome)
    return ClaimVerdict(claim, question, numbers, outcome.kind, why, outcome.by_intervals)


def _outcome(table: Table, found: CountedRuns, claim: Mapping[str, Any]) -> Outcome:
    """A claim judged on the runs, or on what is computed, which depends on no seed."""
    if table.kind not in COMPUTED:
        records = {**found.records, **found.control_records}
        return judge(claim, records, table.seeds, table.window)
    computed = COMPUTED[table.kind].records(table.rules)
    return judge(claim, {name: {0: lines} for name, lines in computed.items()}, [0], 1, exact=True)


def _beforehand(table: Table, claim: Mapping[str, Any]) -> tuple[str, str] | None:
    """Kind and reason of a claim that no run of this scale is asked about; else None."""
    elsewhere = table.scale not in claim.get("scales", [table.scale])
    control = claim["id"] in table.controls
    if table.partial and not control and (elsewhere or table.unswept(claim)):
        return LEFT_OUT, ""
    if "unjudged" in claim:
        return NOT_RUN, f" ({claim['unjudged']})"
    if elsewhere:
        return NOT_RUN, " (a number of the paper's own model and data)"
    about = metrics(claim)
    if table.scale != PAPER_SCALE and about and all(name.startswith(FAMILY) for name in about):
        return NOT_RUN, " (about benchmarks, which are run at the paper's scale only)"
    return None


def counts(found: Sequence[ClaimVerdict], questions: bool = False) -> Counter[str]:
    """How many of the paper's claims, or of our questions, have each verdict of KINDS."""
    own = [one for one in found if one.question == questions]
    return Counter(NOT_RUN if one.kind == LEFT_OUT else one.kind for one in own)


def cells(number: Mapping[str, int]) -> list[str]:
    """The counts of KINDS as cells of a table."""
    return [str(number[kind]) if number.get(kind) else DASH for kind in KINDS]


def by_chance(found: Sequence[ClaimVerdict]) -> list[str]:
    """How many of the verdicts on these claims chance alone would give; nothing for no claim.

    Not counted are claims without intervals, which chance cannot decide, and those that were asked
    when the runs had been seen, of which nobody knows how many were thought of and not asked.
    """
    judged = [one for one in found if one.by_intervals]
    later = sum(bool(one.claim.get("post_hoc", False)) for one in judged)
    counted = len(judged) - later
    if not counted:
        return []
    claims = "1 claim or question is" if counted == 1 else f"{counted} claims and questions are"
    beside = f", beside {later} asked when the runs had been seen" if later else ""
    expected = f"{CHANCE * counted:.2g}"
    asked_before = [one for one in judged if not one.claim.get("post_hoc", False)]
    parts = [part for one in asked_before for part in one.claim.get("parts", ())]
    equal = any(part["relation"] == "~" for part in parts)
    wider = "; an equality with a narrow margin is contradicted in up to 10 %" if equal else ""
    return [
        f"{claims} judged by intervals here{beside}. Were every true difference exactly at the "
        f"edge between right and wrong, chance alone would let {expected} of them hold and "
        f"{expected} be contradicted (at most 5 % each{wider})."
    ]
