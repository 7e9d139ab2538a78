"""TRL's GRPO in its own environment, on the work of an iteration: a program of scripts/gpu.py.

PYTHON scripts/gpu_trl.py WORK.json
"""

import json
import random
import resource
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any


def trl(work: dict[str, Any]) -> dict[str, Any]:
    """Iterations of GRPO: so many optimiser steps on one roll-out, with the KL to a reference."""
    import torch  # noqa: PLC0415
    from datasets import Dataset  # noqa: PLC0415
    from peft import LoraConfig  # noqa: PLC0415
    from transformers import TrainerCallback  # noqa: PLC0415
    from trl import GRPOConfig, GRPOTrainer  # noqa: PLC0415

    cuda = torch.cuda.is_available()
    steps, rollouts, tokens, ended = work["steps"], [], [], []
    lora, dtype = work.get("lora"), work.get("dtype", "float32")

    def now() -> float:
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

    class Timed(GRPOTrainer):
        def _generate_single_turn(self, *args: Any, **options: Any) -> Any:
            began = now()
            found = super()._generate_single_turn(*args, **options)
            rollouts.append(now() - began)
            tokens.append(sum(map(len, found[0])))
            return found

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ended.append(now())

    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            output_dir=folder,
            max_steps=(work["iterations"] + 1) * steps,
            per_device_train_batch_size=len(work["prompts"]) * work["samples"] // steps,
            steps_per_generation=steps,
            num_generations=work["samples"],
            max_completion_length=work["tokens"],
            generation_kwargs={"min_new_tokens": work["tokens"]},
            learning_rate=work["learning_rate"],
            beta=0.04,
            loss_type="grpo",
            model_init_kwargs={"dtype": dtype},
            bf16=dtype == "bfloat16",
            use_cpu=not cuda,
            gradient_checkpointing=False,
            dataloader_pin_memory=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        Timed(
            model=work["model"],
            reward_funcs=lambda completions, **_: [random.random() for _ in completions],
            args=settings,
            train_dataset=Dataset.from_dict({"prompt": work["prompts"]}),
            peft_config=LoraConfig(**lora) if lora else None,
            callbacks=[Clock()],
        ).train()
    ends = ended[steps - 1 :: steps]
    main, gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, 2**30
    return {
        "seconds": [b - a for a, b in pairwise(ends)],
        "rollout_s": rollouts[1:],
        "tokens": tokens[1:],
        "peak_gib": (torch.cuda.max_memory_allocated() if cuda else main) / gib,
    }


if __name__ == "__main__":
    print(json.dumps(trl(json.loads(Path(sys.argv[1]).read_text()))))
