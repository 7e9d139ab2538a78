"""How long an iteration of each method takes, and how near that is to what the machine can do.

    python scripts/benchmark.py                                # PPO, CORY, a debate, games, MAFT
    python scripts/benchmark.py --only ppo,cory model=tiny_2x  # further settings of cory.train
    python scripts/benchmark.py --only update                  # PPO at SmolLM2-135M's size
    python scripts/benchmark.py --json benchmark.json          # ... and keep everything

For each: seconds per phase (medians of the iterations after a warm-up), tokens that are generated a
second, operations counted from shapes in a further iteration, the share of the machine's rate of
matrix products that they amount to, how long the same products take by themselves (the floor), and
the peak memory of the process. In float32 and in mixed
precision, which is compared with the rate in bfloat16; both take their iterations in turn.
"""

import argparse
import json
import os
import statistics
import sys
from datetime import date
from functools import partial
from pathlib import Path

import torch
import transformers

from cory.config import ConfigError, parse_config
from cory.models.loading import load_tokenizer
from cory.performance.alternation import Answer, Worker, in_turn
from cory.performance.machine import RATE_OF, SHAPES, SQUARE, cpu_model, product_rates
from cory.performance.workloads import PRECISIONS, WORKLOADS, command
from cory.runs.provenance import device_name, git, versions
from cory.train import compose_or_refuse

CACHE = Path(__file__).resolve().parents[1] / "outputs" / "benchmark" / "smollm2"
DEFAULT = [name for name in WORKLOADS if name != "update"]
LONG = {"update": 2}  # counted iterations of a workload that takes long, at most
SMOLLM2 = {  # its config.json
    "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152,
    "max_position_embeddings": 8192, "rope_theta": 100000.0, "tie_word_embeddings": True,
}  # fmt: skip


def random_smollm2(folder: Path) -> Path:
    """A folder with random weights of SmolLM2-135M's shape, and the tokens of `tiny`."""
    if not (folder / "config.json").exists():
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMOLLM2))
        load_tokenizer("asset:tiny", "model.path", False).save_pretrained(folder)
        model.save_pretrained(folder)
    return folder


def measure(name: str, overrides: list[str], iterations: int, threads: int) -> dict[str, Answer]:
    """A workload in every precision, in turn: precision -> what was measured."""
    iterations = min(iterations, LONG.get(name, iterations))
    settings = [*WORKLOADS[name], f"algorithm.iterations={iterations + 4}", *overrides]
    # a path of this machine, which is not kept with the numbers
    model = [f"model.path={random_smollm2(CACHE)}"] if name == "update" else []
    workers = {
        precision: Worker(f"{name} in {precision}", command([*settings, *model, *more]), threads)
        for precision, more in PRECISIONS.items()
    }
    for worker in workers.values():
        worker.answer()  # ready
        worker.ask("step")  # the warm-up
    steps = in_turn({p: partial(w.ask, "step") for p, w in workers.items()}, iterations)
    found = {}
    for precision, worker in workers.items():
        each = steps[precision]
        found[precision] = worker.ask("measure") | {
            "settings": [*settings, *PRECISIONS[precision]],
            "iterations": iterations,
            "tokens": statistics.median(step["tokens"] for step in each),
            "seconds": {
                phase: statistics.median(step["seconds"][phase] for step in each)
                for phase in each[0]["seconds"]
            },
        }
        worker.close()
    return found


def show(name: str, precision: str, found: Answer, rate: float) -> None:
    """Print what was measured of a workload.

    rate: operations per second of products in its precision
    """
    seconds, operations = found["seconds"], found["operations"]
    whole, tokens = seconds["iteration"], found["tokens"]
    print(f"{name}, {precision}, medians of {found['iterations']} iterations: ", end="")
    print(f"{tokens / seconds['rollout']:.0f} tokens/s generated, ", end="")
    print(f"{tokens / whole:.0f} over all; peak {found['peak_bytes'] / 2**30:.2f} GiB")
    for phase, value in seconds.items():
        count = operations.get(phase, 0.0) if phase != "iteration" else sum(operations.values())
        print(f"  {phase:<10}{value:8.3f} s {value / whole:5.0%}", end="")
        print(f"{count / 1e9:10.1f} GFLOP {count / value / rate:5.0%} of the rate", end="")
        floor, calls = (
            sum(of.values()) if phase == "iteration" else of.get(phase, 0)
            for of in (found["products_alone"], found["torch_operations"])
        )
        print(f"; its products alone {floor:.3f} s; {calls} operations of torch")
    parts = found.get("update_by_part", {})
    for part, value in sorted(parts.items(), key=lambda item: -item[1]):
        print(f"    {part:<36}{value / sum(parts.values()):5.0%} of an update")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", help="settings of cory.train, as key=value")
    parser.add_argument(
        "--only", type=chosen, default=DEFAULT, help=f"of {', '.join(WORKLOADS)}, or all"
    )
    parser.add_argument("--iterations", type=int, default=5, help="counted iterations")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of matrix products")
    parser.add_argument("--json", type=Path, help="file that takes everything")
    args = parser.parse_args()
    for option in ("iterations", "threads"):
        if getattr(args, option) < 1:
            parser.error(f"--{option} must be at least 1, got {getattr(args, option)}")
    try:
        for name in args.only:
            parse_config(compose_or_refuse(*WORKLOADS[name], *args.overrides))
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    torch.set_num_threads(args.threads)
    rates = product_rates(SHAPES, "cpu")
    found: dict[str, dict[str, Answer]] = {}
    for name in args.only:
        found[name] = measure(name, args.overrides, args.iterations, args.threads)
    again = product_rates(SHAPES, "cpu")
    for shape, of in rates.items():
        for precision, rate in again[shape].items():
            # between the rates before and after: a machine's speed varies
            of[precision] = (of[precision] + rate) / 2
    print(
        f"{device_name('cpu')}, {args.threads} threads, {git('rev-parse', '--short', 'HEAD')}; ",
        end="",
    )
    print("matrix products, GFLOP/s:")
    for shape, of in rates.items():
        print(f"  {shape:<40}", *(f"{name} {rate / 1e9:5.0f}" for name, rate in of.items()))
    for name, by_precision in found.items():
        for precision, one in by_precision.items():
            show(name, precision, one, rates[SQUARE][RATE_OF[precision]])
    if args.json is not None:
        machine = {"device": device_name("cpu"), "cpu": cpu_model(), "threads": args.threads}
        made = {
            "commit": git("rev-parse", "HEAD"),
            "versions": versions(),
            "day": str(date.today()),
        }
        content = machine | made | {"iterations": args.iterations, "rates": rates}
        args.json.write_text(json.dumps(content | {"workloads": found}, indent=1) + "\n")


def chosen(words: str) -> list[str]:
    """Names of workloads, from `ppo,cory` or `all`."""
    names = list(WORKLOADS) if words == "all" else words.split(",")
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(WORKLOADS)}")
    return names


if __name__ == "__main__":
    main()
