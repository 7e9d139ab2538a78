"""A worker of scripts/benchmark_peers.py: iterations of PPO and of CORY in TRL 0.11.4.

It runs in an environment of its own, which that script makes. Not timed: the scores, which are
random numbers here.
"""

import argparse
import json
import time
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from trl import AutoModelForCausalLMWithValueHead, PPOConfig, PPOTrainer, create_reference_model

from cory.performance.alternation import Answer, serve

NEW_TOKENS = 16
OBSERVER = 'I can make this sentence "{whole}" more positive: {query}'


class Iteration:
    """One PPO trainer, or two of which the second sees the first one's answers."""

    def __init__(
        self, folder: Path, prompts: list[list[int]], agents: int, batch: int, mixed: bool
    ) -> None:
        """folder: of the model; batch: prompts that are answered at once"""
        self.prompts = [torch.tensor(row) for row in prompts]
        self.batch = batch
        self.tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer.from_file(str(folder / "tokenizer.json")),
            pad_token="<|endoftext|>",
            eos_token="<|endoftext|>",
            padding_side="left",
        )
        settings = PPOConfig(
            batch_size=len(prompts),
            mini_batch_size=len(prompts),
            gradient_accumulation_steps=1,
            ppo_epochs=4,
            kl_penalty="full",
            learning_rate=1e-5,
            accelerator_kwargs={"mixed_precision": "bf16"} if mixed else {},
        )
        reference = None
        self.trainers: list[PPOTrainer] = []
        for _ in range(agents):
            model = AutoModelForCausalLMWithValueHead.from_pretrained(
                str(folder),
                # on a CPU the backward pass of the other implementation is slow in bfloat16
                attn_implementation="eager" if mixed else "sdpa",
                summary_dropout_prob=0.0,
            )
            reference = reference or create_reference_model(model)
            self.trainers.append(PPOTrainer(settings, model, reference, self.tokenizer))

    def step(self) -> Answer:
        """Roll out and update every agent; both times."""
        start = time.perf_counter()
        if len(self.trainers) == 1:
            turns = [(self.prompts, self._answers(0, self.prompts))]
        else:
            first = self._answers(0, self.prompts)
            seen = [
                self._observed(query, answer)
                for query, answer in zip(self.prompts, first, strict=True)
            ]
            turns = [(self.prompts, first), (seen, self._answers(1, seen))]
        middle = time.perf_counter()
        for trainer, (queries, answers) in zip(self.trainers, turns, strict=True):
            trainer.step(queries, answers, list(0.1 * torch.randn(len(queries))))
        end = time.perf_counter()
        tokens = sum(len(answer) for _, answers in turns for answer in answers)
        seconds = {"rollout": middle - start, "update": end - middle, "iteration": end - start}
        return {"seconds": seconds, "tokens": tokens}

    def _answers(self, agent: int, queries: list[torch.Tensor]) -> list[torch.Tensor]:
        """As CORY's released code asks: with two agents, the reference answers too."""
        sampled = self.trainers[agent].generate(
            queries,
            batch_size=self.batch,
            return_prompt=False,
            generate_ref_response=len(self.trainers) == 2,
            max_new_tokens=NEW_TOKENS,
            min_new_tokens=NEW_TOKENS,
            do_sample=True,
            top_k=0,
            top_p=1.0,
            pad_token_id=self.tokenizer.pad_token_id,
        )
        return sampled[0] if len(self.trainers) == 2 else sampled

    def _observed(self, query: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
        """The observer's prompt, in the words of CORY's released code."""
        asked, said = self.tokenizer.decode(query), self.tokenizer.decode(answer)
        text = OBSERVER.format(whole=asked + said, query=asked)
        return torch.tensor(self.tokenizer(text)["input_ids"])

    def versions(self) -> Answer:
        """Of what is compared."""
        return {"torch": torch.__version__, "transformers": transformers.__version__}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="folder of a GPT-2")
    parser.add_argument("prompts", type=Path, help="JSON: token ids of each prompt")
    parser.add_argument("--agents", type=int, default=1, choices=(1, 2))
    parser.add_argument("--generation-batch", type=int, default=4)
    parser.add_argument("--mixed", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    prompts = json.loads(args.prompts.read_text())["ids"]
    iteration = Iteration(args.model, prompts, args.agents, args.generation_batch, args.mixed)
    serve({"step": iteration.step, "versions": iteration.versions})


if __name__ == "__main__":
    main()
