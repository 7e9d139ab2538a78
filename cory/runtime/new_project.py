"""The command `cory-new`: a folder to start from, with prompts and a reward, or a team."""

import argparse
import shutil
import sys
from pathlib import Path

ASSETS = Path(__file__).resolve().parents[1] / "assets"


def make_project(folder: Path, template: str = "project") -> list[Path]:
    """Copy a template, project or team, into a new or empty folder; the files, relative to it.

    Raises ValueError where the folder holds something, or is a file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there already; name a new or an empty folder")
    # an installer compiles rewards.py, too
    shutil.copytree(
        ASSETS / template, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
    )
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
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    for file in files:
        print(folder / file)
    print(f"\ncd {folder}; README.md says what to type")


if __name__ == "__main__":
    main()
