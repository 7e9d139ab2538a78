"""Kill runs at random moments, start them again, and compare with runs that were never killed.

    python scripts/kill_test.py --kills 50

Each layout (algorithm, sharing, processes, ZeRO stage) is run once undisturbed. Then the same
command is started, killed with SIGKILL at a random moment after it has written something (where it
has several processes: all of them, or only the command, or only one worker), and started again,
until it has been killed as often as wanted and is left to finish. metrics.jsonl, samples.jsonl and
every file of agents/ (and with keep_best of best/) must then be the same, byte for byte. Exits with
1 unless they are, for every kill.
"""

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

SETTINGS = [
    "algorithm.schedule=cosine",
    "algorithm.warmup=0.3",
    "hardware.microbatch_size=2",
    "hardware.keep_whole_below=0",
    "evaluation.prompts=8",
    "samples_every=1",
    "checkpoint_every=1",
]
STEPS = [
    "algorithm.iterations=8",
    "algorithm.prompts_per_iteration=8",
    "algorithm.minibatch_size=4",
]
PPO = [
    *STEPS,
    "algorithm.epochs=2",
    "algorithm.score_scaling=normalise",
    "algorithm.kl_controller=adaptive",
]
SHORT_DEBATE = [
    "algorithm.turns=2",
    "algorithm.guards.min_tokens=null",
    "algorithm.sampling.min_response_tokens=4",
    "algorithm.sampling.max_response_tokens=6",
]
SMALL = [  # of a paper's experiment
    "scale=small"
]
GAMES = [
    *SMALL,
    *STEPS,
    "algorithm.iterations_per_epoch=4",
    "algorithm.instructions.per_iteration=4",
    "evaluation.prompts=1",
    "evaluation.samples=2",
]
# What each algorithm is run with. The first ones run on the quickstart's model and prompts.
ALGORITHMS = {
    "ppo": ["algorithm=ppo", *PPO],
    "grpo": ["algorithm=grpo", *PPO, "algorithm.samples_per_prompt=4"],
    "cory": ["algorithm=cory", *PPO, "algorithm.swap_every=2"],
    "maporl": ["algorithm=maporl", *PPO, *SHORT_DEBATE, "algorithm.critic=central"],
    "debate_sft": ["experiment=maporl/gsm8k_maporl", "algorithm=debate_sft", *SMALL, *STEPS],
    "verifier": [
        "experiment=maporl/verifier_gsm8k",
        *SMALL,
        *STEPS,
        "algorithm.answers_per_question=4",
        "algorithm.keep_per_label=2",
    ],
    "imitation": ["experiment=spag/llama2_im", *GAMES],
    "spag": [
        "experiment=spag/llama2_spag_1",
        *GAMES,
        "init_from=null",
        "algorithm.opponents.im=null",
    ],
    "maft": [
        "experiment=maft/maft",
        *SMALL,
        *STEPS,
        "model.precision=bf16",  # an iteration goes on from float32 weights all the same
        "model.compute_precision=bf16",
        "algorithm.iterations=3",
        "algorithm.epochs=1",
        "algorithm.critic_epochs=1",
    ],
}
LONGEST_S = 1200  # a start that takes longer hangs


@dataclass(frozen=True)
class Layout:
    """The settings that differ between the rows of the test."""

    algorithm: str
    sharing: str
    processes: int
    zero_stage: int

    def command(self, run_dir: Path, extra: list[str]) -> list[str]:
        words = [
            *SETTINGS,
            *ALGORITHMS[self.algorithm],
            f"model.sharing={self.sharing}",
            f"hardware.processes={self.processes}",
            f"hardware.zero_stage={self.zero_stage}",
            f"run_dir={run_dir}",
            *extra,
        ]
        if self.sharing == "adapters":
            words.append("model.adapter.targets=null")  # those of a paper's model are not there
        # Hydra takes each setting once: the last one
        return [sys.executable, "-m", "cory.train", *{w.split("=")[0]: w for w in words}.values()]

    def __str__(self) -> str:
        return f"{self.algorithm} {self.sharing} x{self.processes} ZeRO-{self.zero_stage}"


