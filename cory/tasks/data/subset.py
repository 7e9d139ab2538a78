"""Some of a task's problems, so many to train and so many to be tested on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cory.config import PickConfig, require
from cory.episode import Prompt


def pick_subset(
    config: PickConfig, train: list[Prompt], test: list[Prompt]
) -> tuple[list[Prompt], list[Prompt]]:
    """The training and the test problems that `config` asks for; all, where it asks for none.

    Test problems come first in a random order, training problems last in it: so both may come from
    one split, and a larger number of either holds the smaller one.
    """
    if not config.picks():
        return train, test
    order = _shuffled(test, config.pick_seed)
    tested = _first(order, config.pick_test, set(), f"task.pick_test={config.pick_test}")
    asked = {question(prompt) for prompt in tested}
    order = _shuffled(train, config.pick_seed)[::-1]
    return _first(order, config.pick_train, asked, f"task.pick_train={config.pick_train}"), tested


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


def _shuffled(prompts: list[Prompt], seed: int) -> list[Prompt]:
    return [prompts[row] for row in np.random.default_rng(seed).permutation(len(prompts))]


def _first(
    prompts: Sequence[Prompt], count: int | None, taken: set[str], setting: str
) -> list[Prompt]:
    """The first so many, without a question that was taken or came before."""
    distinct: dict[str, Prompt] = {}
    for prompt in prompts:
        distinct.setdefault(question(prompt), prompt)
    found = [prompt for asked, prompt in distinct.items() if asked not in taken]
    besides = " besides those picked for the test" if taken else ""
    require(
        bool(found) and (count is None or count <= len(found)),
        f"{setting}: there are only {len(found)} different questions{besides}",
    )
    return found[:count]
