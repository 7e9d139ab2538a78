"""Seconds of an iteration by phase, of every method and beside other libraries; on tiny models.

    python scripts/benchmark.py                                  # ppo cory grpo maporl spag maft
    python scripts/benchmark.py grpo hardware=gpu1 model.compute_precision=bf16
    python scripts/benchmark.py --peers --trl TRL/bin/python --comlrl COMLRL/bin/python

Processes take their iterations in turn, since a machine's speed changes from minute to minute: a
ratio is the median over rounds of two times of the same round. The first two iterations of each
are not counted. With `--peers` each peer has a Python of its own, with trl==1.16.0 or
comlrl==1.4.3 and the same torch; both sides then do the same work in float32 but for what is said.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from peers import ANSWER, HELD_OUT, PROMPTS, RATE, SAMPLES, STEPS, TOKENS, serve

HERE = Path(__file__).resolve().parent
MODEL = HERE.parent / "cory" / "assets" / "tiny_math"
WARM = 2  # iterations that are not counted: first passes, and the checks of a first update
LIMIT = [
    f"algorithm.sampling.min_response_tokens={TOKENS}",
    f"algorithm.sampling.max_response_tokens={TOKENS}",
]
BATCH = [*LIMIT, "algorithm.prompts_per_iteration=64", "algorithm.minibatch_size=64"]
REVIEWS = [*BATCH, "task.max_prompt_tokens=8", "algorithm.epochs=4"]
# peers' work: the same prompts and, for the scores, random numbers
SAME = [
    "task=prompts",
    "task.path={folder}/prompts.jsonl",
    "task.held_out_share=0.05",  # one of them
    f"task.min_response_tokens={TOKENS}",
    f"task.max_response_tokens={TOKENS}",
    "model=tiny_math",
    "model.compute_precision=fp32",
    f"algorithm.learning_rate={RATE}",
    *BATCH,
    f"algorithm.samples_per_prompt={SAMPLES}",
    "reward=python",
    f"reward.function={HERE}/peers.py:score",
]
METHODS = {
    "ppo": ["algorithm=ppo", *REVIEWS],
    "cory": ["algorithm=cory", *REVIEWS],
    "grpo": ["algorithm=grpo", *BATCH, "task.max_prompt_tokens=8"],
    "maporl": ["experiment=maporl/gsm8k_maporl", "scale=small", "reward=exact_match"],
    "spag": [
        "experiment=spag/llama2_spag_1",
        "scale=small",
        "init_from=null",
        "algorithm.opponents.im=null",
        "algorithm.iterations_per_epoch=1",
    ],
    "maft": ["experiment=maft/maft", "scale=small", "algorithm.prompts_per_iteration=100"],
}
PAIR = [
    "algorithm=team",
    f"algorithm.play={HERE}/peers.py:pair",
    "algorithm.agents=[a,b]",
    *SAME,
    "algorithm.epochs=1",
]
# a comparison: our settings; the peer's environment; its work in peers.py; what is not equal
PEERS = {
    "grpo": (
        ["algorithm=grpo", *SAME, f"algorithm.minibatch_size={64 // STEPS}"],
        "trl",
        "trl",
        "ours may end a response before its 16 tokens, and logs exact KL and entropy",
    ),
    "magrpo": (
        [*PAIR, "algorithm.credit=sum", "advantages=magrpo"],
        "comlrl",
        "magrpo",
        "theirs goes prompt by prompt, without the KL to a reference that ours has",
    ),
    "iac": (
        PAIR,
        "comlrl",
        "iac",
        "as above; theirs has a value for each response, no ratio and no GAE",
    ),
}


class Worker:
    """A process that does an iteration whenever it is asked, and nothing meanwhile."""

    def __init__(self, words: Sequence[str], errors: Path) -> None:
        """words: its command; errors: file that takes what it says beside its answers"""
        self.errors = errors
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors.open("w"), text=True
        )

    def step(self) -> tuple[float, dict[str, float]]:
        """Seconds of an iteration, and of its phases; RuntimeError where the process ended."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with suppress(BrokenPipeError):  # why it ended is in its errors
            print(file=self.process.stdin, flush=True)
        for line in self.process.stdout:
            if line.startswith(ANSWER):
                seconds, phases = json.loads(line.removeprefix(ANSWER))
                return seconds, phases or {}
        said = self.errors.read_text()[-2000:]
        raise RuntimeError(f"{self.process.args} ended with {self.process.wait()}:\n{said}")

    def end(self) -> None:
        """Let it go."""
        self.process.kill()
        self.process.wait()


