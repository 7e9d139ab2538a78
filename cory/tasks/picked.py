"""Some of a task's problems, so many to train and so many to be tested on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cory.config import PickConfig, require
from cory.episode import Prompt


def picked(
    config: PickConfig, train: list[Prompt], test: list[Prompt]
) -> tuple[list[Prompt], list[Prompt]]:
    """The training and the test problems that `config` asks for; all, where it asks for none.

    Test problems come first in a random order, training problems last in it: so both may come from
    one split, and a larger number of either holds the smaller one.
    """
    if not config.picks():
        return train, test
    tested = _first(config, "pick_test", _shuffled(config, test), set())
    asked = {question(prompt) for prompt in tested}
    return _first(config, "pick_train", _shuffled(config, train)[::-1], asked), tested


def refuse_shared(train: Sequence[Prompt], test: Sequence[Prompt]) -> None:
    """Nothing is tested on what it was trained on: no training problem asks a test question."""
    tested = {question(prompt): prompt.id for prompt in test}
    for prompt in train:
        other = tested.get(question(prompt))
        require(
            other is None,
            f"training problem {prompt.id} and test problem {other} ask the same question; choose "
            f"task.train_split and task.test_split that share none, or set task.pick_train and "
            f"task.pick_test",
        )


def question(prompt: Prompt) -> str:
    """What makes two problems one: the text, however it is spaced."""
    return " ".join(prompt.text.split())


def _shuffled(config: PickConfig, prompts: list[Prompt]) -> list[Prompt]:
    order = np.random.default_rng(config.pick_seed).permutation(len(prompts))
    return [prompts[row] for row in order]


def _first(
    config: PickConfig, key: str, prompts: Sequence[Prompt], taken: set[str]
) -> list[Prompt]:
    """The first so many, without a question that was taken or came before."""
    distinct: dict[str, Prompt] = {}
    for prompt in prompts:
        distinct.setdefault(question(prompt), prompt)
    found = [prompt for asked, prompt in distinct.items() if asked not in taken]
    count = getattr(config, key)
    besides = " besides those picked for the test" if key == "pick_train" else ""
    require(
        bool(found) and (count is None or count <= len(found)),
        f"task.{key}={count}: there are only {len(found)} different questions{besides}",
    )
    return found[:count]
