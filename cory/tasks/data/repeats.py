"""Questions that data ask more than once: how many, and whether their answers contradict."""

import sys
from collections.abc import Callable, Hashable

from cory import distributed
from cory.config import require
from cory.episode import Prompt
from cory.tasks.data.subset import question

Read = Callable[[str], Hashable | None]  # an answer in the data -> what is compared


def look_for_repeats(
    parts: dict[str, list[Prompt]], read: Read, where: str, setting: str | None
) -> None:
    """Notes on repeated questions; ConfigError where their answers contradict.

    parts: prompts by the part of the data, `train` and `test`
    where: setting and value that the data come from
    setting: its value `allowed` turns the refusal into a note; None: it is a note
    """
    asked: dict[str, Prompt] = {}
    against: dict[str, tuple[Prompt, Prompt]] = {}
    for part, prompts in parts.items():
        repeated = len(prompts) - len(set(map(question, prompts)))
        if repeated:
            _note(
                f"{where}: {repeated} of {len(prompts)} {part} prompts repeat the question of "
                f"another one"
            )
        for prompt in prompts:
            first = asked.setdefault(question(prompt), prompt)
            if not _same(first.answer, prompt.answer, read):
                against.setdefault(question(prompt), (first, prompt))
    if not against:
        return
    first, other = next(iter(against.values()))
    said = (
        f"{where}: {len(against)} of {len(asked)} questions have answers that contradict each "
        f"other; {first.id} and {other.id} ask the same, and the answers are "
        f"'{str(first.answer)[-40:]}' and '{str(other.answer)[-40:]}'"
    )
    require(setting is None, f"{said}; {setting}=allowed takes them as they are")
    _note(said)


def _same(one: str | None, other: str | None, read: Read) -> bool:
    if one == other or one is None or other is None:
        return one == other
    return read(one) == read(other)


def _note(text: str) -> None:
    if distributed.rank() == 0:
        print(f"note: {text}", file=sys.stderr)
