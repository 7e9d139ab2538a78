"""Measure reasoning benchmarks on agents of finished runs, and keep the scores with the runs.

    python scripts/benchmarks.py RUN_DIR                       the eight of the SPAG paper
    python scripts/benchmarks.py RUN_DIR RUN_DIR --tasks piqa  one of them, for two runs
    python scripts/benchmarks.py RUN_DIR --cot                 those with a chain of thought
    python scripts/benchmarks.py RUN_DIR --base                the model that the run started from

Scores go to RUN_DIR/benchmarks.json and RUN_DIR/record.json; existing ones are not measured again.
Needs `pip install '.[eval]'`, and once per machine the network, for the questions.
"""

import argparse
import logging
import sys
from pathlib import Path

import torch

from cory.benchmarks.measure import BenchmarkRequest, chosen_benchmarks, measure_benchmarks
from cory.benchmarks.store import Entry
from cory.config import ConfigError, SuiteConfig, load_suite, require
from cory.inference.exported import require_device
from cory.train import CONF


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
        "--limit", type=int, help="questions per task, to try; never in record.json or on pages"
    )
    parser.add_argument("--batch-size", default="8", help="texts at once, or auto")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--again", action="store_true", help="replace existing scores")
    return parser.parse_args()


def suite_of(name: str) -> SuiteConfig:
    """A suite by its file, or by its name in conf/benchmarks/."""
    return load_suite(
        Path(name) if name.endswith(".yaml") else CONF / "benchmarks" / f"{name}.yaml"
    )


def request_of(run_dir: Path, args: argparse.Namespace, suite: SuiteConfig) -> BenchmarkRequest:
    """The request for one of the runs."""
    require(args.limit is None or args.limit > 0, f"--limit={args.limit} must be above 0")
    batch = args.batch_size
    require(
        batch == "auto" or (batch.isdecimal() and int(batch) > 0),
        f"--batch-size={batch} must be auto or a number above 0",
    )
    require_device(args.device, "--device")
    require(args.tasks is None or not args.cot, "--cot and --tasks both choose: type one")
    return BenchmarkRequest(
        run_dir=run_dir,
        agent=args.agent,
        base=args.base,
        suite=suite,
        names=chosen_benchmarks(suite, args.tasks, args.cot),
        include=args.include,
        limit=args.limit,
        batch_size=batch if batch == "auto" else int(batch),
        device=args.device,
        again=args.again,
    )


def line(name: str, entry: Entry) -> str:
    """A line with a score in per cent."""
    error = "" if entry["stderr"] is None else f" ± {100 * entry['stderr']:.2f}"
    shots = "" if entry["shots"] is None else f", {entry['shots']} shots"
    limit = "" if entry["limit"] is None else f", only {entry['limit']} questions per task"
    return f"  {name:15} {100 * entry['value']:6.2f}{error} % ({entry['metric']}{shots}{limit})"


def main() -> None:
    args = arguments()
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    try:
        suite = suite_of(args.suite)
        requests = [request_of(run_dir, args, suite) for run_dir in args.runs]
        if args.device == "cpu":
            print(f"note: on the CPU weights are in {suite.cpu_dtype}", file=sys.stderr)
        for request in requests:
            entries = measure_benchmarks(request)
            print(f"{request.run_dir} {request.model}")
            print("\n".join(line(name, entry) for name, entry in entries.items()), flush=True)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
