"""How long an iteration of each method takes, and how near that is to what the machine can do.

    python scripts/benchmark.py                                # PPO, CORY, a debate, games, MAFT
    python scripts/benchmark.py --only ppo,cory model=tiny_2x  # further settings of cory.train
    python scripts/benchmark.py --only update                  # PPO at SmolLM2-135M's size
    python scripts/benchmark.py --json benchmark.json          # ... and keep everything

For each: seconds per phase (medians of the iterations after a warm-up), tokens that are generated a
second, operations counted from shapes in a further iteration, the share of the machine's rate of
matrix products that they amount to, and the peak memory of the process. In float32 and in mixed
precision, which is compared with the rate in bfloat16; both take their iterations in turn.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers

from cory.algorithms import ALGORITHMS
from cory.config import parse_config
from cory.episode import Metrics
from cory.memory.operations import OPERATIONS, weights_of
from cory.models.engine import start_process_group, stop_process_group
from cory.models.loading import load_tokenizer
from cory.models.policy import Policy
from cory.models.ppo_policy import PPOPolicy
from cory.performance.alternation import Answer, Worker, in_turn, serve
from cory.performance.machine import cpu_model, product_rates
from cory.performance.module_times import seconds_by_part
from cory.performance.operations import operations_by_phase
from cory.runs.provenance import device_name, git, memory_used, versions
from cory.runtime.worker import build_parts
from cory.train import compose
from cory.trainers.ppo import PPOTrainer

PPO = [
    "algorithm.prompts_per_iteration=64",
    "algorithm.minibatch_size=64",
    "algorithm.epochs=4",
    "algorithm.kl_estimator=full",
    "algorithm.sampling.min_response_tokens=16",
    "algorithm.sampling.max_response_tokens=16",
    "task.min_prompt_tokens=6",
    "task.max_prompt_tokens=6",
]
SMALL = ["scale=small", "init_from=null"]
WORKLOADS = {  # name -> settings; all with models of 0.6 to 2.6 M parameters, but for the last one
    # 64 prompts of 6 tokens, 16 new ones, 4 passes, exact KL
    "ppo": ["algorithm=ppo", *PPO],
    # the same for two agents, of which one sees the other's answer
    "cory": ["algorithm=cory", *PPO],
    # MAPoRL: 64 questions, 2 debaters, 3 rounds, of which the last two learn
    "debate": ["experiment=maporl/gsm8k_maporl_exact", *SMALL],
    # SPAG: 100 games of 4 turns against itself, then one pass over the winners' utterances
    "games": ["experiment=spag/llama2_spag_1", *SMALL, "algorithm.opponents={}",
              "algorithm.iterations_per_epoch=1"],
    # 100 debates of 3 agents and 2 rounds; then 3 generation and 3 critic agents are fine-tuned
    "maft": ["experiment=maft/phi3_arithmetic_maft", *SMALL,
             "algorithm.prompts_per_iteration=100"],
    # one optimiser step of PPO on 64 x (8 + 16) tokens, random weights of SmolLM2-135M's shape
    "update": ["algorithm=ppo", *PPO, "algorithm.epochs=1", "task.min_prompt_tokens=8",
               "task.max_prompt_tokens=8"],
}  # fmt: skip
CACHE = Path(__file__).resolve().parents[1] / "outputs" / "benchmark" / "smollm2"
DEFAULT = [name for name in WORKLOADS if name != "update"]
PRECISIONS = {"fp32": [], "mixed": ["model.compute_precision=bf16"]}
RATE_OF = {"fp32": "fp32", "mixed": "bf16"}  # what a precision is compared with
SQUARE = "2048 x 2048 x 2048"
SHAPES = {  # of products: rows, inner width, columns
    SQUARE: (2048, 2048, 2048),
    "MLP of tiny, 64 x 21 tokens": (64 * 21, 192, 768),
    "head of tiny, 64 x 16 tokens": (64 * 16, 192, 4096),
    "MLP of SmolLM2-135M, 64 x 23 tokens": (64 * 23, 576, 1536),
    "head of SmolLM2-135M, 64 x 16 tokens": (64 * 16, 576, 49152),
}
SMOLLM2 = {  # its config.json
    "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152,
    "max_position_embeddings": 8192, "rope_theta": 100000.0, "tie_word_embeddings": True,
}  # fmt: skip


class Workload:
    """The algorithm of a workload, and what its iterations are measured by."""

    def __init__(self, settings: list[str], folder: Path) -> None:
        """folder: takes what iterations write"""
        self.config = parse_config(compose(*settings, f"run_dir={folder / 'run'}"))
        parts = build_parts(self.config)
        start_process_group(self.config.hardware.device)
        self.algorithm = ALGORITHMS[self.config.algorithm.name](self.config.algorithm, parts)
        self.iteration = 0

    def step(self) -> Answer:
        """Seconds of each phase of one more iteration, and tokens that were generated in it."""
        tokens = 0
        respond = Policy.respond

        def counting(*args: Any) -> Any:
            nonlocal tokens
            rows = respond(*args)
            tokens += sum(len(response.ids) for _, response in rows)
            return rows

        with patch.object(Policy, "respond", counting):
            metrics = self.algorithm.step(self.iteration)
        self.iteration += 1
        phases = {
            name.removeprefix("time/").removesuffix("_s"): seconds
            for name, seconds in metrics.items()
            if name.startswith("time/")
        }
        return {"seconds": phases, "tokens": tokens}

    def measure(self) -> Answer:
        """Peak memory so far; then operations by phase and, of PPO, an update's time by part."""
        answer: Answer = {"peak_bytes": memory_used(self.config.hardware.device)}
        with operations_by_phase() as found:
            self.step()
        answer["operations"] = {phase.removesuffix("_s"): n for phase, n in found.items()}
        answer["estimated_operations"] = self.estimate()
        if isinstance(self.algorithm, PPOTrainer):
            answer["update_by_part"] = self.update_by_part()
        return answer

    def update_by_part(self) -> dict[str, float]:
        """Seconds of an iteration's updates in each part of the model and of the engine."""
        sums: dict[str, float] = {}
        update = PPOTrainer.update

        def profiled(trainer: PPOTrainer, agent: PPOPolicy, *batch: Any) -> Metrics:
            metrics: Metrics = {}

            def work() -> None:
                metrics.update(update(trainer, agent, *batch))

            engine: Any = agent.engine
            named = {
                "gradients, averaged over processes": (engine._engine, "allreduce_gradients"),
                "norm of the gradient": (engine, "_gradient_norm"),
            }
            for part, seconds in seconds_by_part(agent.model, work, named).items():
                sums[part] = sums.get(part, 0.0) + seconds
            return metrics

        with patch.object(PPOTrainer, "update", profiled):
            self.step()
        return sums

    def estimate(self) -> float:
        """What `cory.memory.operations` expects of one iteration, without evaluations."""
        own = self.config.algorithm
        counted = next(of for kind, of in OPERATIONS.items() if isinstance(own, kind))
        weights = weights_of(self.config)

        def whole(iterations: int) -> float:
            algorithm = replace(own, iterations=iterations)
            return counted(replace(self.config, algorithm=algorithm), weights, {})[0]

        return whole(2) - whole(1)


