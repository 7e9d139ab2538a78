"""Train the models of cory/assets that solve problems of `task=arithmetic`.

    python scripts/make_tiny_math.py --name tiny_steps --steps 4400   # as shipped
    python scripts/make_tiny_math.py --name tiny_sums    # the same for another one
    python scripts/make_tiny_math.py --steps 6000        # longer

As in scripts/make_tiny_models.py, a run that was stopped continues, and `facts.json` beside the
model holds the numbers of cory/assets/README.md.
"""

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import step_documents
import torch
from make_tiny_models import CONTEXT, END, fit, save, train_tokenizer
from tokenizers import Regex, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from cory.functional.logprobs import padded
from cory.tasks.answers import final_number
from cory.tasks.problems import Problem, draw_distinct, draw_problem

BATCH = 64
DIGITS = pre_tokenizers.Digits(individual_digits=True)
SPACED_DIGITS = pre_tokenizers.Split(Regex(" ?[0-9]"), "isolated")  # fewer tokens
Document = Callable[[np.random.Generator, Sequence[str]], tuple[str, str]]
Pair = tuple[list[int], list[int]]  # token ids of a prompt and of its response
# as cory/assets/team/split.py shows the halves
TELLING = "{question} You know: {first}. Tell:"
ANSWERING = "{question} Told: {told}. You know: {second}. Answer:"
REFERENCES = (0, 0, 0, 1, 1, 2, 3)  # number of reference answers in a prompt, drawn uniformly
RIGHT = 0.5  # share of right reference answers


def one_wrong_number(solution: str, stream: np.random.Generator) -> str:
    """The solution with a slightly wrong answer."""
    answer = re.findall(r"-?\d+", solution)[-1]
    wrong = int(answer) + int(stream.choice([-20, -10, -2, -1, 1, 2, 10, 20]))
    head, _, tail = solution.rpartition(answer)
    return f"{head}{wrong}{tail}"


def faultless(stream: np.random.Generator, kinds: Sequence[str]) -> tuple[str, str]:
    """A prompt, with none to three solutions of others, and the right solution to train on."""
    problem = draw_problem(stream, kinds, "lm")
    shown = f"Question: {problem.question}"
    for _ in range(int(stream.choice(REFERENCES))):
        right = stream.random() < RIGHT
        other = problem.solution if right else one_wrong_number(problem.solution, stream)
        shown += f" Reference: {other}"
    return f"{shown} Answer:", f" {problem.solution}"


def told_half(stream: np.random.Generator, kinds: Sequence[str]) -> tuple[str, str]:
    """What an agent of `task=split` is shown, and what is learnt.

    Who is to tell something says what would help with any other problem; who is to answer is told
    what helps, or nothing.
    """
    problem = draw_problem(stream, kinds, "lm")
    columns, drawn = problem.columns, stream.random()
    if drawn < 0.25:
        other = draw_problem(stream, [problem.kind], "lm").columns["message"]
        return TELLING.format_map(columns), f" {other}"
    told = columns["message"] if drawn < 0.95 else ""
    return ANSWERING.format_map({**columns, "told": told}), f" {problem.answer}"


@dataclass(frozen=True)
class Recipe:
    """The settings in which the models differ."""

    document: Document  # a prompt and the response to train on
    kinds: Sequence[str]  # of problems, drawn evenly
    context: int  # tokens
    digits: pre_tokenizers.PreTokenizer | None  # how numbers are cut; None: they are not
    vocabulary: int
    width: int
    inner: int  # width inside an MLP
    layers: int
    heads: int
    held_out: int  # problems to measure the model on
    products: torch.dtype = torch.float32  # precision of matrix products
    group: int = 16  # batches that are sorted by length together
    first: Document | None = None  # in place of `document` for the first steps ...
    first_share: float = 0.0  # ... so many of all
    more_steps: int = 0  # after these, with a new optimiser at half the learning rate


