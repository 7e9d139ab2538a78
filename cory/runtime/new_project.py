"""The command `cory-new`: a folder to start from, with prompts and a reward, or a team."""

import argparse
import shutil
import sys
from pathlib import Path

ASSETS = Path(__file__).resolve().parents[1] / "assets"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder to make")
    parser.add_argument("--team", action="store_true", help="with agents that play episodes")
    args = parser.parse_args()
    template = ASSETS / ("team" if args.team else "project")
    try:
        # an installer compiles rewards.py, too
        shutil.copytree(template, args.folder, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:  # as where the folder is there already
        sys.exit(f"error: {error}")
    for file in sorted(path for path in args.folder.rglob("*") if path.is_file()):
        print(file)
    print(f"\ncd {args.folder}; README.md says what to type")
