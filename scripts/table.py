"""Show a table or figure of a paper, archive runs, and write the pages of docs/results/.

    python scripts/table.py cory fig3 --scale small     from the runs in outputs/: a table and a PNG
    python scripts/table.py cory fig3 --archive         the same, and the runs go into the archive
    python scripts/table.py --all                       every page, from the archive alone

Nothing is trained.
"""

import argparse
import sys
from pathlib import Path

import computed
import pandas as pd
import yaml

from cory.config.names import key_of, words_of
from cory.report import archive
from cory.report.numbers import Numbers
from cory.report.pages import markdown_of, write_page
from cory.report.papers import COMPUTED, Paper, Table, load
from cory.report.plots import draw_table
from cory.runs.run_dir import FREE, OVERRIDES, read_record

ROOT = Path(__file__).resolve().parent.parent
PAPERS, SWEEPS = ROOT / "conf" / "paper", ROOT / "conf" / "sweeps"
# words that do not make another run of the study
OF_EACH_RUN = {*FREE, "seed", "scale", "fidelity", "hydra", "--config-dir"}


def show(args: argparse.Namespace) -> None:
    """Print one table, and draw its figure, from the runs of outputs/ and the archive."""
    paper = load(PAPERS / f"{args.paper}.yaml")
    table = chosen(args.table, paper)
    if table.scales == [COMPUTED]:
        runs, scale = computed.frame(), COMPUTED
    else:
        scale = args.scale
        found = archive.finished(args.outputs, scale, table.experiments())
        stored = pd.read_parquet(args.archive_file)
        runs = archive.replaced(stored, [archive.run_frame(run_dir) for run_dir in found])
        print(f"{len(found)} runs of {args.outputs}; any others are of {args.archive_file}")
        for run_dir in found if args.archive else []:
            refuse_others(run_dir)
        if args.archive and found:
            archive.write(runs, args.archive_file)
            print("archived; `make report` brings the pages up to date")
    numbers = Numbers(table, archive.by_experiment(runs), scale)
    print(f"\n{table.title}\n\n{markdown_of(numbers)}")
    if table.figure is not None:
        picture = args.outputs / "figures" / f"{args.paper}_{args.table}_{scale}.png"
        draw_table(numbers, picture)
        print(f"\nFigure: {picture}")


def refuse_others(run_dir: Path) -> None:
    """ValueError unless a finished run is one of the study: committed code, its sweep's words."""
    record = read_record(run_dir) or {}
    if not record.get("clean"):
        raise ValueError(f"--archive: the code of {run_dir} differed from the last commit")
    paper, _, run = record["experiment"].partition("/")
    runs = yaml.safe_load((SWEEPS / f"{paper}.yaml").read_text(encoding="utf-8"))["runs"]
    typed = (run_dir / OVERRIDES).read_text(encoding="utf-8").splitlines()
    own = {word for word in typed if key_of(word).partition(".")[0] not in OF_EACH_RUN}
    if other := own ^ {*words_of(runs, run, record["scale"])}:
        raise ValueError(f"--archive: {run_dir} and its sweep differ in {', '.join(sorted(other))}")


def chosen(name: str, paper: Paper) -> Table:
    """A table of a paper; ValueError names those that there are."""
    if name not in paper.tables:
        known = ", ".join(paper.tables)
        raise ValueError(f"table {name} must be one of {known}")
    return paper.tables[name]


def everything(args: argparse.Namespace) -> None:
    """Write the numbers and figures of every page."""
    runs = archive.by_experiment(pd.read_parquet(args.archive_file))
    runs |= archive.by_experiment(computed.frame())
    for path in sorted(PAPERS.glob("*.yaml")):
        page = args.docs / f"{path.stem}.md"
        for changed in write_page(page, load(path), runs):
            print(f"written: {changed}")
    print("every page holds the numbers of the archive")


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
