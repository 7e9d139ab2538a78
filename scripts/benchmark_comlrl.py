"""A worker of scripts/benchmark_peers.py: passes of CoMLRL 1.3.7's independent actor-critic.

It runs in an environment of its own, which that script makes. Scores are random numbers.
"""

import argparse
import json
import random
import time
from pathlib import Path

import torch
import transformers
from comlrl.trainers.actor_critic import IACConfig, IACTrainer
from datasets import Dataset
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from cory.performance.alternation import Answer, serve

NEW_TOKENS = 16


class Pass:
    """Two agents of CoMLRL, and as many joint samples as there are prompts."""

    def __init__(self, folder: Path, prompts: list[str], generations: int, dtype: str) -> None:
        """generations: joint samples of one prompt, which the library draws in one batch."""
        self.samples = len(prompts)
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer.from_file(str(folder / "tokenizer.json")),
            pad_token="<|endoftext|>",
            eos_token="<|endoftext|>",
        )
        agents = [
            AutoModelForCausalLM.from_pretrained(
                str(folder), dtype=getattr(torch, dtype), trust_remote_code=False
            )
            for _ in range(2)
        ]
        for agent in agents:
            # every answer has the same number of tokens, drawn from the policy as it is
            agent.generation_config.update(
                min_new_tokens=NEW_TOKENS, top_k=0, pad_token_id=0, eos_token_id=0
            )
        self.trainer = IACTrainer(
            agents=agents,
            tokenizer=tokenizer,
            reward_func=self.reward,
            args=IACConfig(
                num_agents=2,
                num_turns=1,
                num_generations=generations,
                max_new_tokens=NEW_TOKENS,
                temperature=1.0,
                top_p=1.0,
                num_train_epochs=1,
                use_separate_critic=False,
                agent_learning_rate=1e-6,
                rollout_buffer_size=self.samples,  # one update on all samples of a pass
                train_batch_size=self.samples,
            ),
            train_dataset=Dataset.from_dict({"prompt": prompts[: self.samples // generations]}),
        )
        self.trainer.verbose = False

    @staticmethod
    def reward(*completions: list[str]) -> list[float]:
        """A random score of each joint sample."""
        return [0.1 * random.gauss(0, 1) for _ in completions[0]]

    def step(self) -> Answer:
        """One pass over the prompts, and its time."""
        start = time.perf_counter()
        self.trainer.train()
        seconds = time.perf_counter() - start
        return {"seconds": {"iteration": seconds}, "tokens": 2 * self.samples * NEW_TOKENS}

    def versions(self) -> Answer:
        """Of what is compared."""
        return {"torch": torch.__version__, "transformers": transformers.__version__}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="folder of a GPT-2")
    parser.add_argument("prompts", type=Path, help="JSON: text of each prompt")
    parser.add_argument("--generations", type=int, default=1, help="of each prompt")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    args = parser.parse_args()
    torch.manual_seed(0)
    prompts = json.loads(args.prompts.read_text())["texts"]
    one = Pass(args.model, prompts, args.generations, args.dtype)
    serve({"step": one.step, "versions": one.versions})


if __name__ == "__main__":
    main()
