"""How far agents of CORY are from the reference, with and without the answers that they read.

    python scripts/observer_kl.py RUN_DIR
    python scripts/observer_kl.py RUN_DIR --prompts 128 --seed 1

Every agent answers held-out prompts of the run's task in every role. A line for each gives the mean
log-ratio of its responses, in nats: to the reference that reads the same prompt (the KL that is
penalised, by k1), and to the reference that reads the query alone.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np
import torch

# else DeepSpeed guesses while it is imported, and says so
os.environ.setdefault("DS_ACCELERATOR", "cuda" if torch.cuda.is_available() else "cpu")

from cory.config import ConfigError, builder
from cory.config.checks import require_at_least
from cory.inference.agents import load_agents
from cory.inference.observer_kl import distances


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN_DIR")
    parser.add_argument("--prompts", type=int, default=64, help="held-out prompts (64)")
    parser.add_argument("--seed", type=int, default=0, help="of the responses (0)")
    args = parser.parse_args()
    try:
        require_at_least("--prompts", args.prompts, 1)
        require_at_least("--seed", args.seed, 0)
        agents = load_agents(args.run)
        config, tokenizer = agents.config, agents.teams["model"].tokenizer
        stream = np.random.default_rng(config.seed)  # of the training prompts, which nobody asks
        task = builder("task", config.task.name)(config.task, tokenizer, stream)
        print("agent     role        reads the same   reads the query alone")
        for found in distances(agents, task.held_out(args.prompts, "test"), args.seed):
            print(f"{found.agent:9} {found.role:11} {found.read:14.1f} {found.bare:23.1f}")
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
