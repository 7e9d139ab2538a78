"""Draw the curves of any runs side by side.

    python scripts/curves.py outputs/runs/small/paper/cory/imdb_ppo -o curves.png
    python scripts/curves.py outputs/quickstart/*_seed0 -o curves.png

A folder stands for every run below it; runs of one experiment and scale make one line per agent,
with a band of one standard deviation over its runs.
"""

import argparse
import json
import sys
from pathlib import Path

from omegaconf import OmegaConf

from cory.report.figures.curves import draw_curves
from cory.runs.run_dir import METRICS, RECORD, SETTINGS


def find_runs(folder: Path) -> list[Path]:
    """`folder` itself when it is a run directory, else the run directories below it."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a directory")
    runs = sorted(path.parent for path in folder.rglob(SETTINGS))
    if not runs:
        raise ValueError(f"{folder} holds no run: there is no {SETTINGS} in it or below it")
    return runs


def group_of(run_dir: Path, unfinished: bool) -> str:
    """Experiment of a run, and its scale unless that is the paper's."""
    record = run_dir / RECORD
    if record.exists():
        settings = json.loads(record.read_text(encoding="utf-8"))
    elif unfinished:
        settings = OmegaConf.load(run_dir / SETTINGS)
    else:
        raise ValueError(f"{run_dir} is unfinished (no {RECORD}); --unfinished draws it anyway")
    if not (run_dir / METRICS).exists():
        raise ValueError(f"{run_dir} holds no {METRICS}")
    experiment, scale = settings["experiment"], settings["scale"]
    return str(experiment) if scale == "paper" else f"{experiment} ({scale})"


def group_runs(folders: list[Path], unfinished: bool) -> dict[str, list[Path]]:
    """Group -> its run directories, each once."""
    groups: dict[str, list[Path]] = {}
    for run_dir in dict.fromkeys(run for folder in folders for run in find_runs(folder)):
        groups.setdefault(group_of(run_dir, unfinished), []).append(run_dir)
    return groups


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    parser.add_argument("-o", "--output", type=Path, default=Path("curves.png"))
    parser.add_argument("--unfinished", action="store_true", help="draw unfinished runs, too")
    args = parser.parse_args()
    try:
        groups = group_runs(args.run_dirs, args.unfinished)
        draw_curves(groups, args.output)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    for name, run_dirs in groups.items():
        print(f"{name}: {len(run_dirs)} run{'s' if len(run_dirs) > 1 else ''}")
    print(args.output)


if __name__ == "__main__":
    main()
