"""The page that the check writes: what failed, what was not run, times, memory, hours."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cory.gpu_check.cases import LARGE, Case
from cory.gpu_check.extrapolate import Hours
from cory.gpu_check.machine import Machine
from cory.gpu_check.runner import FAILED, MEASURED, NOT_RUN, PASSED

GIB = 2**30
Results = Mapping[str, Mapping[str, Any]]
INTRODUCTION = """\
Each case ran in a process of its own, by the code that trains. Its first iteration replays what
the CPU said in float32 (the cases whose names end in "on the CPU"), so both learn from the same
tokens. Compared with the CPU's numbers are log-probabilities, entropies and values of fixed
sequences, greedy tokens, the losses and the gradient's norm of the first update, and what that
update did to log-probabilities and KL. *Nearest to its bound* is the comparison that used up most
of its bound. Seconds are medians of two iterations. Memory is the most that the process allocated,
less what its libraries held before, and preflight's estimate.
"""
HOURS_OF_A_CPU = (
    "**The speed here is that of a CPU and a model of 10 M parameters: these hours say nothing of "
    "a GPU.**",
    "",
)
WORDS = {
    PASSED: "all numbers are within their bounds",
    MEASURED: "ran, compared with nothing",
    FAILED: "see below",
    NOT_RUN: "see below",
}


def page(
    machine: Machine,
    cases: Sequence[Case],
    results: Results,
    hours: Sequence[Hours],
    commit: str | None,
    date: str,
    at_a_time: int = 1,
) -> str:
    """The page as Markdown; results are of all cases.

    at_a_time: how many cases of small models ran side by side
    """
    return "\n".join(
        [
            *heading(machine, commit, date),
            *verdict(results),
            *listed("Failed", FAILED, results),
            *listed("Not run", NOT_RUN, results),
            "## Cases",
            "",
            INTRODUCTION,
            *(() if at_a_time == 1 else side_by_side(at_a_time)),
            *case_table(cases, results),
            "",
            *large_table(cases, results),
            *hours_table(machine, hours),
        ]
    )


def heading(machine: Machine, commit: str | None, date: str) -> list[str]:
    """What was checked, and on what."""
    gpu = machine.device == "cuda"
    many = f"{machine.devices} x " if gpu and machine.devices > 1 else ""
    lines = [
        f"# Check of {many}{machine.name}" if gpu else "# Trial of the check on a CPU",
        "",
        f"{date}, commit {commit or 'unknown'}, Python {machine.python}, "
        f"torch {machine.packages['torch']}, DeepSpeed {machine.packages['deepspeed']}, "
        f"transformers {machine.packages['transformers']}, "
        f"bitsandbytes {machine.packages['bitsandbytes']}; {machine.cores} CPU cores, "
        f"{machine.main_memory / GIB:.0f} GiB of main memory",
    ]
    if gpu:
        lines[-1] += (
            f"; {machine.memory / GIB:.0f} GiB per GPU, compute capability "
            f"{'.'.join(map(str, machine.capability))}, CUDA {machine.cuda}"
        )
    else:
        lines += [
            "",
            "**No GPU was used.** This page shows what the check does, not what a GPU does.",
        ]
    return [*lines, ""]


def verdict(results: Results) -> list[str]:
    """How many cases ended how."""
    counts = {
        status: sum(result["status"] == status for result in results.values()) for status in WORDS
    }
    rows = [
        f"| {status} | {count} | {WORDS[status] if count else ''} |"
        for status, count in counts.items()
    ]
    return ["| cases | | |", "|---|---|---|", *rows, ""]


def side_by_side(count: int) -> list[str]:
    """What seconds mean where cases shared the device."""
    return [
        f"Cases of small models ran {count} at a time: their seconds are those of a shared device. "
        "Those of the large model had it to themselves.",
        "",
    ]


def listed(title: str, status: str, results: Results) -> list[str]:
    """The cases of a status and their reasons."""
    rows = [
        f"- **{name}** (`{result['words'] or 'no further settings'}`): {result['reason']}"
        + (f"; see `{result['log']}`" if "log" in result else "")
        for name, result in results.items()
        if result["status"] == status
    ]
    return [f"## {title}", "", *rows, ""] if rows else []


def case_table(cases: Iterable[Case], results: Results) -> list[str]:
    """A row for every case that ran."""
    lines = [
        "| case | status | nearest to its bound | iteration, s | sampled tokens/s | memory, GiB | "
        "estimated, GiB | whole process, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        result = results[case.name]
        measured = result.get("measured") or {}
        if "seconds" not in measured:  # it came to no iterations, or is only there to compare with
            if result["status"] == FAILED:
                lines.append(f"| {case.name} | failed | | | | | | {result.get('wall_s', '')} |")
            continue
        memory = measured["memory"]
        lines.append(
            f"| {case.name} | {result['status']} | {nearest(result['checks'])} | "
            f"{measured['seconds']['iteration']:.3f} | {measured['sampled_tokens_per_s']:.0f} | "
            f"{memory['measured'] / GIB:.2f} | {memory['estimated'] / GIB:.2f} | "
            f"{result['wall_s']:.0f} |"
        )
    return lines


def nearest(checks: Sequence[Mapping[str, Any]]) -> str:
    """The comparison that is nearest to its bound, or furthest beyond."""
    if not checks:
        return ""
    worst = max(checks, key=lambda check: share(check))
    return f"{worst['what']}: {worst['off']:.1e} of {worst['bound']:.1e}"


def share(check: Mapping[str, Any]) -> float:
    """Of the bound; infinite for NaN."""
    found = float(check["off"]) / float(check["bound"])
    return found if found == found else float("inf")


def large_table(cases: Iterable[Case], results: Results) -> list[str]:
    """Seconds per phase of the cases on the large model."""
    rows, parameters = [], 0
    for case in cases:
        measured = results[case.name].get("measured") or {}
        if case.model != LARGE or "seconds" not in measured:
            continue
        parameters = measured["parameters"] or parameters
        seconds = measured["seconds"]
        phases = " | ".join(
            f"{seconds[p]:.3f}" for p in ("rollout", "reward", "annotate", "update")
        )
        rows.append(f"| {case.name} | {phases} | {measured['operations_per_s'] / 1e12:.3g} |")
    if not rows:
        return []
    return [
        f"## The large model, {parameters / 1e6:.0f} M parameters",
        "",
        "Seconds of each phase of an iteration (32 prompts, 32 new tokens), and 10^12 operations "
        "per second over the whole iteration, counted as `scripts/cost.py` counts them.",
        "",
        "| case | roll-out | reward | scoring | update | 10^12 operations/s |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def hours_table(machine: Machine, hours: Sequence[Hours]) -> list[str]:
    """What the papers' runs would take at the measured speed."""
    lines = [
        "## The papers' runs",
        "",
        "Hours of one run: its operations, divided by the speed of the large model above with the "
        "same products and packing, and by its processes, as if several lost nothing. The large "
        "model has short prompts, small batches and adapters: take the hours as an order of "
        "magnitude. A second row of an experiment, with other products than its own, says what "
        "`model.compute_precision` would change. Evaluations on a whole split of unknown size are "
        "left out.",
        "",
        *(HOURS_OF_A_CPU if machine.device == "cpu" else ()),
        "| experiment | products | hours | speed of | processes | GiB each | fits |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in hours:
        known = f"unknown: {row.source}" if row.hours is None else f"{row.hours:.1f}"
        fits = "yes" if row.needed <= machine.memory else "no"
        lines.append(
            f"| {row.experiment} | {row.products} | {known} | {row.case or ''} | {row.processes} | "
            f"{row.needed / GIB:.0f} | {fits} |"
        )
    return [*lines, ""]
