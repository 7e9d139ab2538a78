"""The prompts of a task that are made beforehand, and how runs take from them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from cory import distributed
from cory.config import require
from cory.episode import Prompt
from cory.tasks.data.epochs import EpochSampler


class PromptSet:
    """Training and test prompts; none longer than a setting allows.

    Longer ones are left out of the training and refused in an evaluation: a benchmark's rows are
    never left out.
    """

    def __init__(
        self,
        train: list[Prompt],
        test: list[Prompt],
        tokenizer: Any,
        longest: int,
        stream: np.random.Generator,
    ) -> None:
        """longest: tokens of a prompt, task.max_prompt_tokens"""
        self.tokenizer = tokenizer
        self.longest = longest
        self.parts = {"train": self._short_enough(train), "test": test}
        self.sampler = EpochSampler(len(self.parts["train"]), stream)

    def sample(self, count: int) -> list[Prompt]:
        """The next prompts: every one once per pass, passes shuffled anew."""
        train = self.parts["train"]
        return [train[self.sampler.next()] for _ in range(count)]

    def held_out(self, count: int | None, split: str) -> list[Prompt]:
        """The first `count` prompts of a split, or all."""
        prompts = self.parts[split]
        require(
            count is None or count <= len(prompts),
            f"evaluation.prompts ({count}) exceeds the {len(prompts)} {split} questions",
        )
        prompts = prompts[:count]
        for prompt, tokens in zip(prompts, self._tokens(prompts), strict=True):
            require(
                tokens <= self.longest,
                f"task.max_prompt_tokens ({self.longest}) is below the {tokens} tokens of {split} "
                f"prompt {prompt.id}",
            )
        return prompts

    def _short_enough(self, prompts: list[Prompt]) -> list[Prompt]:
        """The prompts that are; a note says how many are not."""
        require(bool(prompts), "task.train_split: there is no row in it")
        kept = [
            prompt
            for prompt, tokens in zip(prompts, self._tokens(prompts), strict=True)
            if tokens <= self.longest
        ]
        require(
            bool(kept),
            f"task.max_prompt_tokens={self.longest}: all {len(prompts)} training prompts are "
            f"longer",
        )
        if len(kept) < len(prompts) and distributed.rank() == 0:
            print(
                f"note: task.max_prompt_tokens={self.longest} leaves out "
                f"{len(prompts) - len(kept)} of {len(prompts)} training prompts",
                file=sys.stderr,
            )
        return kept

    def _tokens(self, prompts: list[Prompt]) -> list[int]:
        texts = [prompt.text for prompt in prompts]
        ids = self.tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        return [len(row) for row in ids]


class PromptSetTask:
    """A task whose prompts are made beforehand: what `Task` asks for besides a form."""

    prompt_set: PromptSet

    @property
    def sampler(self) -> EpochSampler:
        """Over the training prompts."""
        return self.prompt_set.sampler

    def sample(self, count: int) -> list[Prompt]:
        """As `PromptSet`."""
        return self.prompt_set.sample(count)

    def held_out(self, count: int | None, split: str) -> list[Prompt]:
        """As `PromptSet`."""
        return self.prompt_set.held_out(count, split)

    def state_dict(self) -> dict[str, Any]:
        """What is left of the present pass."""
        return self.sampler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.sampler.load_state_dict(state)
