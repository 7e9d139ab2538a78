"""What one GPU gives within eight minutes: its tests, and iterations of GRPO and CORY beside TRL's.

    python scripts/gpu.py gpu.json                          # needs no network
    python scripts/gpu.py gpu.json --trl TRL/bin/python     # TRL 1.16 in an environment of its own
    python scripts/gpu.py gpu.json --tiny                   # the same parts, small, on a CPU

LoRA on random bf16 weights in the shapes of Qwen2.5 0.5B and Qwen3 1.7B: 128 responses of 128
tokens to prompts of about 64, then four optimiser steps, with recorded passes of single tokens and
without. Each part is a process with a time limit. What fails, is late or finds no time is written
down beside the others, in a file that is whole after every part.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from peers import ANSWER, STEPS

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S, PART_S = 470, 150  # of all parts together, and of one
SHORTEST_S = 10  # a part is not begun with less
SAMPLES = 8  # responses to a prompt in GRPO
SAID = 1500  # characters of what a part said that are kept where it did not end well
QWEN2 = dict(
    hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
    num_key_value_heads=2,
)  # fmt: skip
QWEN3 = dict(
    hidden_size=2048, intermediate_size=6144, num_hidden_layers=28, num_attention_heads=16,
    num_key_value_heads=8, head_dim=128,
)  # fmt: skip
BOTH = dict(vocab_size=151936, tie_word_embeddings=True, max_position_embeddings=4096)
SHAPES = {"0.5B": ("qwen2", QWEN2 | BOTH), "1.7B": ("qwen3", QWEN3 | BOTH)}
TINY = dict(
    hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, vocab_size=8192, max_position_embeddings=512,
)  # fmt: skip


@dataclass(frozen=True)
class Work:
    """What an iteration has to do, ours and TRL's."""

    responses: int = 128
    tokens: int = 128  # of a response
    context: int = 64  # tokens of a prompt, about
    iterations: int = 2  # that count, after a first one
    hardware: str = "gpu1"

    def ours(self, algorithm: str, recorded: bool, model: Path, folder: Path) -> list[str]:
        """The command of a run in `folder`/run."""
        asked = self.responses if algorithm == "grpo" else self.responses // 2  # by two agents
        each = {"grpo": [f"algorithm.samples_per_prompt={SAMPLES}"], "cory": ["algorithm.epochs=1"]}
        step = asked // STEPS
        return [
            *(sys.executable, "-m", "cory.train", f"algorithm={algorithm}", *each[algorithm]),
            *("task=prompts", f"task.path={folder}/prompts.jsonl", "task.max_prompt_tokens=128"),
            *("reward=python", f"reward.function={folder}/reward.py:score"),
            *(f"model.path={model}", "model.precision=bf16", "adapter=lora"),
            *(f"hardware={self.hardware}", f"hardware.cuda_graphs={str(recorded).lower()}"),
            *(f"hardware.rollout_batch_size={self.responses}", f"hardware.microbatch_size={step}"),
            *(f"algorithm.minibatch_size={step}", f"algorithm.prompts_per_iteration={asked}"),
            f"algorithm.sampling.min_response_tokens={self.tokens}",
            f"algorithm.sampling.max_response_tokens={self.tokens}",
            *(f"algorithm.iterations={self.iterations + 1}", f"run_dir={folder}/run"),
            *("evaluation.prompts=1", "evaluation.before=false", "samples_every=0"),
        ]

    def trl(self, python: str, model: Path) -> list[str]:
        """The command of TRL's GRPO in its environment."""
        work = {
            "prompts": self.prompts()[: self.responses // SAMPLES],
            "samples": SAMPLES,
            "tokens": self.tokens,
            "lora": {"r": 16, "lora_alpha": 32, "target_modules": "all-linear"},
            "dtype": "bfloat16",
        }
        return [python, str(ROOT / "scripts" / "peers.py"), "trl", str(model), json.dumps(work)]

    def prompts(self) -> list[str]:
        """More than an iteration takes, all different."""
        return [f"{number}" + " film" * (self.context - 2) for number in range(2 * self.responses)]

    def write(self, folder: Path) -> None:
        """Prompts and reward of our runs."""
        lines = [json.dumps({"prompt": prompt}) for prompt in self.prompts()]
        (folder / "prompts.jsonl").write_text("\n".join(lines))
        score = (
            "def score(prompts, completions, **_):\n    return [random() for _ in completions]\n"
        )
        (folder / "reward.py").write_text(f"from random import random\n\n\n{score}")


def make_model(size: str, tiny: bool, folder: str) -> None:
    """Write a model with random weights, and a shipped tokenizer."""
    import torch  # noqa: PLC0415  only in the process that makes it
    from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415

    from cory.models.loading import load_tokenizer  # noqa: PLC0415

    kind, shape = SHAPES[size]
    tokenizer = load_tokenizer("asset:tiny", "model.path")
    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), tokenizer.eos_token_id)
    config = AutoConfig.for_model(kind, **(shape | TINY if tiny else shape), **ends)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, trust_remote_code=False
        )
    model.cpu().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def run_part(command: Sequence[str], limit_s: float, asked: str = "") -> dict[str, Any]:
    """Run a part to its end or its limit; how it ended, in how many seconds, and what it said.

    asked: its standard input
    """
    if limit_s < SHORTEST_S:
        return {"ended": "no time was left"}
    began = time.monotonic()
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    part = subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.PIPE, start_new_session=True,
        env={**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    try:
        said, _ = part.communicate(asked, timeout=limit_s)
        ended = "well" if part.returncode == 0 else f"with {part.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(part.pid, signal.SIGKILL)  # with the processes that it started
        said, ended = part.communicate()[0], f"late, after {limit_s:.0f} s"
    return {"ended": ended, "wall_s": round(time.monotonic() - began, 1), "said": said}


def of_run(folder: Path, work: Work) -> dict[str, Any]:
    """What one of our runs measured."""
    times, metrics = (
        [json.loads(line) for line in (folder / "run" / name).read_text().splitlines()][1:]
        for name in ("times.jsonl", "metrics.jsonl")
    )
    record = json.loads((folder / "run" / "record.json").read_text())
    lengths = [
        statistics.mean(v for key, v in row.items() if key.startswith("rollout/response_tokens"))
        for row in metrics
    ]
    return {
        "seconds": [row["time/iteration_s"] for row in times],
        "rollout_s": [row["time/rollout_s"] for row in times],
        "tokens": [length * work.responses for length in lengths],
        "peak_gib": record["peak_memory_gib"],
        "where": {key: record[key] for key in ("device", "packages", "commit", "began")},
    }


def of_trl(said: str) -> dict[str, Any]:
    """What TRL's iterations after the first one measured; `said` as of scripts/peers.py."""
    lines = [line for line in said.splitlines() if line.startswith(ANSWER)]
    seconds, found = zip(
        *(json.loads(line.removeprefix(ANSWER)) for line in lines[1:]), strict=True
    )
    columns = {key: [each[key] for each in found] for key in ("rollout_s", "tokens")}
    return columns | {"seconds": seconds, "peak_gib": found[-1]["peak_gib"]}


def measured(part: dict[str, Any], numbers: Mapping[str, Any]) -> dict[str, Any]:
    """A part with its numbers, and what they come to."""
    speeds = [n / s for n, s in zip(numbers["tokens"], numbers["rollout_s"], strict=True)]
    medians = map(statistics.median, (numbers["seconds"], speeds))
    return part | numbers | dict(zip(("iteration_s", "tokens_per_s"), medians, strict=True))


def table(parts: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for each part, with the ratio of its iteration to that of TRL at its size."""
    heads = ("part", "ended", "iteration, s", "of TRL's", "sampled tokens/s", "peak, GiB")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, part in parts.items():
        cells = [name, part["ended"], "-", "-", "-", "-"]
        if "iteration_s" in part:
            other = parts.get(f"{name.split()[0]} TRL", {}).get("iteration_s")
            ratio = f"{part['iteration_s'] / other:.2f}" if other else "-"
            speed, peak = f"{part['tokens_per_s']:,.0f}", f"{part['peak_gib']:.1f}"
            cells[2:] = [f"{part['iteration_s']:.2f}", ratio, speed, peak]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


class Session:
    """The parts so far, and the time that is left for others."""

    def __init__(self, file: Path, work: Work, limit_s: float) -> None:
        self.file, self.work = file, work
        self.began, self.limit_s = time.monotonic(), limit_s
        self.parts: dict[str, dict[str, Any]] = {}
        self.where: dict[str, Any] = {}  # device, packages and commit of our runs

    def add(self, name: str, command: Sequence[str], numbers: Any = None) -> None:
        """Run a part; `numbers` of what it said gives those that it measured."""
        left = self.limit_s - (time.monotonic() - self.began)
        asked = "\n" * (self.work.iterations + 1)  # scripts/peers.py reads a line for each
        part = run_part(command, min(PART_S, left), asked)
        said = part.get("said", "")
        try:
            if part["ended"] == "well" and numbers is not None:
                part = measured(part, numbers(said))
        except Exception as error:  # whatever it is: the other parts go on
            part["ended"] = f"without numbers: {error!r}"
        if "said" in part:
            part["said"] = "" if "iteration_s" in part else said[-SAID:]
        self.where = part.pop("where", self.where)
        self.parts[name] = part
        wall = round(time.monotonic() - self.began, 1)
        found = {"work": vars(self.work), "wall_s": wall, "where": self.where, "parts": self.parts}
        part_file = self.file.with_suffix(".part")
        part_file.write_text(json.dumps(found, indent=1))
        part_file.replace(self.file)
        print(f"{wall:6.1f} s  {name}: {part['ended']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="where the numbers are written, as JSON")
    parser.add_argument("--trl", help="a Python that has TRL; default: this one, if it has")
    parser.add_argument("--tiny", action="store_true", help="small shapes on a CPU: does it work?")
    parser.add_argument(
        "--limit", type=float, default=LIMIT_S, help="seconds; default: %(default)s"
    )
    parser.add_argument("--make", nargs=2, metavar=("SIZE", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        make_model(args.make[0], args.tiny, args.make[1])
        return
    small = Work(responses=16, tokens=8, context=8, hardware="cpu")
    session = Session(args.file, small if args.tiny else Work(), args.limit)
    trl = args.trl or (sys.executable if find_spec("trl") else None)
    several = ["-n", "0"] if args.tiny else ["-n", "6", "--maxprocesses", "6", "--dist", "load"]
    tests = ["-m", "pytest", "-q", "-m", "gpu", *several, "tests/test_gpu.py"]
    session.add("tests", [sys.executable, *tests])
    with tempfile.TemporaryDirectory() as name:
        for size in SHAPES:
            measure(session, size, Path(name) / size, trl, args.tiny)
    print(f"\n{table(session.parts)}\n\nwritten to {args.file}")


def measure(session: Session, size: str, folder: Path, trl: str | None, tiny: bool) -> None:
    """The parts of one size; what matters most first."""
    work, model = session.work, folder / "model"
    folder.mkdir()
    make = [sys.executable, __file__, "-", "--make", size, str(model), *["--tiny"] * tiny]
    session.add(f"{size} model", make)

    def ours(algorithm: str, recorded: bool) -> None:
        said = "recorded" if recorded else "plain"
        own = folder / f"{algorithm}_{said}"
        own.mkdir()
        work.write(own)
        command = work.ours(algorithm, recorded, model, own)
        session.add(f"{size} {algorithm} {said}", command, lambda _: of_run(own, work))

    ours("grpo", recorded=True)
    if trl is not None:
        session.add(f"{size} TRL", work.trl(trl, model), of_trl)
    ours("cory", recorded=True)
    ours("grpo", recorded=False)
    ours("cory", recorded=False)


if __name__ == "__main__":
    main()
