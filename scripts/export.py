"""Merge the adapters of a finished run into their base.

    python scripts/export.py RUN_DIR                              to RUN_DIR/merged/<agent>
    python scripts/export.py RUN_DIR --agent agent_1 --precision fp32

RUN_DIR is a run, or its agents at another time (RUN_DIR/best, RUN_DIR/iterations/2). A merged
folder is a normal model of transformers, which `hf upload NAME FOLDER` uploads.
"""

import argparse
import os
import sys
from pathlib import Path

import torch
import transformers

# else DeepSpeed guesses while it is imported, and says so
os.environ.setdefault("DS_ACCELERATOR", "cuda" if torch.cuda.is_available() else "cpu")

from cory.config import ConfigError
from cory.inference import agent_folders, merge

MERGED = "merged"  # folder of the run directory


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN_DIR")
    parser.add_argument("--agent", action="append", metavar="NAME", help="only this one; again: ..")
    parser.add_argument("--precision", help="of merged weights: fp32, bf16, fp16; else the run's")
    return parser.parse_args()


def export(args: argparse.Namespace) -> None:
    """Merge every agent, or those that are named."""
    for agent in agent_folders(args.run, args.agent):
        folder = args.run / MERGED / agent.name
        if args.agent is None and folder.exists():
            print(f"{folder} is there already")
            continue
        merge(args.run, agent, folder, args.precision)
        print(f"{folder}: {agent.name} merged")


def main() -> int:
    """The command."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        export(arguments())
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
