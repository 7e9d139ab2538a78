"""Show a table or figure of a paper, archive runs, and write the pages of docs/results/.

    python scripts/table.py cory fig3 --scale small     from the runs in outputs/: a table and a PNG
    python scripts/table.py cory fig3 --archive         the same, and the runs go into the archive
    python scripts/table.py --all                       every page, from the archive alone

Nothing is trained.
"""

import argparse
import re
import sys
from pathlib import Path

import archive
import computed
import pandas as pd
from figures import draw_table
from papers import COMPUTED, Numbers, Table, load, markdown_of

ROOT = Path(__file__).resolve().parent.parent
PAPERS = ROOT / "conf" / "paper"
BLOCK = re.compile(r"<!-- (\w+) (\w+) -->\n(?:.*?\n)??<!-- end[^>]* -->", re.DOTALL)


def show(args: argparse.Namespace) -> None:
    """Print one table, and draw its figure, from the runs of outputs/ and the archive."""
    table = chosen(args.table, load(PAPERS / f"{args.paper}.yaml"))
    if table.scales == [COMPUTED]:
        runs, scale = computed.frame(), COMPUTED
    else:
        scale = args.scale
        found = archive.finished(args.outputs, scale, table.experiments())
        stored = pd.read_parquet(args.archive_file)
        runs = archive.replaced(stored, [archive.run_frame(run_dir) for run_dir in found])
        print(f"{len(found)} runs of {args.outputs}; any others are of {args.archive_file}")
        for run_dir in found if args.archive else []:
            archive.refuse_others(run_dir)
        if args.archive and found:
            archive.write(runs, args.archive_file)
            print("archived; `make report` brings the pages up to date")
    numbers = Numbers(table, archive.by_experiment(runs), scale)
    print(f"\n{table.title}\n\n{markdown_of(numbers)}")
    if table.figure is not None:
        picture = args.outputs / "figures" / f"{args.paper}_{args.table}_{scale}.png"
        draw_table(numbers, picture)
        print(f"\nFigure: {picture}")


def chosen(name: str, tables: dict[str, Table]) -> Table:
    """A table of a paper; ValueError names those that there are."""
    if name not in tables:
        raise ValueError(f"table {name} must be one of {', '.join(tables)}")
    return tables[name]


def everything(args: argparse.Namespace) -> None:
    """Write the numbers and figures of every page."""
    runs = archive.by_experiment(pd.read_parquet(args.archive_file))
    runs |= archive.by_experiment(computed.frame())
    for path in sorted(PAPERS.glob("*.yaml")):
        write_page(args.docs / f"{path.stem}.md", load(path), runs)
    print("every page holds the numbers of the archive")


def write_page(page: Path, tables: dict[str, Table], runs: archive.Runs) -> None:
    """Fill the blocks of a page, whose words are written by hand, and draw its figures.

    Between `<!-- fig3 small -->` and `<!-- end -->` comes the table fig3 of the runs at small
    scale; the end then says of which days and commits they are.
    """

    def filled(block: re.Match[str]) -> str:
        name, scale = block.groups()
        numbers = Numbers(chosen(name, tables), runs, scale)
        parts = [markdown_of(numbers)]
        if numbers.table.figure is not None:
            picture = f"figures/{page.stem}_{name}_{scale}.png"
            draw_table(numbers, page.parent / picture)
            parts.insert(0, f"![{numbers.table.title}]({picture})")
        end = "" if scale == COMPUTED else f": runs of {origin(numbers)}"
        return "\n".join([f"<!-- {name} {scale} -->", "\n\n".join(parts), f"<!-- end{end} -->"])

    page.write_text(BLOCK.sub(filled, page.read_text(encoding="utf-8")), encoding="utf-8")


def origin(numbers: Numbers) -> str:
    """Days and commits of the runs of a table: `2026-11-01 to 2026-11-03, commits 0123456`."""
    shown = [numbers.curve_of(row, one) for row in numbers.rows for one in numbers.columns]
    commits = sorted({str(one) for lines in shown for one in lines.commit.unique()})
    days = sorted({str(day) for lines in shown for day in lines.date.unique()})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"{when}, commits {', '.join(commits)}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paper", nargs="?", help="a file of conf/paper/, for instance cory")
    parser.add_argument("table", nargs="?", help="one of its tables, for instance fig3")
    parser.add_argument("--all", action="store_true", help="write every page")
    parser.add_argument("--scale", default="paper", help="paper (default), small or medium")
    parser.add_argument("--archive", action="store_true", help="put the runs into the archive")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--docs", type=Path, default=ROOT / "docs" / "results")
    args = parser.parse_args()
    args.archive_file = args.docs / "runs.parquet"
    if args.all == (args.paper is not None) or (args.paper and not args.table):
        parser.error("give a paper and one of its tables, or --all")
    try:
        (everything if args.all else show)(args)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