def work(overrides: Sequence[str]) -> None:
    """In a process of its own: iterations of a run with these settings, as they are asked for."""
    # not in the process that only takes times together
    from cory.config import builder, parse_config  # noqa: PLC0415
    from cory.models import policy  # noqa: PLC0415
    from cory.models.engine import start_process_group  # noqa: PLC0415
    from cory.runtime.hydra_setup import compose  # noqa: PLC0415
    from cory.runtime.worker import build_components, keep_freed_memory, silence_libraries  # noqa: PLC0415

    sampled, generate, iteration = 0, policy.generate, iter(range(10**9))

    def counted(*args: Any) -> Any:
        nonlocal sampled
        found = generate(*args)
        sampled += sum(len(response.ids) for response in found)
        return found

    def step() -> dict[str, float]:
        nonlocal sampled
        sampled = 0
        row = algorithm.step(next(iteration))
        phases = {key: value for key, value in row.items() if key.startswith("time/")}
        return phases | {"tokens": sampled}

    policy.generate = counted
    silence_libraries()
    with tempfile.TemporaryDirectory() as folder:
        prompts = "".join(json.dumps({"prompt": text}) + "\n" for text in [*PROMPTS, HELD_OUT])
        (Path(folder) / "prompts.jsonl").write_text(prompts)
        own = [word.format(folder=folder) for word in overrides]
        config = parse_config(compose(*own, f"run_dir={folder}/run"))
        start_process_group(config.hardware.device)
        keep_freed_memory()
        algorithm = builder("algorithm", config.algorithm.name)(
            config.algorithm, build_components(config)
        )
        serve(step)


def ours(settings: Sequence[str]) -> list[str]:
    """The command of a process that does our iterations."""
    return [sys.executable, __file__, "--work", *settings]


def in_turn(
    commands: Mapping[str, Sequence[str]], rounds: int
) -> dict[str, list[tuple[float, dict[str, float]]]]:
    """Iterations of each command, in turn; by name, one for each round."""
    with tempfile.TemporaryDirectory() as folder:
        workers = {n: Worker(words, Path(folder) / n) for n, words in commands.items()}
        try:
            for worker in workers.values():
                for _ in range(WARM):
                    worker.step()
            turns = [{n: worker.step() for n, worker in workers.items()} for _ in range(rounds)]
        finally:
            for worker in workers.values():
                worker.end()
    return {name: [turn[name] for turn in turns] for name in commands}


def ratio(own: Sequence[float], other: Sequence[float]) -> str:
    """The median over rounds of one time by the other, and its least and most."""
    each = sorted(a / b for a, b in zip(own, other, strict=True))
    return f"{statistics.median(each):.2f} ({each[0]:.2f} to {each[-1]:.2f})"


def methods(chosen: Sequence[str], overrides: Sequence[str], rounds: int) -> None:
    """Print a row for each method: medians of its seconds and those of its phases."""
    found = in_turn({name: ours([*METHODS[name], *overrides]) for name in chosen}, rounds)
    print("| iteration of | seconds | roll-out | score | annotate | update | tokens/s |")
    print("|---" * 7 + "|")
    for name, turns in found.items():
        seconds = statistics.median(seconds for seconds, _ in turns)
        cells = [f"{seconds:.2f}"]
        for phase in ("rollout_s", "reward_s", "annotate_s", "update_s"):
            each = [phases.get(f"time/{phase}", 0.0) for _, phases in turns]
            cells.append(f"{statistics.median(each):.2f}" if any(each) else "-")
        speed = statistics.median(p["tokens"] / p["time/rollout_s"] for _, p in turns)
        print(f"| {name} | {' | '.join(cells)} | {speed:,.0f} |")
    if {"ppo", "cory"} <= set(found):
        times = [[seconds for seconds, _ in found[name]] for name in ("cory", "ppo")]
        print(f"\nCORY's time by PPO's: {ratio(*times)}")


def peers(pythons: Mapping[str, str], overrides: Sequence[str], rounds: int) -> None:
    """Print a row for each comparison: medians of ours and of theirs, and the ratio."""
    print("| iteration of | ours, s | theirs, s | ours by theirs (rounds) | not equal |")
    print("|---" * 5 + "|")
    for name, (settings, library, program, unequal) in PEERS.items():
        if not pythons[library]:
            continue
        theirs = [pythons[library], str(HERE / "peers.py"), program, str(MODEL)]
        found = in_turn({"ours": ours([*settings, *overrides]), "theirs": theirs}, rounds)
        own, other = ([seconds for seconds, _ in found[side]] for side in ("ours", "theirs"))
        cells = [f"{statistics.median(side):.2f}" for side in (own, other)]
        print(f"| {name}, {library} | {' | '.join(cells)} | {ratio(own, other)} | {unequal} |")


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        return work(sys.argv[2:])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="methods, and settings of cory.train as key=value")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", action="store_true", help="beside other libraries")
    for library in ("trl", "comlrl"):
        parser.add_argument(f"--{library}", metavar="PYTHON", help="of its environment")
    args = parser.parse_intermixed_args()
    overrides = [word for word in args.words if "=" in word]
    chosen = [word for word in args.words if "=" not in word]
    if unknown := set(chosen) - set(METHODS):
        parser.error(f"no method: {', '.join(unknown)}; there are {', '.join(METHODS)}")
    if args.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {args.rounds}")
    if not args.peers:
        return methods(chosen or list(METHODS), overrides, args.rounds)
    if not (args.trl or args.comlrl):
        parser.error("--peers needs --trl or --comlrl, the Python of an environment with it")
    peers({"trl": args.trl, "comlrl": args.comlrl}, overrides, args.rounds)


if __name__ == "__main__":
    main()
