"""The command `cory-curves`: the curves of any runs in one figure."""

import argparse
import sys
from pathlib import Path

from cory.report.figures.curves import draw_curves
from cory.report.run_groups import find_runs, group_runs, without_repeats

ABOUT = """Draw the curves of any runs side by side.

    cory-curves outputs/runs/small/paper/cory/imdb_ppo -o curves.png
    cory-curves outputs/quickstart/*_seed0 -o curves.png

A folder stands for every run below it. Runs that differ in their seed alone make one line per
agent, with a band of one standard deviation; what else differs names the lines. Runs that are not
finished, and all but the last of runs with equal settings and seed, are left out with a note.
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
        found, left_out = find_runs(args.run_dirs, args.unfinished)
        groups, repeated = without_repeats(group_runs(found))
        draw_curves(groups, args.output)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    if left_out:
        print(f"note: left out, as not finished: {', '.join(map(str, left_out))}", file=sys.stderr)
    if repeated:
        print(f"note: {repeated} left out of runs with equal settings and seed", file=sys.stderr)
    for name, run_dirs in groups.items():
        print(f"{name}: {len(run_dirs)} run{'s' if len(run_dirs) > 1 else ''}")
    print(args.output)


if __name__ == "__main__":
    main()
