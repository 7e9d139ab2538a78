"""Time the iteration of scripts/benchmark.py in TRL 0.11.4, for comparison.

Runs in an environment of its own:

    pip install torch==2.13.0
    pip install trl==0.11.4 transformers==4.46.3 peft==0.13.2 accelerate==1.1.1 "datasets<4" rich
    python scripts/benchmark_trl.py                        # one generation batch of 64
    python scripts/benchmark_trl.py --generation-batch 4   # TRL's default

A GPT-2 of `tiny`'s shape with random weights; EOS is suppressed, so that every response has 16
tokens. TRL's defaults otherwise, dropout of 0.1 included. Scoring is not timed.
"""

import argparse
import statistics
import tempfile
import time

import torch
from tokenizers import Tokenizer, models
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import AutoModelForCausalLMWithValueHead, PPOConfig, PPOTrainer, create_reference_model

VOCABULARY, PROMPTS, PROMPT_TOKENS, NEW_TOKENS = 4096, 64, 6, 16


def build() -> PPOTrainer:
    words = {f"w{i}": i for i in range(VOCABULARY)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="w1")),
        pad_token="w0",
        eos_token="w0",
        unk_token="w1",
        padding_side="left",
    )
    config = GPT2Config(
        n_layer=4,
        n_embd=192,
        n_head=6,
        vocab_size=VOCABULARY,
        n_positions=256,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    with tempfile.TemporaryDirectory() as folder:
        GPT2LMHeadModel(config).save_pretrained(folder)
        model = AutoModelForCausalLMWithValueHead.from_pretrained(folder)
    settings = PPOConfig(
        batch_size=PROMPTS,
        mini_batch_size=PROMPTS,
        gradient_accumulation_steps=1,
        ppo_epochs=4,
        kl_penalty="full",
        learning_rate=1e-4,
        seed=0,
    )
    return PPOTrainer(settings, model, create_reference_model(model), tokenizer)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--iterations", type=int, default=10, help="counted iterations")
    parser.add_argument("--generation-batch", type=int, default=PROMPTS)
    args = parser.parse_args()
    torch.manual_seed(0)
    trainer = build()
    generate, step = [], []
    for iteration in range(args.iterations + 1):
        queries = list(torch.randint(1, VOCABULARY, (PROMPTS, PROMPT_TOKENS)))
        start = time.perf_counter()
        responses = trainer.generate(
            queries,
            batch_size=args.generation_batch,
            return_prompt=False,
            max_new_tokens=NEW_TOKENS,
            min_new_tokens=NEW_TOKENS,
            do_sample=True,
            top_k=0,
            top_p=1.0,
            pad_token_id=0,
        )
        middle = time.perf_counter()
        trainer.step(queries, responses, list(0.1 * torch.randn(PROMPTS)))
        if iteration > 0:  # the first is the warm-up
            generate.append(middle - start)
            step.append(time.perf_counter() - middle)
    total = statistics.median(g + s for g, s in zip(generate, step, strict=True))
    print(f"medians of {args.iterations} iterations, {torch.get_num_threads()} threads")
    print(f"  generate  {statistics.median(generate):.3f} s")
    print(f"  step      {statistics.median(step):.3f} s")
    print(f"  total     {total:.3f} s")


if __name__ == "__main__":
    main()
