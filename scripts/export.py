"""Merge the adapters of a finished run into their base, and upload agents to the Hugging Face hub.

    python scripts/export.py RUN_DIR --merge                      to RUN_DIR/merged/<agent>
    python scripts/export.py RUN_DIR --merge --agent agent_1 --out FOLDER --precision fp32
    HF_TOKEN=... python scripts/export.py RUN_DIR --push-to-hub NAME [--merge] [--public]

RUN_DIR is a run, or its agents at another time (RUN_DIR/best, RUN_DIR/iterations/2). A merged
folder is a normal model of transformers; its log-probabilities are compared with the adapter's.
NAME is user/model; of several agents each is uploaded as NAME-<agent>. Repositories are private
without --public. The token is read from HF_TOKEN and never written down.
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
from cory.inference.hub import names_for, push, require_loadable, token_of
from cory.inference.merging import agents_of, is_adapter, merge

MERGED = "merged"  # folder of the run directory


def asked() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN_DIR")
    parser.add_argument("--agent", action="append", metavar="NAME", help="only this one; again: ..")
    parser.add_argument("--merge", action="store_true", help="add adapters to their base's weights")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="of --merge with one agent")
    parser.add_argument("--precision", help="of merged weights: fp32, bf16, fp16; else the run's")
    parser.add_argument("--push-to-hub", metavar="NAME", help="upload as user/model")
    parser.add_argument("--public", action="store_true", help="what is uploaded is for everybody")
    return parser.parse_args()


def export(args: argparse.Namespace) -> None:
    """Merge, upload, or both."""
    require(args.merge or args.push_to_hub is not None, "nothing to do: --merge or --push-to-hub")
    require(args.precision is None or args.merge, "--precision needs --merge")
    require(not args.public or args.push_to_hub is not None, "--public needs --push-to-hub")
    folders = agents_of(args.run, args.agent)
    require(
        args.out is None or (args.merge and len(folders) == 1),
        "--out needs --merge and one agent: add --agent NAME",
    )
    names: dict[str, str] = {}
    if args.push_to_hub is not None:  # all that can be refused comes before hours of work
        names = names_for(args.push_to_hub, [folder.name for folder in folders])
        token_of()
        for folder in folders:
            if not args.merge:
                require_loadable(folder)
    for folder in folders:
        ready = folder
        if args.merge and (is_adapter(folder) or not names):
            ready = args.out or args.run / MERGED / folder.name
            found = merge(args.run, folder, ready, args.precision)
            print(
                f"{ready}: log-probabilities at most {found.merged:.2g} nats from the adapter's; "
                f"the adapter changed them by up to {found.trained:.2g}"
            )
        if names:
            print(f"{push(ready, names[folder.name], args.public)}: {folder.name} uploaded")


def main() -> int:
    """The command."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    args = asked()
    try:
        export(args)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
