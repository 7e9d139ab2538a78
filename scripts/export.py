"""Merge the adapters of a finished run into their base, and upload agents to the Hugging Face hub.

    python scripts/export.py RUN_DIR --merge                      to RUN_DIR/merged/<agent>
    python scripts/export.py RUN_DIR --merge --agent agent_1 --precision fp32
    HF_TOKEN=... python scripts/export.py RUN_DIR --push-to-hub NAME [--merge] [--public]

RUN_DIR is a run, or its agents at another time (RUN_DIR/best, RUN_DIR/iterations/2). A merged
folder is a normal model of transformers. NAME is user/model; of several agents each is uploaded as
NAME-<agent>. Repositories are private without --public.
"""

import argparse
import os
import sys
from pathlib import Path

import torch
import transformers

# else DeepSpeed guesses while it is imported, and says so
os.environ.setdefault("DS_ACCELERATOR", "cuda" if torch.cuda.is_available() else "cpu")

from cory.config import ConfigError, require
from cory.inference import agent_folders, is_adapter, merge, push

MERGED = "merged"  # folder of the run directory


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN_DIR")
    parser.add_argument("--agent", action="append", metavar="NAME", help="only this one; again: ..")
    parser.add_argument("--merge", action="store_true", help="add adapters to their base's weights")
    parser.add_argument("--precision", help="of merged weights: fp32, bf16, fp16; else the run's")
    parser.add_argument("--push-to-hub", metavar="NAME", help="upload as user/model")
    parser.add_argument("--public", action="store_true", help="what is uploaded is for everybody")
    return parser.parse_args()


def export(args: argparse.Namespace) -> None:
    """Merge, upload, or both."""
    require(args.merge or args.push_to_hub is not None, "nothing to do: --merge or --push-to-hub")
    require(args.precision is None or args.merge, "--precision needs --merge")
    require(not args.public or args.push_to_hub is not None, "--public needs --push-to-hub")
    folders = agent_folders(args.run, args.agent)
    for agent in folders:
        folder = agent
        if args.merge and (is_adapter(agent) or args.push_to_hub is None):
            folder = args.run / MERGED / agent.name
            merge(args.run, agent, folder, args.precision)
            print(f"{folder}: {agent.name} merged")
        if args.push_to_hub is not None:
            name = args.push_to_hub if len(folders) == 1 else f"{args.push_to_hub}-{agent.name}"
            print(f"{push(folder, name, args.public)}: {agent.name} uploaded")


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
