"""Measure reasoning benchmarks on agents of finished runs, and keep the scores with the runs.

    python scripts/benchmarks.py RUN_DIR                       the eight of the SPAG paper
    python scripts/benchmarks.py RUN_DIR RUN_DIR --tasks piqa  one of them, for two runs
    python scripts/benchmarks.py RUN_DIR --cot                 those with a chain of thought
    python scripts/benchmarks.py RUN_DIR --base                the model that the run started from

Scores go to RUN_DIR/record.json under `benchmarks`; existing ones are not measured again.
Needs `pip install '.[eval]'`, and once per machine the network, for the questions.
"""

import argparse
import logging
import os
import sys
from pathlib import Path

import torch
from omegaconf import OmegaConf

# else DeepSpeed guesses while it is imported, and says so
os.environ.setdefault("DS_ACCELERATOR", "cuda" if torch.cuda.is_available() else "cpu")

from cory.benchmarks import Entry, Measurement, SuiteConfig, measure
from cory.config import ConfigError, require
from cory.runtime.hydra_setup import CONF

TASKS = CONF / "benchmarks" / "tasks"  # further ones of the harness, for the suites of conf


def arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN_DIR")
    parser.add_argument("--suite", default="spag", help="of conf/benchmarks/, or a YAML file")
    parser.add_argument("--tasks", help="benchmarks of the suite, as mmlu,piqa; else all")
    parser.add_argument("--cot", action="store_true", help="those with a chain of thought instead")
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--agent", default="agent_0", help="a folder of RUN_DIR/agents/")
    whose.add_argument(
        "--base", action="store_true", help="the run's model as it was before training"
    )
    parser.add_argument("--include", type=Path, help="a folder of further task files")
    parser.add_argument(
        "--limit", type=int, help="questions per task, to try; never in record.json"
    )
    parser.add_argument("--batch-size", default="8", help="texts at once, or auto")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def suite_of(name: str) -> SuiteConfig:
    """A suite by its file, or by its name in conf/benchmarks/; ConfigError, OSError, ValueError."""
    path = Path(name) if name.endswith(".yaml") else CONF / "benchmarks" / f"{name}.yaml"
    require(path.is_file(), f"--suite={path.stem}: there is no {path}")
    return SuiteConfig.model_validate(OmegaConf.to_container(OmegaConf.load(path)))


def chosen(suite: SuiteConfig, tasks: str | None, cot: bool) -> list[str]:
    """The benchmarks listed in `tasks`; else all of the suite without or with chain of thought."""
    if tasks is None:
        return [name for name, benchmark in suite.benchmarks.items() if benchmark.cot == cot]
    names = [name.strip() for name in tasks.split(",")]
    for name in names:
        require(
            name in suite.benchmarks,
            f"--tasks: {name} is no benchmark of suite {suite.name}; choose from "
            f"{', '.join(suite.benchmarks)}",
        )
    return names


def measurement(run_dir: Path, args: argparse.Namespace, suite: SuiteConfig) -> Measurement:
    """How the command line asks for one of the runs."""
    return Measurement(
        run_dir=run_dir,
        agent=args.agent,
        base=args.base,
        suite=suite,
        include=(TASKS, *(() if args.include is None else (args.include,))),
        limit=args.limit,
        batch_size=args.batch_size,
        device=args.device,
    )


def line(name: str, entry: Entry) -> str:
    """A line with a score in per cent."""
    error = "" if entry["stderr"] is None else f" ± {100 * entry['stderr']:.2f}"
    shots = f", {entry['shots']} shots" if "shots" in entry else ""
    return f"  {name:15} {100 * entry['value']:6.2f}{error} % ({entry['metric']}{shots})"


def main() -> None:
    args = arguments()
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    try:
        suite = suite_of(args.suite)
        wanted = [measurement(run_dir, args, suite) for run_dir in args.runs]
        if args.device == "cpu":
            print(f"note: on the CPU weights are in {suite.cpu_dtype}", file=sys.stderr)
        for one in wanted:
            scores = measure(one, chosen(suite, args.tasks, args.cot))
            limit = "" if args.limit is None else f", only {args.limit} questions per task"
            print(f"{one.run_dir} {one.key}{limit}")
            print("\n".join(line(name, entry) for name, entry in scores.items()), flush=True)
    except (ConfigError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
