"""Gather finished runs into docs/results/, and write pages from what was gathered.

    python scripts/table.py cory fig3 --scale small    one page: docs/results/cory/fig3_small.md
    python scripts/table.py --all                      every page of every paper, all scales,
                                                       the overviews and README's table
    python scripts/table.py --all --scale small        the same, gathering at that scale only

Gathering copies what pages need from outputs/ to docs/results/<paper>/records/; where outputs/
holds nothing, the archive stays as it is, and pages come out as they were. Nothing is trained.
"""

import argparse
import sys
from functools import cache
from pathlib import Path

from omegaconf import DictConfig

from cory.report.pages.shown import Everything, Shown
from cory.report.pages.write import (
    Places,
    checked,
    gather_tables,
    tables_of,
    write_overviews,
    write_page,
    write_readme,
)
from cory.report.paper import SCALES
from cory.report.records.gather import Gathered
from cory.train import CONF, compose

ROOT = Path(__file__).resolve().parent.parent


@cache
def composed(experiment: str, scale: str) -> DictConfig:
    """The settings of an experiment, each composed once."""
    return compose(f"experiment={experiment}", f"scale={scale}")


def one(args: argparse.Namespace, places: Places) -> None:
    """The page of one table at one scale."""
    table = checked(places, args.paper, args.table, args.scale or "paper")
    if not table.has_runs:
        table = checked(places, args.paper, args.table, "paper")  # one page for all scales
    else:
        tell(gather_tables([table], places, args.outputs, args.allow_dirty))
    _, path = write_page(table, places, composed)
    if path is None:
        raise ValueError(
            f"there is no run of {table.paper} {table.name} at scale {table.scale}, neither in "
            f"{args.outputs} nor in {places.records(table.paper, table.scale)}"
        )
    print(path)
    print("`make report` brings the other pages up to date")


def everything(args: argparse.Namespace, places: Places) -> None:
    """Every page of every paper, and the overviews."""
    if args.scale not in (None, *SCALES):
        raise ValueError(f"--scale {args.scale} is none of {', '.join(SCALES)}")
    papers = sorted(path.stem for path in (places.conf / "paper").glob("*.yaml"))
    found: dict[str, Everything] = {}
    for paper in papers:
        by_table: dict[str, dict[str, Shown]] = {}
        for scale in SCALES:
            tables = tables_of(places, paper, scale)
            if tables and args.scale in (None, scale):
                tell(gather_tables(tables, places, args.outputs, args.allow_dirty))
            for table in tables:
                shown, path = write_page(table, places, composed)
                by_table.setdefault(table.name, {})[scale] = shown
                if path is not None:
                    print(path)
        found[paper] = by_table
    for path in write_overviews(found, places, composed):
        print(path)
    if args.readme is not None:
        write_readme(found, args.readme, composed)
        print(args.readme)


def tell(done: Gathered) -> None:
    """What was gathered, replaced and refused, by name."""
    for name in done.written:
        print(f"gathered {name}")
    for note in done.notes:
        print(f"note: {note}", file=sys.stderr)
    for refused in done.refused:
        print(f"not counted: {refused.name}: {refused.why}", file=sys.stderr)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paper", nargs="?", help="a file of conf/paper/, for instance cory")
    parser.add_argument("table", nargs="?", help="one of its tables, for instance fig3")
    parser.add_argument("--all", action="store_true", help="every page and the overviews")
    parser.add_argument(
        "--scale", default=None, help="paper (default), small or medium; --all: every one"
    )
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--docs", type=Path, default=ROOT / "docs" / "results")
    parser.add_argument(
        "--readme", type=Path, default=ROOT / "README.md", help="gets the results table (--all)"
    )
    parser.add_argument(
        "--allow-dirty",
        action="store_true",
        help="take runs from a dirty tree or under several commits, too; pages say so",
    )
    args = parser.parse_args()
    if args.all == (args.paper is not None) or (args.paper and not args.table):
        parser.error("give a paper and one of its tables, or --all")
    places = Places(CONF, args.docs, ROOT / "docs" / "metrics.md")
    try:
        (everything if args.all else one)(args, places)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