STEPS = Recipe(
    document=step_documents.document,
    kinds=["chain", "chain", "chain", "story"],
    context=384,
    digits=SPACED_DIGITS,
    vocabulary=512,
    width=128,
    inner=344,
    layers=4,
    heads=4,
    held_out=1_000,
    products=torch.bfloat16,
    first=step_documents.faultless,
    first_share=0.8,
    more_steps=1_400,
)
STEPS_2X = replace(STEPS, width=192, inner=512, heads=6)  # twice the weights, the same problems
MATH = Recipe(
    document=faultless,
    kinds=["add", "subtract", "multiply", "story", "mixed"],
    context=CONTEXT,
    digits=DIGITS,
    vocabulary=512,
    width=160,
    inner=432,
    layers=4,
    heads=5,
    held_out=1_000,
)
# a specialist with another tokenizer and half the weights
SUMS = Recipe(
    document=faultless,
    kinds=["add", "subtract"],
    context=CONTEXT,
    digits=DIGITS,
    vocabulary=288,
    width=128,
    inner=344,
    layers=3,
    heads=4,
    held_out=500,
)
# it answers if it is told the other half; numbers are whole tokens
SPLIT = replace(
    SUMS,
    document=told_half,
    kinds=["addends_2", "rows_2", "rows_4", "roads_8"],
    context=128,
    digits=None,
    vocabulary=384,
    held_out=600,
    group=1,  # sorted by length, a batch would have one kind
)
RECIPES = {
    "tiny_split": SPLIT,
    "tiny_steps": STEPS,
    "tiny_steps_2x": STEPS_2X,
    "tiny_math": MATH,
    "tiny_sums": SUMS,
}


def problem_tokenizer(recipe: Recipe) -> PreTrainedTokenizerFast:
    """Byte-level BPE on problems, one token per digit where the recipe cuts numbers so."""
    stream = np.random.default_rng(1)
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if recipe.digits is None:
        texts = ["".join(recipe.document(stream, recipe.kinds)) for _ in range(20_000)]
    else:
        cut = pre_tokenizers.Sequence([recipe.digits, cut])
        drawn = (draw_problem(stream, recipe.kinds, "lm") for _ in range(20_000))
        texts = [
            f"Question: {p.question} Reference: {p.solution} Answer: {p.solution}" for p in drawn
        ]
    tokenizer = train_tokenizer(texts, recipe.vocabulary, cut)
    tokenizer.model_max_length = recipe.context
    return tokenizer


