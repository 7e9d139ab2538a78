"""The command `cory-curves`: the curves of any runs in one figure."""

import argparse
import sys
from pathlib import Path

from cory.report.figures.curves import draw_curves
from cory.report.run_groups import find_runs, group_runs

ABOUT = """Draw the curves of any runs side by side.

    cory-curves outputs/runs/small/paper/cory/imdb_ppo -o curves.png
    cory-curves outputs/quickstart/*_seed0 -o curves.png

A folder stands for every run below it. Runs that differ in their seed alone make one line per
agent, with a band of one standard deviation; what else differs names the lines.
"""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    parser.add_argument("-o", "--output", type=Path, default=Path("curves.png"))
    parser.add_argument("--unfinished", action="store_true", help="draw unfinished runs, too")
    args = parser.parse_args()
    try:
        groups = group_runs(find_runs(args.run_dirs, args.unfinished))
        draw_curves(groups, args.output)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    for name, run_dirs in groups.items():
        print(f"{name}: {len(run_dirs)} run{'s' if len(run_dirs) > 1 else ''}")
    print(args.output)


if __name__ == "__main__":
    main()
