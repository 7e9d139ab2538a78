"""Which prompts a run is trained on and which it is tested on; none is both, and none too long."""

from collections.abc import Callable, Mapping

import numpy as np

from cory import distributed
from cory.config import PromptsConfig, require
from cory.episode import Prompt

TrainAndTest = tuple[list[Prompt], list[Prompt]]


def short_enough(
    parts: Mapping[str, list[Prompt]], tokens_of: Callable[[Prompt], int], most: int
) -> list[list[Prompt]]:
    """The prompts of each part that have no more tokens than `most`; a note says how many have.

    parts: by their names in the note
    ConfigError where they are more than half of a part.
    """
    kept, said, longest = [], [], 0
    for name, prompts in parts.items():
        tokens = [tokens_of(prompt) for prompt in prompts]
        kept.append([one for one, count in zip(prompts, tokens, strict=True) if count <= most])
        if longer := len(prompts) - len(kept[-1]):
            said.append(f"{longer:,} of {len(prompts):,} {name} prompts")
            longest = max(longest, *tokens)
    line = f"task.max_prompt_tokens={most}: {' and '.join(said)} are longer (up to {longest:,})"
    few = any(2 * len(k) < len(whole) for k, whole in zip(kept, parts.values(), strict=True))
    require(not few, f"{line}; at most half of a part may be left out")
    if said:
        distributed.note(f"{line} and left out")
    return kept


def pick_subset(config: PromptsConfig, train: list[Prompt], test: list[Prompt]) -> TrainAndTest:
    """The training and test prompts by `task.pick_train`, `pick_test`, `pick_seed`.

    Test prompts are the first of a random order, training prompts the last: both may come from
    one split, and a larger subset contains the smaller ones. Without a number, all prompts.
    """
    if config.pick_train is None and config.pick_test is None:
        return train, test
    order = np.random.default_rng(config.pick_seed).permutation(len(test))
    tested = _first([test[row] for row in order], config.pick_test, set(), "task.pick_test")
    taken = set(map(question, tested))
    order = np.random.default_rng(config.pick_seed).permutation(len(train))[::-1]
    trained = _first([train[row] for row in order], config.pick_train, taken, "task.pick_train")
    return trained, tested


def held_out_part(prompts: list[Prompt], share: float, seed: int) -> TrainAndTest:
    """Training and test prompts: all that ask one of `share` of the questions are for the test.

    share: of the different questions, drawn at random by `seed`; one is held out at least
    Raises ConfigError where none is left for the training.
    """
    questions = list(dict.fromkeys(map(question, prompts)))
    count, said = max(1, round(share * len(questions))), f"task.held_out_share={share}"
    require(
        count < len(questions),
        f"{said} of {len(questions)} different prompts leaves none to train on; task.test_split "
        f"names others to be tested on",
    )
    distributed.note(f"{said}: {count} of {len(questions)} different prompts are held out")
    order = np.random.default_rng(seed).permutation(len(questions))
    held = {questions[number] for number in order[:count]}
    train = [prompt for prompt in prompts if question(prompt) not in held]
    return train, [prompt for prompt in prompts if question(prompt) in held]


def question(prompt: Prompt) -> str:
    """The text by which prompts are compared: with single spaces; of a chat, all messages."""
    said = [] if prompt.messages is None else [m["content"] for m in prompt.messages[:-1]]
    return " ".join("\n".join([*said, prompt.text]).split())


def _first(prompts: list[Prompt], count: int | None, taken: set[str], key: str) -> list[Prompt]:
    """The first `count` prompts with different questions that are not taken."""
    distinct: dict[str, Prompt] = {}
    for prompt in prompts:
        distinct.setdefault(question(prompt), prompt)
    free = [prompt for asked, prompt in distinct.items() if asked not in taken]
    besides = " besides those picked for the test" if taken else ""
    require(
        bool(free) and (count is None or count <= len(free)),
        f"{key}={count}: there are only {len(free)} different questions{besides}",
    )
    return free[:count]


def untested(train: list[Prompt], test: list[Prompt], where: str) -> list[Prompt]:
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
