"""Seconds per phase and tokens per second of one PPO iteration.

    python scripts/benchmark.py                                    # tiny, 64 prompts of 6 tokens
    python scripts/benchmark.py --iterations 20 model=tiny_2x      # any overrides of cory.train

By default: 64 prompts of 6 tokens, up to 16 new tokens, 4 epochs, one minibatch, exact KL.
Prints medians over the iterations after one warm-up.
"""

import argparse
import os
import statistics

import torch
import transformers
from hydra import compose, initialize_config_dir

from cory.algorithms import ALGORITHMS
from cory.config import parse_config
from cory.models.engine import start_process_group, stop_process_group
from cory.runs.provenance import device_name
from cory.runtime.worker import build_parts
from cory.train import CONF

SETTING = [
    "algorithm=ppo",
    "algorithm.prompts_per_iteration=64",
    "algorithm.minibatch_size=64",
    "algorithm.sampling.min_response_tokens=16",
    "algorithm.sampling.max_response_tokens=16",
    "task.min_prompt_tokens=6",
    "task.max_prompt_tokens=6",
]
PHASES = ("rollout", "reward", "annotate", "update", "iteration")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", help="settings of cory.train, as key=value")
    parser.add_argument("--iterations", type=int, default=10, help="counted iterations")
    args = parser.parse_args()
    transformers.logging.disable_progress_bar()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", [*SETTING, *args.overrides])
    # these read Hydra's own state, which compose does not have; nothing is written
    cfg.merge_with({"run_dir": "", "experiment": "benchmark", "sweep": "adhoc", "scale": "paper"})
    config = parse_config(cfg)
    parts = build_parts(config)
    start_process_group(config.hardware.device)
    algorithm = ALGORITHMS[config.algorithm.name](config.algorithm, parts)
    seconds: dict[str, list[float]] = {phase: [] for phase in PHASES}
    tokens: list[float] = []
    for iteration in range(args.iterations + 1):
        metrics = algorithm.step(iteration)
        if iteration == 0:
            continue
        for phase in PHASES:
            seconds[phase].append(metrics[f"time/{phase}_s"])
        tokens.append(
            config.algorithm.prompts_per_iteration
            * sum(v for k, v in metrics.items() if k.startswith("rollout/response_tokens/"))
        )
    median = {phase: statistics.median(values) for phase, values in seconds.items()}
    print(f"{device_name(config.hardware.device)}, {torch.get_num_threads()} threads; ", end="")
    print(f"model {config.model.name}, algorithm {config.algorithm.name}; ", end="")
    print(f"medians of {args.iterations} iterations")
    for phase, value in median.items():
        print(f"  {phase:<10}{value:8.3f} s {100 * value / median['iteration']:5.0f} %")
    print(f"  generated {statistics.median(tokens) / median['rollout']:.0f} tokens/s", end="")
    print(f", trained {statistics.median(tokens) / median['iteration']:.0f} tokens/s overall")
    stop_process_group()
    os._exit(0)


if __name__ == "__main__":
    main()
