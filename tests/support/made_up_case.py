"""`python -m tests.support.made_up_case <folder>`: a case of the check that loads nothing.

The words of the case say what happens in it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

MEASURED = {
    "seconds": {"rollout": 1.0, "reward": 0.5, "annotate": 0.25, "update": 2.0, "iteration": 3.75},
    "sampled_tokens_per_s": 100.0,
    "operations_per_s": 2e13,
    "memory": {"measured": 3 * 2**30, "estimated": 4 * 2**30},
    "parameters": 1_000_000_000,
    "products": "fp32",
    "precision": "fp32",
    "quantisation": "none",
    "layers": 4,
}


def numbers(logprob: float = -2.0) -> dict[str, Any]:
    """Of a model with two tokens."""
    before = {"logprobs": [logprob, -1.0], "kl": [0.0, 0.0], "entropy": [1.0, 1.0],
              "values": [0.5, 0.5]}  # fmt: skip
    after = {"logprobs": [-1.5, -1.5], "kl": [0.1, 0.2], "entropy": [1.0, 1.0],
             "values": [0.6, 0.4]}  # fmt: skip
    return {
        "before": before,
        "after": after,
        "greedy": [[1, 2, 3]],
        "margins": [[1.0, 1e-6, 1.0]],
        "metrics": {"ppo/gradient_norm/agent_0": 2.0, "ppo/skipped_steps/agent_0": 0.0},
    }


def main() -> None:
    folder = Path(sys.argv[1])
    order = json.loads((folder / "order.json").read_text())
    words = order["overrides"]
    with (folder / "starts").open("a") as starts:
        starts.write("started\n")
    if "hang" in words:
        time.sleep(60)
    if "die" in words:
        os._exit(3)
    result: dict[str, Any] = MEASURED
    if "break" in words:
        result = {"error": "RuntimeError: broken"}
    elif "too-large" in words:
        result = {"obstacle": "it needs more memory"}
    else:
        found = numbers(-2.5 if "wrong" in words else -2)
        found["metrics"]["ppo/skipped_steps/agent_0"] = float("overflow" in words)
        (folder / "numbers.json").write_text(json.dumps(found))
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
