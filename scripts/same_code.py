"""Try whether two commits train an experiment alike, so that records of both may share a page.

    python scripts/same_code.py cory/imdb_ppo df4f319 099d73b --scale small
    python scripts/same_code.py cory/imdb_cory df4f319 099d73b --scale small algorithm.swap_every=1

Repeats the first iterations of the experiment at each commit, in a checkout of its own on this
machine, and compares every logged number to the last digit. Where all are the same,
docs/results/<paper>/records/<scale>/same_code.json keeps it, and pages count such runs as of one
code. Further words are settings of both repetitions; choose them so that what the code does later
in a run is reached: role exchange, evaluation.
"""

import argparse
import sys
from pathlib import Path

from hydra.errors import HydraException

from cory.report.records.gather import short, training_code
from cory.report.records.same_code import SameCode, add_same, compare, full_name, remove_same
from cory.train import compose_or_refuse

# settings that have a place of their own on this command line
OWN = {
    "experiment": "it is the first word",
    "scale": "say --scale",
    "algorithm.iterations": "say --iterations",
    "run_dir": "the repetitions lie in a folder of their own",
}
ROOT = Path(__file__).resolve().parent.parent


def refuse(args: argparse.Namespace) -> None:
    """ValueError for a try that would say nothing, or be filed under another name."""
    if "/" not in args.experiment:
        raise ValueError(f"{args.experiment} belongs to no paper: pages have no records of it")
    for word in args.words:
        key = word.lstrip("+~").partition("=")[0]
        if key in OWN:
            raise ValueError(f"{word}: {OWN[key]}")
    cfg = compose_or_refuse(f"experiment={args.experiment}", f"scale={args.scale}")
    trains = cfg.algorithm.iterations
    if (args.iterations > 0) != (trains > 0):
        rule = "trains: at least 1" if trains else "only evaluates: 0"
        raise ValueError(f"--iterations {args.iterations}: {args.experiment} {rule}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment", help="with its paper, for instance cory/imdb_ppo")
    parser.add_argument("commits", nargs=2, metavar="COMMIT")
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE", help="further settings")
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs" / "results")
    args = parser.parse_intermixed_args()
    try:
        refuse(args)
        one, other = (full_name(commit) for commit in args.commits)
        codes = training_code(one), training_code(other)
        if codes[0] is None or codes[1] is None:
            raise ValueError("git does not list the training code of these commits")
        between = f"{short(one)} and {short(other)}"
        if codes[0] == codes[1]:
            print(f"{between} have the same training code: nothing to try")
            return
        own = (f"experiment={args.experiment}", f"scale={args.scale}")
        last = f"algorithm.iterations={args.iterations}"
        difference, record = compare((*own, *args.words, last), (one, other))
        folder = args.docs / args.experiment.partition("/")[0] / "records" / args.scale
        entry = SameCode(
            args.experiment,
            (one, other),
            (codes[0], codes[1]),
            args.iterations,
            tuple(args.words),
            record["device"],
            record["precision"],
        )
        if difference is not None:
            removed = remove_same(folder, entry)
            before = "; what was found before is removed" if removed else ""
            raise ValueError(f"{between} train {args.experiment} differently: {difference}{before}")
        add_same(folder, entry)
        print(f"{between}: {args.experiment}: {entry.repeated} the same numbers, every digit")
    except (ValueError, OSError, HydraException) as error:
        print(f"error: {str(error).splitlines()[0]}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
