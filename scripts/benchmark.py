"""Seconds of an iteration of PPO, CORY and GRPO on the shipped tiny model, and of TRL's GRPO.

    python scripts/benchmark.py                            # TRL beside ours where it is installed
    python scripts/benchmark.py --rounds 5 --iterations 10
    python scripts/benchmark.py hardware=gpu1 model.compute_precision=bf16     # of our own runs

Each takes 64 responses of 16 tokens, its prompts apart. Runs are processes that take turns, since a
machine's speed changes from minute to minute: a ratio is the median over rounds of two times of the
same round. The first iteration of each process is not counted.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

TOKENS = 16  # of a response
RESPONSES, SAMPLES = 64, 8  # of an iteration, of a prompt of GRPO
OURS = [
    f"algorithm.prompts_per_iteration={RESPONSES}",
    f"algorithm.minibatch_size={RESPONSES}",
    f"algorithm.sampling.min_response_tokens={TOKENS}",
    f"algorithm.sampling.max_response_tokens={TOKENS}",
    "task.max_prompt_tokens=8",
]
RUNNERS = {
    "ppo": ["algorithm=ppo", *OURS, "algorithm.epochs=4"],
    "cory": ["algorithm=cory", *OURS, "algorithm.epochs=4"],
    "grpo": ["algorithm=grpo", *OURS, f"algorithm.samples_per_prompt={SAMPLES}"],
    "trl": [],
}
# what a runner's time is divided by, if that ran too
BESIDE = {"cory": "ppo", "grpo": "trl"}
ANSWER = "@seconds "


def time_cory(overrides: Sequence[str], iterations: int) -> list[float]:
    """Seconds of each iteration of a run with these settings, after a first one."""
    # not in a process that only takes times together
    from cory.config import builder, parse_config  # noqa: PLC0415
    from cory.models.engine import start_process_group  # noqa: PLC0415
    from cory.runtime.hydra_setup import compose  # noqa: PLC0415
    from cory.runtime.worker import build_components, keep_freed_memory  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        config = parse_config(compose(*overrides, f"run_dir={folder}/run"))
        start_process_group(config.hardware.device)
        keep_freed_memory()
        algorithm = builder("algorithm", config.algorithm.name)(
            config.algorithm, build_components(config)
        )
        rows = [algorithm.step(iteration) for iteration in range(iterations + 1)]
    return [row["time/iteration_s"] for row in rows[1:]]


def time_trl(iterations: int) -> list[float]:
    """Seconds of each step of TRL's GRPO, after a first one; rewards are random numbers."""
    from datasets import Dataset  # noqa: PLC0415
    from transformers import TrainerCallback  # noqa: PLC0415
    from trl import GRPOConfig, GRPOTrainer  # noqa: PLC0415

    from cory.models.paths import ASSETS  # noqa: PLC0415

    seconds: list[float] = []

    class Clock(TrainerCallback):
        def on_step_begin(self, *_: object, **__: object) -> None:
            self.began = time.perf_counter()

        def on_step_end(self, *_: object, **__: object) -> None:
            seconds.append(time.perf_counter() - self.began)

    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            output_dir=folder,
            max_steps=iterations + 1,
            per_device_train_batch_size=RESPONSES,
            num_generations=SAMPLES,
            max_completion_length=TOKENS,
            generation_kwargs={"min_new_tokens": TOKENS},
            beta=0.04,  # ours; with a reference
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        GRPOTrainer(
            model=str(ASSETS / "tiny"),
            reward_funcs=lambda completions, **_: [random.random() for _ in completions],
            args=settings,
            train_dataset=Dataset.from_dict({"prompt": ["This film was one of the"] * RESPONSES}),
            callbacks=[Clock()],
        ).train()
    return seconds[1:]


def run(runner: str, overrides: Sequence[str], iterations: int) -> float:
    """Median seconds of an iteration in a process of its own; RuntimeError where it failed."""
    words = ["--runner", runner, "--iterations", str(iterations), *overrides]
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True)
    answers = [line for line in done.stdout.splitlines() if line.startswith(ANSWER)]
    if not answers:
        raise RuntimeError(f"{runner} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return statistics.median(json.loads(answers[-1].removeprefix(ANSWER)))


def table(seconds: Mapping[str, Sequence[float]]) -> str:
    """A row for each runner: median seconds, and the ratio to what it stands beside.

    seconds: of an iteration, by runner, one for each round
    """
    lines = ["| iteration of | seconds | of the time of | ratio | over rounds |", "|---" * 5 + "|"]
    for runner, own in seconds.items():
        other = BESIDE.get(runner, "")
        cells = [runner, f"{statistics.median(own):.2f}", "-", "-", "-"]
        if other in seconds:
            ratios = [a / b for a, b in zip(own, seconds[other], strict=True)]
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            cells[2:] = [other, f"{statistics.median(ratios):.2f}", spread]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", help="settings of cory.train, as key=value")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=5, help="counted in each round")
    parser.add_argument("--only", nargs="+", choices=RUNNERS, help="which ones; default: all")
    parser.add_argument("--runner", choices=RUNNERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    for option in ("rounds", "iterations"):
        if getattr(args, option) < 1:
            parser.error(f"--{option} must be at least 1, got {getattr(args, option)}")
    if args.runner:
        settings = [*RUNNERS[args.runner], *args.overrides]
        trl = args.runner == "trl"
        taken = time_trl(args.iterations) if trl else time_cory(settings, args.iterations)
        print(f"{ANSWER}{json.dumps(taken)}", flush=True)
        os._exit(0)  # threads of the process group may abort a normal exit
    runners = args.only or [name for name in RUNNERS if name != "trl" or find_spec("trl")]
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(args.rounds):
        for name in runners:
            seconds[name].append(run(name, args.overrides, args.iterations))
    print(table(seconds))


if __name__ == "__main__":
    main()
