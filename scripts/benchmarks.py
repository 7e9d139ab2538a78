"""Measure the reasoning benchmarks of a paper on agents of finished runs, with its settings.

    python scripts/benchmarks.py RUN_DIR                       the eight of the SPAG paper
    python scripts/benchmarks.py RUN_DIR RUN_DIR --tasks piqa  one of them, for two runs
    python scripts/benchmarks.py RUN_DIR --base                the model that the run started from

The benchmarks are those of conf/benchmarks/; `cory-benchmark` puts any task of the harness to an
agent or a team. What was measured is not measured again.
"""

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from cory.benchmarks import Entry, Measurement, keep, key_of, measure, table
from cory.config import ConfigError, require
from cory.runs.run_dir import read_benchmarks
from cory.runtime.hydra_setup import CONF

FOLDER = CONF / "benchmarks"  # tasks/ has further ones of the harness
GEOMETRIC_MEAN = "geometric_mean"  # stands beside the benchmarks that it is made of
DEFAULT_AGENT = "agent_0"


def suite_scores(wanted: Measurement, suite: Any, names: Sequence[str]) -> dict[str, Entry]:
    """The scores of benchmarks of a suite, and once all of its mean's are there, that mean."""
    places = {
        name: "/".join([one.task, one.metric, *([] if one.filter == "none" else [one.filter])])
        for name, one in suite.benchmarks.items()
    }

    def kept() -> dict[str, Entry]:
        there = read_benchmarks(wanted.run_dir).get(key_of(wanted), {})
        own = {name: there[place] for name, place in places.items() if place in there}
        return {name: entry for name, entry in own.items() if entry["suite"] == suite.name}

    left = [suite.benchmarks[name] for name in names if name not in kept()]
    if left:
        measure(wanted, {one.task: one.shots for one in left})
    found = kept()
    if {*suite.geometric_mean} <= {*found}:
        parts = [(found[name]["value"], found[name]["stderr"]) for name in suite.geometric_mean]
        value, stderr = geometric_mean(parts)
        found[GEOMETRIC_MEAN] = {"value": value, "stderr": stderr, "suite": suite.name}
    keep(wanted, found)  # under the names that conf/paper has
    return found


def geometric_mean(numbers: Sequence[tuple[float, float | None]]) -> tuple[float, float | None]:
    """The geometric mean of independent numbers, and its standard error by the delta method.

    numbers: (value, standard error); None for an unknown error
    returns: (mean, standard error); None where an error is unknown or a value is 0
    """
    values, errors = zip(*numbers, strict=True)
    if 0 in values:
        return 0.0, None
    mean = statistics.geometric_mean(values)
    if None in errors:
        return mean, None
    # the mean changes by mean / (n * value) when a value changes by 1
    terms = ((mean * error / (len(values) * value)) ** 2 for value, error in numbers if error)
    return mean, math.sqrt(math.fsum(terms))


def chosen(suite: Any, tasks: str | None) -> list[str]:
    """The benchmarks listed in `tasks`; else all that are asked without a chain of thought."""
    if tasks is None:
        return [name for name, benchmark in suite.benchmarks.items() if not benchmark.cot]
    for name in (names := tasks.split(",")):
        known = ", ".join(suite.benchmarks)
        require(name in suite.benchmarks, f"--tasks={name}: suite {suite.name} has {known}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    parser.add_argument("--suite", default="spag", choices=[p.stem for p in FOLDER.glob("*.yaml")])
    parser.add_argument("--tasks", help="benchmarks of the suite, as mmlu,piqa; else all")
    parser.add_argument("--agent", default=DEFAULT_AGENT, help="a folder of RUN_DIR/agents/")
    parser.add_argument("--base", action="store_true", help="the model before training")
    parser.add_argument("--limit", type=int, help="questions per task, to try")
    parser.add_argument("--batch-size", help="texts at once, or auto; else 8")
    parser.add_argument("--device", help="cpu, cuda or cuda:1; else a GPU if there is one")
    args = parser.parse_args()
    suite = OmegaConf.load(FOLDER / f"{args.suite}.yaml")
    try:
        for run_dir in args.run_dirs:
            how = {name: getattr(args, name) for name in ("agent", "base", "limit", "device")}
            wanted = Measurement(
                run_dir,
                **how,
                **suite.how,
                include=(FOLDER / "tasks",),
                batch_size=args.batch_size,
                suite=suite.name,
            )
            found = suite_scores(wanted, suite, chosen(suite, args.tasks))
            print(f"{run_dir} {key_of(wanted)}\n{table(found)}", flush=True)
    except (ConfigError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
