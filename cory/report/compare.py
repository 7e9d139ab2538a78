"""The command `cory-compare`: one table of any runs, groups of seeds side by side."""

import argparse
import fnmatch
import sys
from pathlib import Path

from cory.config import nearest
from cory.report.comparison import Comparison, compare
from cory.report.comparison_text import FORMATS, written
from cory.report.run_groups import find_runs

ABOUT = """Compare any runs in one table.

    cory-compare outputs/adhoc/2026-01-31_12-00-00
    cory-compare outputs/runs/small/paper/cory/imdb_* --metric 'objective/kl/*' --format markdown

A folder stands for every run below it. Runs that differ in their seed alone make one row: mean and
standard deviation over seeds, the 95 % interval of the mean, and the difference to the first row,
paired by seed. What else differs names the rows. Runs that are not finished, and all but the last
of runs with equal settings and seed, are left out with a note.
"""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    add_grouping(parser)
    parser.add_argument("--format", choices=FORMATS, default="text", dest="form")
    parser.add_argument("--unfinished", action="store_true", help="take unfinished runs, too")
    args = parser.parse_args()
    try:
        found, left_out = find_runs(args.run_dirs, args.unfinished)
        comparison = compare(found, args.group_by)
        shown = chosen(comparison, args.metric) if args.metric else comparison.headlines()
        print(written(comparison, shown, args.form))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    note_left_out(left_out, comparison.repeated)


def add_grouping(parser: argparse.ArgumentParser) -> None:
    """The options that the commands about several runs share."""
    parser.add_argument(
        "--group-by",
        type=listed,
        default=[],
        metavar="SETTING,...",
        help="tell groups apart by these settings alone, as kl_coef or algorithm.kl_coef, and pool "
        "what else differs (default: every setting that differs but the seed)",
    )
    parser.add_argument(
        "--metric",
        type=listed,
        default=[],
        metavar="METRIC,...",
        help="metrics of docs/metrics.md, as objective/kl/agent_0, objective/kl or 'eval/*'",
    )


def listed(text: str) -> list[str]:
    """The words of an option, which commas part."""
    return [word.strip() for word in text.split(",") if word.strip()]


def chosen(comparison: Comparison, patterns: list[str]) -> dict[str, str]:
    """The metrics that patterns name; ValueError for a pattern that names none."""
    every = comparison.metrics
    found: dict[str, str] = {}
    for pattern in patterns:
        own = [metric for metric in every if fnmatch.fnmatchcase(metric, pattern)]
        own = own or [metric for metric in every if metric.startswith(f"{pattern}/")]
        if not own:
            raise ValueError(f"{pattern} is no metric of these runs{nearest(pattern, every)}")
        found |= {metric: metric for metric in own}
    return found


def note_left_out(left_out: list[Path], repeated: int) -> None:
    """Say on stderr which runs a command about several runs has left out."""
    if left_out:
        print(f"note: left out, as not finished: {', '.join(map(str, left_out))}", file=sys.stderr)
    if repeated:
        print(f"note: {repeated} left out of runs with equal settings and seed", file=sys.stderr)


if __name__ == "__main__":
    main()
