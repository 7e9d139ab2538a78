"""Check that every way of running works on this machine's GPU, and how fast it is.

    python scripts/check_gpu.py                   # about ten minutes; nothing is downloaded
    python scripts/check_gpu.py --device cpu      # tries the check itself, on a CPU
    python scripts/check_gpu.py --only nf4 tf32   # cases whose names hold one of these words
    python scripts/check_gpu.py --at-a-time 8     # small cases side by side

Writes report.md and results.json to outputs/check_gpu/<device>/. Interrupted, the same command goes
on where it was; --again starts anew. Exit code 1 where a case failed.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

import torch
import transformers

# else DeepSpeed guesses while it is imported, and says so
os.environ.setdefault("DS_ACCELERATOR", "cuda" if torch.cuda.is_available() else "cpu")

from cory.config import ConfigError
from cory.gpu_check.cases import Case, in_order
from cory.gpu_check.extrapolate import paper_hours
from cory.gpu_check.machine import this_machine
from cory.gpu_check.page import page
from cory.gpu_check.runner import FAILED, MEASURED, NOT_RUN, PASSED, RESULTS, Runner
from cory.runs.own_folder import require_own_folder
from cory.runs.provenance import git
from cory.runs.run_dir import write_whole
from cory.train import compose

REPORT = "report.md"


def chosen(words: list[str]) -> list[Case]:
    """Cases whose names hold one of the words, and what they are compared with; all without."""
    cases = in_order()
    if not words:
        return cases
    found = [case for case in cases if any(word in case.name for word in words)]
    needed = {case.name for case in found} | {case.reference for case in found}
    return [case for case in cases if case.name in needed]


def main() -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--minutes", type=float, default=10, help="after which no case begins")
    parser.add_argument("--again", action="store_true", help="also cases that are finished")
    parser.add_argument("--at-a-time", type=int, default=1, help="small cases side by side")
    parser.add_argument("--only", nargs="+", default=[], help="words in the names of cases")
    parser.add_argument("--outputs", type=Path, default=Path("outputs/check_gpu"))
    args = parser.parse_args()
    began = time.monotonic()
    if args.at_a_time < 1:
        parser.error(f"--at-a-time: at least 1 case runs at a time, not {args.at_a_time}")
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # also into a file
    transformers.logging.disable_progress_bar()
    try:
        machine = this_machine(args.device)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    cases = chosen(args.only)
    if not cases:
        print(f"error: no case is named so: {' '.join(args.only)}", file=sys.stderr)
        return 1
    folder = args.outputs / args.device
    try:
        require_own_folder(folder, (RESULTS, "cases"), f"--outputs: {folder}")
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if args.again:
        (folder / RESULTS).unlink(missing_ok=True)
    print(
        f"{len(cases)} cases on {machine.name}, at most {args.minutes:g} min; {folder}", flush=True
    )
    with tempfile.TemporaryDirectory(prefix="cory_check_") as models:
        deadline = began + 60 * args.minutes
        runner = Runner(folder, Path(models), machine, deadline, at_a_time=args.at_a_time)
        try:
            results = runner.run(cases)
        except KeyboardInterrupt:
            print("interrupted; the same command goes on with the case that was running")
            return 130
    hours = paper_hours(results, lambda experiment: compose(f"experiment={experiment}"))
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    commit = git("rev-parse", "--short", "HEAD")
    write_whole(folder / REPORT, page(machine, cases, results, hours, commit, date, args.at_a_time))
    stored = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
    stored |= {"hours": [vars(row) for row in hours], "commit": commit, "date": date}
    write_whole(folder / RESULTS, json.dumps(stored, indent=1) + "\n")
    counts = {
        status: sum(result["status"] == status for result in results.values())
        for status in (PASSED, MEASURED, FAILED, NOT_RUN)
    }
    print(
        ", ".join(f"{count} {status}" for status, count in counts.items()) + f"; {folder / REPORT}"
    )
    return 1 if counts[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
