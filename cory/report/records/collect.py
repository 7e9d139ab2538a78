"""The archived runs that one table counts, and the names of those that are missing."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from cory.report.claims.measures import Records
from cory.report.paper import Table
from cory.report.records.archive import Archived, Refused
from cory.report.records.gather import doubts, short
from cory.report.records.same_code import SameCode, path_between

T = TypeVar("T")


@dataclass
class CountedRuns:
    """The runs of a table, and those that do not count."""

    counted: dict[str, dict[int, Archived]]  # experiment -> seed -> run
    refused: list[Refused] = field(default_factory=list)  # of both kinds
    notes: list[str] = field(default_factory=list)  # about runs that count, of both kinds
    # runs that only positive controls are about: experiment -> seed -> run
    controls: dict[str, dict[int, Archived]] = field(default_factory=dict)

    @property
    def runs(self) -> list[Archived]:
        """The runs that count."""
        return _listed(self.counted)

    @property
    def control_runs(self) -> list[Archived]:
        """The runs that only positive controls are about."""
        return _listed(self.controls)

    @property
    def vetted(self) -> list[Archived]:
        """Every run that some number or verdict of the page is from."""
        return [*self.runs, *self.control_runs]

    @property
    def any_refused(self) -> bool:
        """Whether a run that the page itself is about was refused."""
        return any(one.experiment in self.counted for one in self.refused)

    @property
    def records(self) -> Records:
        """The metrics of the runs that count, as claims read them."""
        return _measured(self.counted)

    @property
    def control_records(self) -> Records:
        """The same of the runs that only controls are about."""
        return _measured(self.controls)


def _listed(runs: Mapping[str, Mapping[int, Archived]]) -> list[Archived]:
    return [run for seeds in runs.values() for run in seeds.values()]


def _measured(runs: Mapping[str, Mapping[int, Archived]]) -> Records:
    return {
        name: {seed: run.measured for seed, run in seeds.items()} for name, seeds in runs.items()
    }


def collect(
    table: Table,
    archived: Sequence[Archived],
    refused: Sequence[Refused],
    same: Sequence[SameCode] = (),
) -> CountedRuns:
    """The runs of every experiment of the table and its controls; by name those that do not count.

    A run that another table asks for, with a seed that this one has not, is none of the latter.
    Runs of other code than their neighbours', or of several devices, count and are named. Runs of
    one experiment in another precision than most of its runs do not count: one row does not mix
    them.

    same: codes that were tried and give an experiment the same numbers
    """
    shown = table.shown
    kept: dict[str, dict[int, Archived]] = {name: {} for name in (*shown, *table.control_runs)}
    found = CountedRuns({})

    def is_of_others(experiment: str, seed: int | None) -> bool:
        return seed not in table.seeds and (experiment, seed) in table.runs_of_others

    for run in archived:
        if run.experiment not in kept or is_of_others(run.experiment, run.seed):
            continue
        flaws = list(_flaws(table, run))
        if flaws:
            found.refused.append(Refused(run.experiment, run.name, "; ".join(flaws), run.seed))
        else:
            kept[run.experiment][run.seed] = run
    for name, seeds in kept.items():
        group = found.counted if name in shown else found.controls
        group[name], others = by_precision(seeds)
        found.refused += others
    counted = {run.name for run in found.vetted}
    for entry in refused:
        if is_of_others(entry.experiment, entry.seed):
            continue
        if entry.name in counted:
            found.notes.append(
                f"`{entry.name}`: an earlier run; the latest is left out: {entry.why}"
            )
        elif entry.experiment in kept:
            found.refused.append(entry)
    # the page's own runs say which code is usual, where it has some
    common, tried = common_code(found.runs or found.control_runs, same), dict[str, None]()
    for run in found.vetted:
        found.notes += [f"`{run.name}`: {doubt}" for doubt in doubts(run)]
        if code_of(run) == common:
            continue
        commit = short(run.record["commit"])
        if way := path_between(same, run, code_of(run), common):
            least = min(way, key=lambda entry: entry.iterations)
            said = f"{least.repeated} the same numbers as at the commit of the others"
            tried[f"`{run.experiment}`: commit {commit}, where {said}"] = None
        else:
            found.notes.append(f"`{run.name}`: commit {commit}, whose code is not its neighbours'")
    found.notes += tried
    if len({run.record["device"] for run in found.vetted}) > 1:
        found.notes.append(f"on each device a seed draws other samples: {devices(found.vetted)}")
    return found


def _flaws(table: Table, run: Archived) -> Iterator[str]:
    """Reasons why an archived run does not count for this table."""
    if run.seed not in table.seeds:
        yield f"seed {run.seed} is not of the sweep"
    if table.averages and 0 < run.record["iterations"] < 2 * table.window:
        short_of = f"two windows of {table.window}"
        yield f"{run.record['iterations']} iterations are fewer than {short_of}"


def by_precision(seeds: Mapping[int, Archived]) -> tuple[dict[int, Archived], list[Refused]]:
    """The runs of an experiment in the precision of most of them, and the others as refused.

    Of two precisions as frequent, the one of the run that began last counts.
    """
    common = most_common([run.precision for run in _by_begin(seeds.values())])
    alike = {seed: run for seed, run in seeds.items() if run.precision == common}
    named = ", ".join(run.name for run in alike.values())
    others = [
        Refused(run.experiment, run.name, f"{run.precision}, but {common} in {named}", run.seed)
        for run in seeds.values()
        if run.precision != common
    ]
    return alike, others


def most_common(found: Sequence[T]) -> T | None:
    """What occurs most often; of two as frequent, the one that occurs last. None of nothing."""
    counts, last = Counter(found), {one: place for place, one in enumerate(found)}
    return max(counts, key=lambda one: (counts[one], last[one]), default=None)


def code_of(run: Archived) -> str | None:
    """The identity of a run's code: the digest of the training code, else its commit."""
    return run.code or run.record["commit"]


