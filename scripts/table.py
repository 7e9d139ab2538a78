"""Write the page of one table or figure from the records of its runs; nothing is trained.

python scripts/table.py cory fig3                   docs/results/cory/fig3.md and .png
python scripts/table.py cory fig3 --scale small     docs/results/cory/fig3_small.md and .png
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cory.page import page
from cory.plots import draw_curves
from cory.report import collect, load_table
from cory.train import CONF


def write(args: argparse.Namespace) -> Path:
    """The page's path, once it and its curves are on disk."""
    table = load_table(CONF, args.paper, args.table, args.scale)
    found = collect(table, args.outputs, args.allow_mixed)
    if not found.runs and not found.refused:
        raise ValueError(
            f"{args.outputs} holds no run of {args.paper} {args.table}; nothing written"
        )
    name = args.table if args.scale == "paper" else f"{args.table}_{args.scale}"
    path: Path = args.docs / args.paper / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    image = path.with_suffix(".png")
    groups = {
        row["label"]: [run.path for run in found.counted[row["experiment"]].values()]
        for row in table.rows
        if found.counted[row["experiment"]]
    }
    text = page(table, found, image.name if groups else None)
    image.unlink(missing_ok=True)  # of a time when there were runs
    if groups:
        draw_curves(groups, image)
    path.write_text(text, encoding="utf-8")
    return path


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paper", help="a file of conf/paper/, for instance cory")
    parser.add_argument("table", help="one of its tables, for instance fig3")
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--docs", type=Path, default=Path("docs/results"))
    parser.add_argument(
        "--allow-mixed",
        action="store_true",
        help="count runs from a dirty tree or another commit, and say so on the page",
    )
    try:
        print(write(parser.parse_args()))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
