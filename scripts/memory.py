"""Measured memory of runs beside preflight's estimate, as a Markdown table.

    python scripts/memory.py                     # every row, about 15 minutes on two CPU cores
    python scripts/memory.py adapters copies     # rows whose layout starts so

Each row is the real command, `python -m cory.train`, on a random GPT-2 whose weights outweigh all
else, with few short prompts, in a process of its own; a hundred reviews are enough (all of them,
which a usual run holds, are 0.14 GiB of main memory). `measured` is the most that the first process
held (ru_maxrss) less what it held with all libraries imported and nothing loaded. So that memory
which is free again does not count, the allocator is told to give pieces above 64 KiB back at once.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from cory.config import parse_config
from cory.memory import preflight
from cory.memory.estimate import peak
from cory.models.places import ASSETS
from cory.runs.run_dir import RECORD
from cory.runs.stored_settings import read_settings
from cory.tasks.data.reviews import package_reviews

LAYERS = {"copies": 14, "adapters": 28, "adapter_copies": 28}  # 102 M and 202 M parameters
WIDTH, LONGEST = 768, 128
SETTINGS_OF_ALL = (
    "model=tiny",
    "reward=sentiment_tiny",
    "algorithm.iterations=2",
    "algorithm.prompts_per_iteration=4",
    "algorithm.minibatch_size=4",
    "algorithm.epochs=1",
    "algorithm.sampling.min_response_tokens=4",
    "algorithm.sampling.max_response_tokens=4",
    "task.observer_template='{answers}: {query}'",
    "task.max_prompt_tokens=4",
    "task.source=path",
    "task.train_split='train[:90%]'",
    "task.test_split='train[90%:]'",
    "evaluation.prompts=4",
    "checkpoint_every=0",
)


USUAL = ("none", "fp32")


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    sharing: str
    agents: int
    zero_stage: int = 0
    processes: int = 1
    quantisation: str = "none"
    precision: str = "fp32"

    @property
    def name(self) -> str:
        kinds = [kind for kind in (self.quantisation, self.precision) if kind not in USUAL]
        return ", ".join([self.sharing, *kinds])

    def overrides(self) -> list[str]:
        """The settings of this row, as typed."""
        # each agent sees the bare query: longer prompts would be more activations, not weights
        chain = ["algorithm=cory", f"algorithm.agents={self.agents}"]
        chain += ["algorithm.swap_every=null", "algorithm.knowledge_transfer=false"]
        return [
            *(["algorithm=ppo"] if self.agents == 1 else chain),
            f"model.sharing={self.sharing}",
            f"model.quantisation={self.quantisation}",
            f"model.precision={self.precision}",
            f"hardware.zero_stage={self.zero_stage}",
            f"hardware.processes={self.processes}",
        ]


CASES = (
    Case("copies", 1),
    Case("copies", 2),
    Case("copies", 1, zero_stage=1),
    Case("copies", 1, zero_stage=2),
    Case("copies", 1, zero_stage=3),
    Case("copies", 1, processes=2),
    Case("copies", 1, zero_stage=1, processes=2),
    Case("copies", 1, zero_stage=2, processes=2),
    Case("copies", 1, zero_stage=3, processes=2),
    Case("copies", 1, precision="bf16"),
    Case("copies", 1, zero_stage=2, precision="bf16"),
    Case("adapters", 1),
    Case("adapters", 2),
    Case("adapters", 5),
    Case("adapters", 2, zero_stage=2, processes=2),
    Case("adapters", 2, zero_stage=3, processes=2),
    Case("adapters", 1, quantisation="nf4"),
    Case("adapters", 2, quantisation="nf4"),
    Case("adapter_copies", 2),
)


def make_model(folder: Path, layers: int) -> None:
    """A random GPT-2, most of it in its layers, with the tokenizer of a shipped model."""
    tokenizer = AutoTokenizer.from_pretrained(ASSETS / "tiny", trust_remote_code=False)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=LONGEST,
        n_embd=WIDTH,
        n_layer=layers,
        n_head=WIDTH // 64,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_reviews(path: Path) -> None:
    """The first reviews of the package, as a file."""
    lines = [json.dumps({"text": review.text}) for review in package_reviews("train")[:100]]
    path.write_text("\n".join(lines), encoding="utf-8")


def run(case: Case, model: Path, reviews: Path, folder: Path) -> tuple[float, float]:
    """GiB measured and GiB estimated."""
    run_dir = folder / "run"
    shutil.rmtree(run_dir, ignore_errors=True)
    words = [*case.overrides(), *SETTINGS_OF_ALL, f"model.path={model}", f"task.path={reviews}"]
    words.append(f"run_dir={run_dir}")
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "65536",
    }
    answer = subprocess.run(
        [sys.executable, "-m", "cory.train", *words],
        env=environment,
        capture_output=True,
        text=True,
    )
    if answer.returncode != 0:
        sys.exit(f"{case}: {answer.stderr}")
    memory = json.loads((run_dir / RECORD).read_text(encoding="utf-8"))["memory"]
    rows, _ = preflight.rows_of(parse_config(read_settings(run_dir)))
    return memory["peak_gib"] - memory["before_gib"], peak(rows)[1] / preflight.GIB


def main() -> None:
    os.environ["DS_ACCELERATOR"] = "cpu"  # else DeepSpeed guesses, and says so
    transformers.logging.disable_progress_bar()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("layouts", nargs="*", help="only those whose names begin with one of these")
    asked = parser.parse_args().layouts
    for layout in asked:
        if not any(case.name.startswith(layout) for case in CASES):
            known = ", ".join(dict.fromkeys(case.name for case in CASES))
            parser.error(f"no layout begins with '{layout}'; there are {known}")
    chosen = [case for case in CASES if not asked or case.name.startswith(tuple(asked))]
    print(f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}\n")
    print("| layout | agents | ZeRO stage | processes | measured, GiB | estimated, GiB | ratio |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        reviews = Path(temporary) / "reviews.jsonl"
        make_reviews(reviews)
        for case in chosen:
            model = Path(temporary) / str(LAYERS[case.sharing])
            if not model.exists():
                make_model(model, LAYERS[case.sharing])
            measured, estimated = run(case, model, reviews, Path(temporary))
            print(
                f"| {case.name} | {case.agents} | {case.zero_stage} | {case.processes} "
                f"| {measured:.2f} | {estimated:.2f} | {estimated / measured:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