def common_code(runs: Sequence[Archived], same: Sequence[SameCode]) -> str | None:
    """The code that most runs have or were tried to be the same as.

    Of two alike, the code of most runs; of two as frequent, the one that ran last. An experiment
    that is younger than the others was never tried at their commits, but they may have been at its.
    """

    def agree(code: str | None) -> int:
        return sum(
            code_of(run) == code or bool(path_between(same, run, code_of(run), code))
            for run in runs
        )

    codes = [code_of(run) for run in _by_begin(runs)]
    most = {code: agree(code) for code in {*codes}}
    return most_common([code for code in codes if most[code] == max(most.values())])


def precisions(runs: Sequence[Archived]) -> str:
    """The precision of these runs; where there are several, each with its experiments."""
    return _with_experiments(runs, lambda run: run.precision)


def devices(runs: Sequence[Archived]) -> str:
    """The same of the devices that they ran on."""
    return _with_experiments(runs, lambda run: str(run.record["device"]))


def _with_experiments(runs: Sequence[Archived], trait: Callable[[Archived], str]) -> str:
    found: dict[str, dict[str, None]] = {}
    for run in sorted(runs, key=trait):
        found.setdefault(trait(run), {})[f"`{run.experiment}`"] = None
    if len(found) < 2:
        return "".join(found)
    return "; ".join(f"{value} ({', '.join(own)})" for value, own in found.items())


def lacking(table: Table, found: CountedRuns, experiment: str) -> str:
    """`not run (2 of 3 seeds): 1, 2`, the same for refused runs; empty when every seed counts."""
    absent = [seed for seed in table.seeds if seed not in found.counted[experiment]]
    finished = {refused.seed for refused in found.refused if refused.experiment == experiment}
    parts = {
        "not run": [seed for seed in absent if seed not in finished],
        "refused": [seed for seed in absent if seed in finished],
    }
    return "; ".join(
        f"{word} ({len(seeds)} of {len(table.seeds)} seeds): {', '.join(map(str, seeds))}"
        for word, seeds in parts.items()
        if seeds
    )


def _by_begin(runs: Iterable[Archived]) -> list[Archived]:
    return sorted(runs, key=lambda run: str(run.record["began"]))
