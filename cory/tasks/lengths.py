"""Prompts that are longer than a setting allows: left out of training, refused in evaluation."""

from __future__ import annotations

import sys
from typing import Any

from cory import processes
from cory.config import require
from cory.episode import Prompt


def short_enough(prompts: list[Prompt], tokenizer: Any, longest: int) -> list[Prompt]:
    """The training prompts of at most `longest` tokens; a note says how many there are not."""
    require(bool(prompts), "task.train_split: there is no row in it")
    lengths = _tokens(prompts, tokenizer)
    kept = [p for p, tokens in zip(prompts, lengths, strict=True) if tokens <= longest]
    require(
        bool(kept),
        f"task.max_prompt_tokens={longest}: all {len(prompts)} training prompts are longer",
    )
    if len(kept) < len(prompts) and processes.rank() == 0:
        print(
            f"note: task.max_prompt_tokens={longest} leaves out {len(prompts) - len(kept)} of "
            f"{len(prompts)} training prompts",
            file=sys.stderr,
        )
    return kept


def first_of(
    prompts: list[Prompt], count: int | None, split: str, tokenizer: Any, longest: int
) -> list[Prompt]:
    """The first `count` prompts of a split, or all; a benchmark's rows are never left out."""
    require(
        count is None or count <= len(prompts),
        f"evaluation.prompts ({count}) exceeds the {len(prompts)} {split} questions",
    )
    prompts = prompts[:count]
    for prompt, tokens in zip(prompts, _tokens(prompts, tokenizer), strict=True):
        require(
            tokens <= longest,
            f"task.max_prompt_tokens ({longest}) is below the {tokens} tokens of {split} prompt "
            f"{prompt.id}",
        )
    return prompts


def _tokens(prompts: list[Prompt], tokenizer: Any) -> list[int]:
    texts = [prompt.text for prompt in prompts]
    return [len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
