"""The prompts of a task that are all made when it is built, and how runs draw from them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cory import distributed
from cory.config import PromptsConfig, require
from cory.config.task import MessageConfig, QuestionsConfig
from cory.episode import Prompt
from cory.models.tokenization import Texts
from cory.tasks.data.chats import chat_tokens
from cory.tasks.data.epochs import EpochSampler, at_most, hash_of
from cory.tasks.data.subset import pick_subset, question


class PromptSet:
    """Training and test prompts of at most `task.max_prompt_tokens` tokens.

    Longer ones are left out of the training and refused in an evaluation: a benchmark's rows are
    never left out. What is asked in the test is not trained on. Tasks inherit from it beside their
    form.
    """

    def __init__(
        self,
        config: QuestionsConfig | MessageConfig | PromptsConfig,
        prompts_of: Callable[[str], list[Prompt]],
        tokenizer: Any,
        stream: np.random.Generator,
    ) -> None:
        """prompts_of: all prompts of a part of the data, `train` or `test`
        stream: the order of the training prompts comes from it
        """
        train, test = pick_subset(config, prompts_of("train"), prompts_of("test"))
        where = f"task.path={config.path}" if config.path is not None else f"task={config.name}"
        train = _untested(train, test, where)
        self._tokenizer = tokenizer
        self._chat = Texts(tokenizer, "model.chat=true", chat=True)
        self._max_tokens = config.max_prompt_tokens
        self.parts = {"train": self._short_enough(train), "test": test}
        said = (
            [prompt.text, prompt.answer, prompt.columns, prompt.messages]
            for part in self.parts.values()
            for prompt in part
        )
        self.sampler = EpochSampler(len(self.parts["train"]), stream, hash_of(said), where)
        self.state_dict = self.sampler.state_dict
        self.load_state_dict = self.sampler.load_state_dict

    def sample(self, count: int) -> list[Prompt]:
        """The next training prompts: each once per epoch, epochs in new random orders."""
        train = self.parts["train"]
        return [train[self.sampler.next()] for _ in range(count)]

    def held_out(self, count: int | None, split: str) -> list[Prompt]:
        """The first `count` prompts of a split, or all; ConfigError for one that is too long."""
        prompts = self.parts[split]
        count = at_most(count, len(prompts), f"{split} questions")
        prompts = prompts[:count]
        for prompt, tokens in zip(prompts, self._lengths(prompts), strict=True):
            require(
                tokens <= self._max_tokens,
                f"task.max_prompt_tokens ({self._max_tokens}) is below the {tokens} tokens of "
                f"{split} prompt {prompt.id}",
            )
        return prompts

    def _short_enough(self, prompts: list[Prompt]) -> list[Prompt]:
        """The prompts that are not too long; a note says how many are left out."""
        require(bool(prompts), "task.train_split: there is no row in it")
        kept: list[Prompt] = []
        longer: list[Prompt] = []
        for prompt, tokens in zip(prompts, self._lengths(prompts), strict=True):
            (kept if tokens <= self._max_tokens else longer).append(prompt)
        require(
            bool(kept),
            f"task.max_prompt_tokens={self._max_tokens}: all {len(prompts)} training prompts are "
            f"longer",
        )
        if longer:
            distributed.note(
                f"task.max_prompt_tokens={self._max_tokens} leaves out {len(longer)} of "
                f"{len(prompts)} training prompts; the first is {longer[0].id}"
            )
        return kept

    def _lengths(self, prompts: list[Prompt]) -> list[int]:
        """Tokens of each prompt; of chat messages, see `chat_tokens`."""
        texts = [prompt.text for prompt in prompts if prompt.messages is None]
        ids = self._tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        of_texts = map(len, ids)
        return [
            next(of_texts) if prompt.messages is None else chat_tokens(prompt, self._chat)
            for prompt in prompts
        ]


def _untested(train: list[Prompt], test: list[Prompt], where: str) -> list[Prompt]:
    """The training prompts that ask no test question; a note says how many are left out."""
    tested = set(map(question, test))
    free = [prompt for prompt in train if question(prompt) not in tested]
    require(
        bool(free) or not train,
        f"{where}: every training prompt is a test prompt, too; choose task.train_split and "
        f"task.test_split that differ, or set task.pick_train and task.pick_test",
    )
    if len(free) < len(train):
        distributed.note(
            f"{where}: {len(train) - len(free)} of {len(train)} training prompts are test prompts, "
            f"too, and are left out of the training"
        )
    return free
