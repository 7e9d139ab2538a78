"""The command `cory-board`: any runs in one HTML file that a browser opens without a server."""

import argparse
import sys
from pathlib import Path

from cory.report.board.data import Limits, page_data, read_all
from cory.report.board.page import write_html
from cory.runs.run_dir import write_whole

ABOUT = """Write one HTML file that shows runs: table, curves, samples side by side, win rates.

    cory-board outputs
    cory-board outputs/runs/small/paper/cory -o fig3.html

A folder stands for every run below it, finished or not. The file needs no server and no network;
it holds the settings and texts of the runs, so send it only to whom these may be shown.
"""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUNS", help="run directories, or folders of them"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("board.html"))
    parser.add_argument(
        "--points",
        type=int,
        default=Limits.points,
        help="most points of a line; more are thinned by means (%(default)s)",
    )
    parser.add_argument(
        "--prompts",
        type=int,
        default=Limits.prompts,
        help="most prompts of an agent whose answers are kept, of each evaluation (%(default)s)",
    )
    args = parser.parse_args()
    try:
        for name, least in (("points", 2), ("prompts", 1)):
            if getattr(args, name) < least:
                raise ValueError(f"--{name} must be at least {least}, got {getattr(args, name)}")
        if args.output.is_dir() or not args.output.parent.is_dir():
            why = "is a folder" if args.output.is_dir() else "lies in a folder that is not there"
            raise ValueError(f"--output {args.output} {why}: name the file to write")
        read = read_all(args.runs)
        data = page_data(read, Limits(args.points, args.prompts))
        title = ", ".join(str(folder) for folder in args.runs)
        write_whole(args.output, write_html(data, title))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    for note in read.notes:
        print(f"note: left out: {note}", file=sys.stderr)
    size = f"{args.output.stat().st_size / 2**20:.1f} MiB"
    runs = f"{len(read.runs)} run{'s' if len(read.runs) > 1 else ''}"
    print(f"{args.output}: {runs}, {size}; open it in a browser")


if __name__ == "__main__":
    main()
