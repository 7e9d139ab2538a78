"""Settings of CORY with prompts of 4 tokens and responses of 6, to reckon with by hand."""

from __future__ import annotations

from cory.config import Config
from tests.support.composing import parsed


def short_prompts(*words: str) -> Config:
    return parsed(
        "algorithm.prompts_per_iteration=8",
        "algorithm.minibatch_size=8",
        "algorithm.sampling.min_response_tokens=6",
        "algorithm.sampling.max_response_tokens=6",
        "task.max_prompt_tokens=4",
        "task.observer_template='{answers}: {query}'",
        "evaluation.prompts=8",
        *words,
    )
