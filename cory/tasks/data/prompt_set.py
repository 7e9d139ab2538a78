"""The prompts of a task that are all made when it is built, and how runs draw from them."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from cory import distributed
from cory.config import ConfigError, PromptsConfig, require
from cory.episode import Prompt
from cory.models.tokenization import Texts
from cory.tasks.data.epochs import EpochSampler, at_most, hash_of


class PromptSet:
    """Training and test prompts of at most `task.max_prompt_tokens` tokens.

    Longer ones are left out of the training and refused in an evaluation: a benchmark's rows are
    never left out. What is asked in the test is not trained on.
    """

    def __init__(
        self,
        config: PromptsConfig,
        train: list[Prompt],
        test: list[Prompt],
        tokenizer: Any,
        stream: np.random.Generator,
    ) -> None:
        """train, test: all prompts of both parts of the data
        stream: the order of the training prompts comes from it
        """
        from_files = config.source in ("path", "hub")
        where = f"task.path={config.path}" if from_files else f"task={config.name}"
        train, test = pick_subset(config, train, test)
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
        fits = [tokens <= self._max_tokens for tokens in self._lengths(prompts)]
        kept = [prompt for prompt, fit in zip(prompts, fits, strict=True) if fit]
        longer = [prompt for prompt, fit in zip(prompts, fits, strict=True) if not fit]
        said = f"task.max_prompt_tokens={self._max_tokens}"
        require(bool(kept), f"{said}: all {len(prompts)} training prompts are longer")
        if longer:
            distributed.note(
                f"{said} leaves out {len(longer)} of {len(prompts)} training prompts; the first "
                f"is {longer[0].id}"
            )
        return kept

    def _lengths(self, prompts: list[Prompt]) -> list[int]:
        """Tokens of each prompt; of a chat without those that are around any single message.

        Raises ConfigError where the chat template refuses messages.
        """
        texts = [prompt.text for prompt in prompts if prompt.messages is None]
        ids = self._tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        of_texts = map(len, ids)
        return [
            next(of_texts) if prompt.messages is None else self._chat_tokens(prompt)
            for prompt in prompts
        ]

    def _chat_tokens(self, prompt: Prompt) -> int:
        try:
            return self._chat.tokens(prompt.opening) - self._chat.own_tokens
        except ConfigError as error:
            raise ConfigError(f"prompt {prompt.id}: {error}") from None


def pick_subset(
    config: PromptsConfig, train: list[Prompt], test: list[Prompt]
) -> tuple[list[Prompt], list[Prompt]]:
    """The training and test prompts by `task.pick_train`, `pick_test`, `pick_seed`.

    Test prompts are the first of a random order, training prompts the last: both may come from
    one split, and a larger subset contains the smaller ones. Without a number, all prompts.
    """
    if config.pick_train is None and config.pick_test is None:
        return train, test
    order = _shuffled(test, config.pick_seed)
    tested = _first(order, config.pick_test, (), f"task.pick_test={config.pick_test}")
    asked = {question(prompt) for prompt in tested}
    order = _shuffled(train, config.pick_seed)[::-1]
    return _first(order, config.pick_train, asked, f"task.pick_train={config.pick_train}"), tested


def held_out_part(
    prompts: list[Prompt], share: float, seed: int
) -> tuple[list[Prompt], list[Prompt]]:
    """Training and test prompts: all that ask one of `share` of the questions are for the test.

    share: of the different questions, drawn at random by `seed`
    Raises ConfigError where none is left for one of the two.
    """
    questions = list(dict.fromkeys(map(question, prompts)))
    count = round(share * len(questions))
    require(
        0 < count < len(questions),
        f"task.held_out_share={share} of {len(questions)} different prompts is {count}: at least "
        f"one must be held out, and one left to train on",
    )
    order = np.random.default_rng(seed).permutation(len(questions))
    held = {questions[number] for number in order[:count]}
    train = [prompt for prompt in prompts if question(prompt) not in held]
    return train, [prompt for prompt in prompts if question(prompt) in held]


def question(prompt: Prompt) -> str:
    """The text by which prompts are compared: with single spaces; of a chat, all messages."""
    said = [] if prompt.messages is None else [m["content"] for m in prompt.messages[:-1]]
    return " ".join("\n".join([*said, prompt.text]).split())


def _shuffled(prompts: list[Prompt], seed: int) -> list[Prompt]:
    return [prompts[row] for row in np.random.default_rng(seed).permutation(len(prompts))]


def _first(
    prompts: Sequence[Prompt], count: int | None, taken: Collection[str], setting: str
) -> list[Prompt]:
    """The first `count` prompts with different questions that are not taken."""
    distinct: dict[str, Prompt] = {}
    for prompt in prompts:
        distinct.setdefault(question(prompt), prompt)
    free = [prompt for asked, prompt in distinct.items() if asked not in taken]
    besides = " besides those picked for the test" if taken else ""
    require(
        bool(free) and (count is None or count <= len(free)),
        f"{setting}: there are only {len(free)} different questions{besides}",
    )
    return free[:count]


def _untested(train: list[Prompt], test: list[Prompt], where: str) -> list[Prompt]:
    """The training prompts that ask no test question; a note says how many are left out."""
    tested = set(map(question, test))
    free = [prompt for prompt in train if question(prompt) not in tested]
    require(
        bool(free),
        f"{where}: every training prompt is a test prompt, too; choose task.train_split and "
        f"task.test_split that differ, or set task.pick_train and task.pick_test",
    )
    if len(free) < len(train):
        distributed.note(
            f"{where}: {len(train) - len(free)} of {len(train)} training prompts are test prompts, "
            f"too, and are left out of the training"
        )
    return free
