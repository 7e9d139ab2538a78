"""The command `cory-new`: a folder to start from, with prompts and a reward, or a team."""

import argparse
import shutil
import sys
from pathlib import Path

ASSETS = Path(__file__).resolve().parents[1] / "assets"


def make_project(folder: Path, template: str = "project") -> list[Path]:
    """Copy a template, project or team, into a new folder; the files, relative to it.

    Raises OSError where the folder is there already.
    """
    # an installer compiles rewards.py, too
    shutil.copytree(ASSETS / template, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder to make")
    parser.add_argument("--team", action="store_true", help="with agents that play episodes")
    args = parser.parse_args()
    folder = args.folder
    try:
        files = make_project(folder, "team" if args.team else "project")
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    for file in files:
        print(folder / file)
    print(f"\ncd {folder}; README.md says what to type")


if __name__ == "__main__":
    main()
