"""How much faster or slower than TRL 0.11.4 and CoMLRL 1.3.7 the same work is done here.

    python scripts/benchmark_peers.py                         # everything, about six minutes
    python scripts/benchmark_peers.py --only ppo --rounds 10 --json peers.json

The first call makes an environment for each library, which takes minutes and a network. Ours and
theirs take their iterations in turn: in every round each runs once, while the others wait. Ratios
are medians over rounds of times within a round.

The same everywhere: the GPT-2 of 2.6 million parameters that ships with cory, without dropout; 64
prompts of 6 tokens of reviews; answers of 16 tokens, sampled from the whole distribution; AdamW.

- `ppo`: 4 epochs of one minibatch, exact KL, value head with clipped loss. TRL answers the prompts
  in one batch, and by default 4 at a time. Ours includes scoring the answers by a small judge and
  the metrics of its log; TRL's scores are random numbers.
- `cory`: two agents, of which the second sees the first one's answer, with a shared reference. TRL
  as CORY's released code (a fork of an older TRL) uses it: 4 prompts at a time, and the reference
  answers every prompt, too. Running statistics, which scale the scores there, are left out: with
  them TRL 0.11.4 stops with an error. Ours as before, twice.
- `comlrl`: two agents, one pass over 64 joint samples, one update of each agent. CoMLRL's
  independent actor-critic (IAC) with a value head on the policy: its policy gradient has neither a
  ratio nor a KL to a reference, and its agents do not see each other's answers. Ours is CORY with
  one epoch, which computes both besides. CoMLRL takes one prompt at a time; several joint samples
  of one prompt it draws as one batch, so it is also measured with 8 prompts of 8 samples each.

In mixed precision TRL runs in accelerate's `mixed_precision="bf16"`, with the implementation of
attention that is faster then. CoMLRL has none: its weights are bfloat16 there.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import venv
from datetime import date
from functools import partial
from pathlib import Path

from cory.config import ConfigError
from cory.performance.alternation import Answer, Worker, in_turn, ratio
from cory.performance.machine import cpu_model
from cory.performance.workloads import PRECISIONS, WORKLOADS, command
from cory.runs.own_folder import require_own_folder
from cory.runs.provenance import git, versions

HERE = Path(__file__).resolve().parent
MODEL = HERE.parent / "cory" / "assets" / "tiny"
CACHE = HERE.parent / "outputs" / "benchmark"
TORCH = "torch==2.13.0"  # before all else, so that no requirement chooses another build
REQUIRED = {  # environment -> what is installed in it
    "trl": ["trl==0.11.4", "transformers==4.46.3", "peft==0.13.2", "accelerate==1.1.1",
            "datasets<4", "rich"],
    "comlrl": ["comlrl==1.3.7"],
}  # fmt: skip
ROUNDS = {"ppo": 6, "cory": 3, "comlrl": 2}
ONE_PASS = ["algorithm.epochs=1"]
OURS, OUR_PPO = "cory", "cory, PPO alone"
# work -> runner -> (environment, or None for ours; its words; theirs in mixed precision besides)
RUNNERS: dict[str, dict[str, tuple[str | None, list[str], list[str]]]] = {
    "ppo": {
        OURS: (None, WORKLOADS["ppo"], []),
        "TRL, 64 prompts at a time": ("trl", ["--generation-batch=64"], ["--mixed"]),
        "TRL, 4 prompts at a time": ("trl", ["--generation-batch=4"], ["--mixed"]),
    },
    "cory": {
        OURS: (None, WORKLOADS["cory"], []),
        OUR_PPO: (None, WORKLOADS["ppo"], []),
        "TRL, as CORY's released code": ("trl", ["--agents=2"], ["--mixed"]),
    },
    "comlrl": {
        OURS: (None, [*WORKLOADS["cory"], *ONE_PASS], []),
        "CoMLRL, 64 prompts": ("comlrl", [], ["--dtype=bfloat16"]),
        "CoMLRL, 8 prompts x 8": ("comlrl", ["--generations=8"], ["--dtype=bfloat16"]),
    },
}
SCRIPTS = {"trl": "benchmark_trl.py", "comlrl": "benchmark_comlrl.py"}


def environment(name: str, folder: Path) -> Path:
    """The Python of a peer's environment, which is made where it is not there yet."""
    place, wanted = folder / name, "\n".join([TORCH, *REQUIRED[name]])
    python, done = place / "bin" / "python", place / "installed"
    if done.exists() and done.read_text() == wanted:
        return python
    try:  # `clear` empties it
        require_own_folder(place, ("pyvenv.cfg",), f"--environments: {place}")
    except ConfigError as error:
        sys.exit(f"error: {error}")
    print(f"making {place}", flush=True)
    venv.create(place, with_pip=True, clear=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", TORCH]
    for further in ([], REQUIRED[name]):
        subprocess.run([*pip, *further], check=True)
    done.write_text(wanted)
    return python


def words_of(
    work: str, name: str, precision: str, pythons: dict[str, Path], prompts: Path
) -> list[str]:
    """The command of a runner."""
    where, words, further = RUNNERS[work][name]
    if where is None:
        return command([*words, *PRECISIONS[precision]])
    own = [*words, *(further if precision == "mixed" else [])]
    return [str(pythons[where]), str(HERE / SCRIPTS[where]), str(MODEL), str(prompts), *own]


def write_prompts(folder: Path, threads: int) -> Path:
    """A file with the prompts that our first iteration has."""
    worker = Worker("prompts", command(WORKLOADS["ppo"]), threads)
    worker.answer()
    place = folder / "prompts.json"
    place.write_text(json.dumps(worker.ask("prompts")))
    worker.close()
    return place


def measure(
    work: str, rounds: int, threads: int, pythons: dict[str, Path], prompts: Path
) -> dict[str, dict[str, list[Answer]]]:
    """Every runner of a work in both precisions, in turn: precision -> runner -> its iterations."""
    os.environ["PYTHONPATH"] = str(HERE.parent)  # peers' environments have no cory of their own
    workers = {
        (precision, name): Worker(
            f"{name}, {precision}",
            words_of(work, name, precision, pythons, prompts),
            threads,
        )
        for precision in PRECISIONS
        for name in RUNNERS[work]
    }
    for worker in workers.values():
        worker.answer()  # ready
    for (_, name), worker in workers.items():
        if RUNNERS[work][name][0] != "comlrl":  # its passes are long, and begin prompt by prompt
            worker.ask("step")  # the warm-up
    answers = in_turn({key: partial(w.ask, "step") for key, w in workers.items()}, rounds)
    for worker in workers.values():
        worker.close()
    return {
        precision: {name: answers[precision, name] for name in RUNNERS[work]}
        for precision in PRECISIONS
    }


def seconds(answers: list[Answer]) -> list[float]:
    """Of whole iterations."""
    return [float(answer["seconds"]["iteration"]) for answer in answers]


def show(work: str, found: dict[str, dict[str, list[Answer]]]) -> None:
    """Print medians and ratios."""
    for precision, answers in found.items():
        own = seconds(answers[OURS])
        for name, each in answers.items():
            median, (middle, least, most) = (
                statistics.median(seconds(each)),
                ratio(own, seconds(each)),
            )
            print(f"{work:<8}{precision:<7}{name:<32}{median:8.3f} s   ours / this ", end="")
            print(f"{middle:.3f} ({least:.3f} to {most:.3f})")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(RUNNERS), default=list(RUNNERS))
    parser.add_argument("--rounds", type=int, help="of every work; without it, by its length")
    parser.add_argument("--threads", type=int, default=2, help="of matrix products")
    parser.add_argument("--environments", type=Path, default=CACHE, help="folder they are kept in")
    parser.add_argument("--json", type=Path, help="file that takes everything")
    args = parser.parse_args()
    for option in ("rounds", "threads"):
        value = getattr(args, option)
        if value is not None and value < 1:
            parser.error(f"--{option} must be at least 1, got {value}")
    needed = {where for work in args.only for where, _, _ in RUNNERS[work].values() if where}
    args.environments.mkdir(parents=True, exist_ok=True)
    pythons = {name: environment(name, args.environments) for name in sorted(needed)}
    prompts = write_prompts(args.environments, args.threads)
    found = {}
    for work in args.only:
        found[work] = measure(work, args.rounds or ROUNDS[work], args.threads, pythons, prompts)
        show(work, found[work])
    if args.json is not None:
        about = {"cpu": cpu_model(), "threads": args.threads, "commit": git("rev-parse", "HEAD"),
                 "versions": versions(), "day": str(date.today())}  # fmt: skip
        args.json.write_text(json.dumps(about | {"works": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