def work(settings: list[str]) -> None:
    """A worker of `alternation`: builds the algorithm, then takes a step for each line."""
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        workload = Workload(settings, Path(folder))
        serve({"step": workload.step, "measure": workload.measure})
    stop_process_group()
    os._exit(0)  # threads of the process group may abort a normal exit


def command(settings: list[str]) -> list[str]:
    """The command of a worker that runs these settings."""
    return [sys.executable, __file__, "--worker", *settings]


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
    settings = [*WORKLOADS[name], f"algorithm.iterations={iterations + 4}", *overrides]
    if name == "update":
        settings.append(f"model.path={random_smollm2(CACHE)}")
    workers = {
        precision: Worker(f"{name} in {precision}", command([*settings, *more]), threads)
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
    print(f"{name}, {precision}: {tokens / seconds['rollout']:.0f} tokens/s generated, ", end="")
    print(f"{tokens / whole:.0f} over all; peak {found['peak_bytes'] / 2**30:.2f} GiB")
    for phase, value in seconds.items():
        count = operations.get(phase, 0.0) if phase != "iteration" else sum(operations.values())
        print(f"  {phase:<10}{value:8.3f} s {value / whole:5.0%}", end="")
        print(f"{count / 1e9:10.1f} GFLOP {count / value / rate:5.0%} of the rate")
    parts = found.get("update_by_part", {})
    for part, value in sorted(parts.items(), key=lambda item: -item[1]):
        print(f"    {part:<36}{value / sum(parts.values()):5.0%} of an update")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", help="settings of cory.train, as key=value")
    parser.add_argument("--only", type=chosen, default=DEFAULT, help=f"of {', '.join(WORKLOADS)}")
    parser.add_argument("--iterations", type=int, default=5, help="counted iterations")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of matrix products")
    parser.add_argument("--json", type=Path, help="file that takes everything")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.overrides)
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
    print(f"medians of {args.iterations} iterations. Matrix products, GFLOP/s:")
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
    """Names of workloads, from `ppo,cory`."""
    names = words.split(",")
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(WORKLOADS)}")
    return names


if __name__ == "__main__":
    main()
