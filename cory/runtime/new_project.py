"""The command `cory-new`: a folder to start from, with prompts and a reward of one's own."""

import argparse
import shutil
import sys
from pathlib import Path

TEMPLATE = Path(__file__).resolve().parents[1] / "assets" / "project"


def make_project(folder: Path) -> list[Path]:
    """Copy the template into a folder that is new or empty; the files, relative to it.

    Raises ValueError where the folder holds something, or is a file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there already; name a new or an empty folder")
    # an installer compiles rewards.py, too
    shutil.copytree(
        TEMPLATE, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
    )
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder to make")
    folder = parser.parse_args().folder
    try:
        files = make_project(folder)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    for file in files:
        print(folder / file)
    print(f"\ncd {folder}; README.md says what to type")


if __name__ == "__main__":
    main()
