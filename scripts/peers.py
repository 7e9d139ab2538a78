"""What other libraries do in the comparisons of scripts/benchmark.py, in environments of their own.

    python scripts/peers.py {trl,magrpo,iac} MODEL    # one iteration for each line that it reads
    python scripts/peers.py trl MODEL ARGUMENTS       # other work: of the function, as JSON

TRL's GRPO, and CoMLRL's MAGRPO and independent actor-critic (IAC). Each prints the seconds of each
iteration as JSON. Scores are random numbers, in ours, too: `score` and `pair` are ours.
"""

import asyncio
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

TOKENS = 16  # of a response
SAMPLES, STEPS = 4, 4  # of a prompt; of the optimiser, in an iteration of GRPO
RATE = 1e-6
PROMPTS = [f"What is the result of {10 + 7 * n} + {3 + n} * {2 + 5 * n}?" for n in range(16)]
HELD_OUT = "What is the result of 45 + 17 * 36?"
ANSWER = "@seconds "


def score(completions: list[str], **_: object) -> list[float]:
    """A random score of each response."""
    return [random.random() for _ in completions]


async def pair(prompt: Any, team: Any) -> dict[str, float]:
    """Two agents answer at once, neither seeing the other, and share a random score."""
    await asyncio.gather(team.a.say(prompt.opening), team.b.say(prompt.opening))
    return dict.fromkeys("ab", random.random() / 2)


def serve(step: Callable[[], object]) -> None:
    """An iteration for each line on standard input, and its seconds with what it returns."""
    for _ in sys.stdin:
        start = time.perf_counter()
        found = step()
        told(start, found)
    os._exit(0)  # threads of libraries may abort a normal exit


def told(start: float, found: object = None) -> None:
    """Print the seconds since the start of an iteration."""
    print(f"{ANSWER}{json.dumps([time.perf_counter() - start, found])}", flush=True)


def trl_settings(folder: str, prompts: int, samples: int, tokens: int, dtype: str) -> Any:
    """Those of GRPO for so many prompts, with as many optimiser steps as ours."""
    import torch  # noqa: PLC0415
    from trl import GRPOConfig  # noqa: PLC0415

    return GRPOConfig(
        output_dir=folder,
        max_steps=10**6,
        per_device_train_batch_size=prompts * samples // STEPS,
        steps_per_generation=STEPS,
        num_generations=samples,
        max_completion_length=tokens,
        generation_kwargs={"min_new_tokens": tokens},
        model_init_kwargs={"dtype": dtype},
        learning_rate=RATE,
        lr_scheduler_type="constant",
        beta=0.04,
        loss_type="grpo",
        bf16=dtype == "bfloat16",
        use_cpu=not torch.cuda.is_available(),
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )


def trl(
    model: str,
    prompts: list[str] = PROMPTS,
    samples: int = SAMPLES,
    tokens: int = TOKENS,
    lora: dict[str, Any] | None = None,
    dtype: str = "float32",
) -> None:
    """GRPO: a roll-out, and optimiser steps on quarters of it, with the KL to the reference.

    Of each iteration it tells the roll-out's seconds and tokens, and the most memory so far, GiB.
    """
    import torch  # noqa: PLC0415
    from datasets import Dataset  # noqa: PLC0415
    from peft import LoraConfig  # noqa: PLC0415
    from transformers import TrainerCallback  # noqa: PLC0415
    from trl import GRPOTrainer  # noqa: PLC0415

    cuda, found = torch.cuda.is_available(), {}

    class Timed(GRPOTrainer):
        def _generate_single_turn(self, *args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            said = super()._generate_single_turn(*args, **options)  # on the CPU: a GPU is done
            found["rollout_s"] = time.perf_counter() - start
            found["tokens"] = sum(map(len, said[0]))
            return said

    class Turns(TrainerCallback):
        """Waits for a line before each roll-out."""

        start: float | None = None

        def on_step_begin(self, _: object, state: Any, *__: object, **___: object) -> None:
            if state.global_step % STEPS:
                return
            if self.start is not None:
                most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
                if cuda:
                    torch.cuda.synchronize()
                    most = torch.cuda.max_memory_allocated()
                told(self.start, found | {"peak_gib": most / 2**30})
            if not sys.stdin.readline():
                os._exit(0)
            self.start = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        Timed(
            model=model,
            reward_funcs=score,
            args=trl_settings(folder, len(prompts), samples, tokens, dtype),
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            peft_config=LoraConfig(**lora) if lora else None,
            callbacks=[Turns()],
        ).train()


def comlrl(model: str, iac: bool) -> None:
    """A pass of two agents over the prompts, and one update of each on all of its responses."""
    from comlrl.trainers.actor_critic import IACConfig, IACTrainer  # noqa: PLC0415
    from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer  # noqa: PLC0415
    from datasets import Dataset  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    agents = [
        AutoModelForCausalLM.from_pretrained(model, dtype="float32", trust_remote_code=False)
        for _ in range(2)
    ]
    for agent in agents:
        agent.generation_config.update(min_new_tokens=TOKENS, top_k=0)
    rows = len(PROMPTS) * SAMPLES
    settings = (IACConfig if iac else MAGRPOConfig)(
        num_turns=1,
        num_generations=SAMPLES,
        max_new_tokens=TOKENS,
        temperature=1.0,
        top_p=1.0,
        top_k=0 if not iac else None,
        num_train_epochs=1,
        agent_learning_rate=RATE,
        rollout_buffer_size=rows,
        train_batch_size=rows,
        eval_interval=0,
        **({"use_separate_critic": False} if iac else {}),
    )
    trainer = (IACTrainer if iac else MAGRPOTrainer)(
        agents=agents,
        tokenizer=AutoTokenizer.from_pretrained(model, trust_remote_code=False),
        reward_func=lambda *completions: score(completions[0]),
        args=settings,
        train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
    )
    trainer.verbose = False
    serve(trainer.train)


if __name__ == "__main__":
    _, name, folder, *work = sys.argv
    trl(folder, **json.loads(*work or ["{}"])) if name == "trl" else comlrl(folder, name == "iac")
