"""What the papers' experiments need at the papers' scale, as docs/paper_scale.md.

    python scripts/paper_scale.py            # print the page; a minute on two CPU cores
    python scripts/paper_scale.py --write    # write docs/paper_scale.md

Every experiment that some page of docs/results/ needs is composed as `scale=paper` would run it and
reckoned as `preflight_only=true` does, on no GPU. Experiments that need the same share a row.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cory.report.checks import load_table
from cory.report.paper import PAPER_SCALE, load_paper

from cory.config import Config, parse_config
from cory.memory.disk import disk_usage
from cory.memory.estimate import peak
from cory.memory.operations import estimated_hours
from cory.memory.preflight import GIB, WARN_ABOVE, rows_of
from cory.report.costs.cost import duration
from cory.train import CONF, compose

PAGE = Path(__file__).resolve().parent.parent / "docs" / "paper_scale.md"
HEADER = """\
# The papers' experiments at their scale

What a GPU holds at most, what the checkpoints of a run take on the disk, and how long it takes, by
[the estimate](memory.md) that `preflight_only=true` prints. Hours are an order of magnitude
(operations at an assumed 1e13 a second and GPU); of a named GPU `hardware.gpu=<name>` says more
([GPUs](gpu.md)). Nothing here was run. Written by
`python scripts/paper_scale.py --write`.

A row is of all experiments with this model, algorithm and hardware: the highest memory and disk,
the shortest and the longest run. It *fits* if it needs at most 90 % of a GPU that the paper names.
Where a row does not, these settings help, in this order: `hardware.microbatch_size` and
`hardware.generation_batch_size` (less at once, the same numbers),
`hardware.gradient_checkpointing=true`, `hardware=gpu8_zero3`, `hardware=gpu8_zero3_offload`.
"""
COLUMNS = (
    "model",
    "algorithm",
    "hardware",
    "GiB a GPU",
    "in phase",
    "main memory, GiB",
    "disk, GiB",
    "hours a run",
    "fits",
    "experiments",
)


@dataclass(frozen=True)
class Need:
    """What a run of an experiment needs."""

    experiment: str
    gib: float  # a process, on its device
    phase: str
    main: float  # GiB of main memory, of all processes of a machine
    disk: float  # GiB
    hours: float | None


def experiments(paper: str, about: dict[str, Any]) -> Iterator[str]:
    """Each experiment of a paper's pages, once."""
    seen: set[str] = set()
    for name in about["tables"]:
        table = load_table(CONF, paper, name, PAPER_SCALE)
        for experiment in table.to_run if table.has_runs else ():
            if experiment not in seen:
                seen.add(experiment)
                yield experiment


def setup(config: Config) -> tuple[str, str, str]:
    """Model, algorithm and hardware of an experiment: whose row it is in."""
    model, algorithm = config.model, config.algorithm
    packed = "" if model.quantisation == "none" else f" {model.quantisation}"
    partner = "" if config.partner is None else f", {config.partner.name}"
    count = algorithm.policy_count()
    return (
        f"{model.name}{partner} ({model.precision}{packed})",
        f"{algorithm.name}, {count} as {model.sharing}",
        config.hardware.name,
    )


def need(experiment: str, config: Config, about: dict[str, Any]) -> Need:
    """What an experiment needs; about: its paper's file."""
    rows, _ = rows_of(config)
    phase, most = peak(rows)
    _, main = peak(rows, offloaded=True)
    hours, _ = estimated_hours(config, about.get("test_problems", {}))
    all_main = config.hardware.processes * main / GIB
    disk = disk_usage(config, rows).most / GIB
    return Need(experiment, most / GIB, phase, all_main, disk, hours)


def page() -> str:
    """The whole page."""
    parts = [HEADER]
    for file in sorted((CONF / "paper").glob("*.yaml")):
        about = load_paper(CONF, file.stem)
        machine = about["hardware"]
        found: dict[tuple[str, str, str], list[Need]] = defaultdict(list)
        for experiment in experiments(file.stem, about):
            config = parse_config(compose(f"experiment={experiment}", f"scale={PAPER_SCALE}"))
            if not config.algorithm.speaks_remotely():
                found[setup(config)].append(need(experiment, config, about))
        parts.append(f"## {about['short']}\n\n{machine['text']}\n")
        parts.append("\n".join(table_lines(found, machine["gib"])) + "\n")
    return "\n".join(parts)


def table_lines(found: dict[tuple[str, str, str], list[Need]], gib: float) -> Iterator[str]:
    """A Markdown table; gib: memory of a GPU of the paper."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for row, needs in found.items():
        worst = max(needs, key=lambda one: one.gib)
        known = sorted(one.hours for one in needs if one.hours is not None)
        hours = list(dict.fromkeys(duration(one) for one in known[:1] + known[-1:])) or ["?"]
        main, disk = max(one.main for one in needs), max(one.disk for one in needs)
        names = (
            [needs[0].experiment]
            if len(needs) == 1
            else [f"{worst.experiment} and {len(needs) - 1} more"]
        )
        cells = [
            *row,
            f"{worst.gib:.1f}",
            worst.phase,
            f"{main:.0f}" if main else "",
            f"{disk:.0f}" if disk >= 1 else "under 1",
            " to ".join(hours),
            "yes" if worst.gib <= WARN_ABOVE * gib else "**no**",
            *names,
        ]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    args = parser.parse_args()
    text = page()
    if args.write:
        PAGE.write_text(text, encoding="utf-8")
        print(f"wrote {PAGE}")
    else:
        print(text)


if __name__ == "__main__":
    main()