LAYOUTS = [
    Layout(*row)
    for row in itertools.product(ALGORITHMS, ("copies", "adapters"), (1, 2), (0, 1, 2, 3))
]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50, help="over all layouts (default 50)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and of what is killed")
    parser.add_argument(
        "--layouts", nargs="*", metavar="TEXT", help="only those whose name has one of these texts"
    )
    parser.add_argument(
        "--settings", nargs="*", default=[], help="settings of cory.train, as key=value"
    )
    args = parser.parse_args()
    if args.kills < 1:
        parser.error(f"--kills must be at least 1, got {args.kills}")
    wanted = [
        row for row in LAYOUTS if not args.layouts or any(t in str(row) for t in args.layouts)
    ]
    if not wanted:
        parser.error(f"no layout matches; there are: {'; '.join(map(str, LAYOUTS))}")
    chance = random.Random(args.seed)
    chance.shuffle(wanted)
    kills = {row: args.kills // len(wanted) for row in wanted}
    for row in wanted[: args.kills % len(wanted)]:
        kills[row] += 1
    moments: Counter[str] = Counter()
    seconds_of: Counter[str] = Counter()
    good = 0
    with tempfile.TemporaryDirectory() as folder:
        for row in [row for row in wanted if kills[row]]:
            began = time.monotonic()
            same, hit, phases = survive(row, kills[row], chance, Path(folder), args.settings)
            moments.update(hit)
            seconds_of.update(phases)
            good += kills[row] if same is None else 0
            verdict = "same" if same is None else f"DIFFERS: {same}"
            seconds = time.monotonic() - began
            print(f"{row}: killed {', '.join(hit)}: {verdict} ({seconds:.0f} s)", flush=True)
    rest = 100 - 100 * seconds_of["time/rollout_s"] / seconds_of["time/iteration_s"]
    print(f"of an iteration's time {100 - rest:.0f} % are roll-out, the rest scoring and update")
    print("killed " + ", ".join(f"{what}: {n}" for what, n in sorted(moments.items())))
    print(f"{good} of {args.kills} kills left the same metrics, samples and weights")
    return 0 if good == args.kills else 1


def survive(
    row: Layout, kills: int, chance: random.Random, folder: Path, extra: list[str]
) -> tuple[str | None, list[str], Counter[str]]:
    """Run a layout undisturbed and killed.

    returns: the first difference if any, what each kill hit, and seconds by phase
    """
    whole, killed = folder / "whole", folder / "killed"
    for run_dir in (whole, killed):
        shutil.rmtree(run_dir, ignore_errors=True)
    finish(row, whole, extra)
    hit: list[str] = []
    longest = 1.5  # seconds between a step and the kill
    while len(hit) < kills:
        what = strike(row, killed, chance, longest, extra)
        if what is not None:
            hit.append(what)
            continue
        # it finished before the kill: begin anew, and be quicker
        shutil.rmtree(killed)
        hit.clear()
        longest /= 2
        if longest < 0.01:
            raise SystemExit(f"{row}: ends too fast to be killed")
    finish(row, killed, extra)
    phases: Counter[str] = Counter()
    for line in (whole / "times.jsonl").read_text().splitlines():
        phases.update({k: v for k, v in json.loads(line).items() if k != "iteration"})
    return difference(whole, killed), hit, phases


def start(row: Layout, run_dir: Path, extra: list[str]) -> subprocess.Popen[bytes]:
    """Start the command; what it says goes to a file, as nobody reads it while it runs."""
    with output_of(run_dir).open("wb") as output:
        return subprocess.Popen(
            row.command(run_dir, extra),
            # one thread: the same numbers whatever else the machine does
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def output_of(run_dir: Path) -> Path:
    """The file beside a run directory that has what its last command said."""
    return run_dir.with_name(f"{run_dir.name}.out")


def said(run_dir: Path) -> str:
    """What the last command of a run directory has said."""
    return output_of(run_dir).read_text(encoding="utf-8", errors="replace")


def finish(row: Layout, run_dir: Path, extra: list[str]) -> None:
    """Start the command and let it end."""
    process = start(row, run_dir, extra)
    deadline = time.monotonic() + LONGEST_S
    while process.poll() is None:
        if time.monotonic() > deadline:
            end_hanging(row, process.pid, run_dir, "it is not over")
        time.sleep(0.05)
    if process.returncode != 0 or not (run_dir / "record.json").exists():
        raise SystemExit(f"{row}: exit code {process.returncode}\n{said(run_dir)}")


def end_hanging(row: Layout, pid: int, run_dir: Path, what: str) -> NoReturn:
    """Kill a command that hangs, with all of its processes, and leave."""
    kill(family(pid))
    raise SystemExit(f"{row}: hangs: {what} after {LONGEST_S} s\n{said(run_dir)}")


def kill(pids: list[int]) -> None:
    """Send SIGKILL to those that are still there."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def strike(
    row: Layout, run_dir: Path, chance: random.Random, longest: float, extra: list[str]
) -> str | None:
    """Start the command and kill it after its next step; what was hit, None if it was over."""
    process = start(row, run_dir, extra)
    stamp = changed(run_dir)
    deadline = time.monotonic() + LONGEST_S
    while changed(run_dir) == stamp:
        if process.poll() is not None:
            return None
        if time.monotonic() > deadline:
            end_hanging(row, process.pid, run_dir, "it has written nothing")
        time.sleep(0.01)
    time.sleep(chance.uniform(0, longest))
    everybody = family(process.pid)
    if process.poll() is not None or not everybody:
        return None
    workers = [pid for pid in everybody if pid != process.pid] if row.processes > 1 else []
    victim = chance.choice(["all", "command", "worker"] if workers else ["command"])
    if victim == "worker":
        targets = [chance.choice(workers)]
    elif victim == "command":
        targets = [process.pid]
    else:
        targets = everybody
    writing = any((run_dir / "checkpoints").glob("*.part"))
    kill(targets)
    gone = time.monotonic() + 30
    while any(alive(pid) for pid in everybody if pid != process.pid) or process.poll() is None:
        if time.monotonic() > gone:
            raise SystemExit(f"{row}: processes live on 30 s after {victim} was killed")
        time.sleep(0.05)
    process.wait()
    moment = "while writing a checkpoint" if writing else "within an iteration"
    if (run_dir / "record.json").exists():
        return None
    return f"{victim} {moment}"


def changed(run_dir: Path) -> int:
    """When the run last wrote down what it had come to."""
    found = [run_dir / "metrics.jsonl", run_dir / "checkpoints"]
    found += run_dir.glob("games/*")
    times = []
    for path in found:
        try:
            times.append(path.stat().st_mtime_ns if path.is_dir() or path.stat().st_size else 0)
        except FileNotFoundError:  # not yet, or no longer
            continue
    return max(times, default=0)


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for parent in found:
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        except OSError:
            continue
        found += [int(child) for child in children]
    return [one for one in found if alive(one)]


def alive(pid: int) -> bool:
    """Whether a process runs; one that is only waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def difference(whole: Path, killed: Path) -> str | None:
    """The first file that is not the same, or None."""
    names = ["metrics.jsonl", "samples.jsonl", "prompt_scores.jsonl"]
    for folder in ("agents", "best/agents"):
        files = (path for path in (whole / folder).rglob("*") if path.is_file())
        names += sorted(str(path.relative_to(whole)) for path in files)
    for name in names:
        if not (killed / name).exists():
            return f"{name} is missing"
        if (whole / name).read_bytes() != (killed / name).read_bytes():
            return f"{name} is not the same"
    return None


if __name__ == "__main__":
    sys.exit(main())
