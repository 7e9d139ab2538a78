"""Say what a sweep will cost, before it starts.

    python scripts/cost.py cory fig3                   at the paper's scale
    python scripts/cost.py cory fig3 --scale small
    python scripts/cost.py cory fig3 --scale small --seeds 0
    python scripts/cost.py cory fig3 --gpu h100        on GPUs that this machine need not have

Durations come from finished runs of the same experiment and scale, in outputs/ or else in
docs/results/; where there are none, from an estimate that says so: operations at the speed of runs
with the same algorithm and model, else with the same model, else at an assumed one. With --gpu all
are estimates.
"""

import argparse
import sys
from pathlib import Path

from cory.report.checks import load_table
from cory.report.kinds import PRESET
from cory.report.records import archive
from omegaconf import DictConfig

from cory.report.costs.cost import cost
from cory.train import CONF, compose_or_refuse

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paper", help="a file of conf/paper/, for instance cory")
    parser.add_argument("table", help="one of its tables, for instance fig3")
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--parallel", help="as parallel_runs=<...> of the sweep; else its default")
    parser.add_argument("--seeds", type=numbers, help="of the table's seeds, those to run: 0,1")
    parser.add_argument("--gpu", help="plan for such GPUs, as hardware.gpu=<...> of a run")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--docs", type=Path, default=ROOT / "docs" / "results")
    args = parser.parse_args()
    try:
        table = load_table(CONF, args.paper, args.table, args.scale)
        if not table.has_runs:
            what = "a table of settings" if table.kind == PRESET else "computed exactly"
            print(f"{args.paper} {args.table} is {what}: nothing to run")
            return
        archived = archive.read(args.docs / args.paper / "records" / args.scale)
        words = [f"parallel_runs={args.parallel}"] if args.parallel else []
        words += [f"hardware.gpu={args.gpu}", "preflight_only=true"] if args.gpu else []

        def compose(experiment: str, scale: str) -> DictConfig:
            return compose_or_refuse(f"experiment={experiment}", f"scale={scale}", *words)

        lines = cost(table, args.outputs, archived, compose, args.seeds)
        print("\n".join(lines), flush=True)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def numbers(text: str) -> list[int]:
    """Whole numbers with commas between them."""
    return [int(word) for word in text.split(",")]


if __name__ == "__main__":
    main()