def llama(recipe: Recipe, end: int) -> LlamaForCausalLM:
    """A model with random weights; end: its EOS token."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=recipe.vocabulary,
            hidden_size=recipe.width,
            intermediate_size=recipe.inner,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.heads,
            max_position_embeddings=recipe.context,
            tie_word_embeddings=True,
            bos_token_id=end,
            eos_token_id=end,
            pad_token_id=end,
            attn_implementation="eager",  # the fastest one on a CPU at these sizes
        )
    )


def batches_by_length(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, number: int, early: bool
) -> list[list[Pair]]:
    """`recipe.group` batches in a random order, each of documents of about the same length.

    number: of the group, from 0, which is its seed
    early: whether the recipe's first documents, if it has some, are drawn
    """
    stream = np.random.default_rng([2, number])
    draw = recipe.first if recipe.first and early else recipe.document
    texts = [draw(stream, recipe.kinds) for _ in range(recipe.group * BATCH)]
    prompts = tokenizer([text[0] for text in texts])["input_ids"]
    responses = tokenizer([text[1] + END for text in texts])["input_ids"]
    pairs = sorted(zip(prompts, responses, strict=True), key=lambda pair: len(pair[0] + pair[1]))
    batches = [pairs[i * BATCH : (i + 1) * BATCH] for i in range(recipe.group)]
    return [batches[i] for i in stream.permutation(recipe.group)]


def response_loss(
    model: LlamaForCausalLM, recipe: Recipe, pairs: list[Pair], end: int
) -> torch.Tensor:
    """Nats per token of the responses."""
    ids, mask = padded([(a + b)[: recipe.context] for a, b in pairs], end)
    labels = ids.masked_fill(~mask, -100)
    for row, (prompt_ids, _) in enumerate(pairs):
        labels[row, : len(prompt_ids)] = -100
    with torch.autocast("cpu", recipe.products, enabled=recipe.products != torch.float32):
        loss: torch.Tensor = model(input_ids=ids, attention_mask=mask.long(), labels=labels).loss
    return loss


def make(name: str, steps: int, work: Path) -> None:
    """Train, measure and save."""
    recipe = RECIPES[name]
    tokenizer = problem_tokenizer(recipe)
    end = tokenizer.eos_token_id
    torch.manual_seed(0)
    model = llama(recipe, end)

    @lru_cache(maxsize=1)
    def group(number: int, early: bool) -> list[list[Pair]]:
        return batches_by_length(recipe, tokenizer, number, early)

    def loss_of_step(step: int) -> torch.Tensor:
        number, place = divmod(step, recipe.group)
        early = number * recipe.group < recipe.first_share * steps
        return response_loss(model, recipe, group(number, early)[place], end)

    seconds = fit(name, model, loss_of_step, steps, 2e-3, work)
    if recipe.more_steps:
        seconds += fit(
            f"{name}_more", model, lambda step: loss_of_step(steps + step),
            recipe.more_steps, 1e-3, work,
        )  # fmt: skip
    model.float().eval()
    done = {"steps": steps + recipe.more_steps, "seconds": round(seconds)}
    save(name, model, tokenizer, done | measured(model, tokenizer, recipe, done["steps"]))


def measured(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, recipe: Recipe, steps: int
) -> dict[str, Any]:
    """The numbers of facts.json that depend on the model."""
    held_out = draw_distinct(np.random.default_rng(3), recipe.kinds, "test", recipe.held_out)
    texts = respond(model, tokenizer, [asked(p) for p in held_out])
    answered = list(zip(held_out, texts, strict=True))
    return {
        "parameters": model.num_parameters(),
        "problems": steps * BATCH,
        "held_out_problems": recipe.held_out,
        "greedy_accuracy": accuracy(answered),
        "greedy_accuracy_by_kind": {
            kind: accuracy([(p, t) for p, t in answered if p.kind == kind])
            for kind in dict.fromkeys(recipe.kinds)
        },
        "samples": [f"{p.question} |{t}" for p, t in answered[:8]],
    }


def asked(problem: Problem) -> str:
    """What a model is measured with; of two halves: told what it has to know."""
    if not problem.columns:
        return f"Question: {problem.question} Answer:"
    return ANSWERING.format_map({**problem.columns, "told": problem.columns["message"]})


def accuracy(answered: list[tuple[Problem, str]]) -> float:
    """Share of the texts with the problem's answer, to three digits."""
    right = [
        text.strip() == problem.answer
        if problem.columns
        else final_number(text) == final_number(problem.answer)
        for problem, text in answered
    ]
    return round(sum(right) / len(right), 3)


@torch.no_grad()
def respond(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, prompts: list[str]
) -> list[str]:
    """The greedy response to each prompt."""
    texts: list[str] = []
    for start in range(0, len(prompts), 100):
        ids, mask = padded(
            tokenizer(prompts[start : start + 100])["input_ids"], tokenizer.pad_token_id, "left"
        )
        out = model.generate(
            ids,
            attention_mask=mask.long(),
            do_sample=False,
            max_new_tokens=96,
            pad_token_id=tokenizer.pad_token_id,
        )
        texts += tokenizer.batch_decode(out[:, ids.shape[1] :], skip_special_tokens=True)
    return texts


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", choices=RECIPES, default="tiny_steps")
    parser.add_argument("--steps", type=int, default=3_000, help=f"of {BATCH} problems each")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("outputs/tiny_models"),
        help="where unfinished state is kept",
    )
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    make(args.name, args.steps, args.work)


if __name__ == "__main__":
    main()
