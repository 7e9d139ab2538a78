"""`task=reasoning_gym`: questions of reasoning_gym's generators, and their scores of answers."""

import json
import re
from functools import cache
from typing import Any

from cory import distributed
from cory.config import ConfigError, GymConfig, nearest, require
from cory.tasks.answers import TAGGED
from cory.tasks.prompts import PromptsTask
from cory.tasks.tables import Row, rows_of_split

# question n is made from the seed + n; all runs are trained and tested on the same ones
SEEDS = {"train": 20_241_002, "test": 1_020_241_002}
# whose scorers run an answer as Python: a calculation or a list, if it is HARMLESS; or a formula
RUN = ("binary_matrix", "countdown", "n_queens", "puzzle24", "spiral_matrix", "string_insertion")
OF_FORMULAS = ("intermediate_integration", "polynomial_multiplication", "simple_integration")
HARMLESS = re.compile(r"(?s)(?!.*(?:\*\s*\*|\bfor\b))(?:[\d\s+*/()-]{,500}|[\w\s,'\"\[\]]*)")


class GymTask(PromptsTask):
    """Questions of the generators in turn, each with what it takes to make it again."""

    def _rows(self, part: str, split: str) -> list[Row]:
        # in one process: some questions depend on the order of Python's sets
        return distributed.first_works(lambda: self._made(part, split))

    def _made(self, part: str, split: str) -> list[Row]:
        config, rows = self.config, []
        assert isinstance(config, GymConfig)
        count = config.train_problems if part == "train" else config.test_problems
        names = [*config.generators]
        for row in rows_of_split(split, part, count):
            number, place = divmod(row, len(names))
            own = {"seed": SEEDS[part], "size": count, **config.generators[names[place]]}
            columns = {"generator": names[place], "settings": json.dumps(own), "number": number}
            made = entry(**columns)
            answer = made["answer"] and f"<answer>{made['answer']}</answer>"
            values = {**columns, "prompt": made["question"], "answer": answer}
            rows.append(Row(f"{part}:{row + 1}", values))
        return rows


def score(
    completions: list[str], generator: list[str], settings: list[str], number: list[int], **_: Any
) -> list[float]:
    """A reward function: what each question's scorer says of a response, from 0 to 1.

    It is given what stands in the last `<answer>...</answer>`; without them, all of the response.
    """
    scores = []
    for text, *question in zip(completions, generator, settings, number, strict=True):
        found = TAGGED.match(text)
        answer = (found[1] if found else text).strip()
        if question[0] in RUN and not HARMLESS.fullmatch(answer):
            answer = ""
        scorer, made = data_set(*question[:2]), entry(*question)
        try:
            scores.append(float(scorer.score_answer(answer, made)))
        except Exception:  # the library's own, of any class, at what it cannot read
            scores.append(0.0)
    return scores


@cache
def entry(generator: str, settings: str, number: int) -> Any:
    """A question with its answer, and what its scorer knows of it as `metadata`."""
    return data_set(generator, settings)[number]


@cache
def data_set(generator: str, settings: str) -> Any:
    """A generator with settings, an object in JSON. ConfigError where it has not these."""
    try:
        from reasoning_gym.factory import DATASETS, create_dataset  # noqa: PLC0415  an extra
    except ImportError:
        raise ConfigError('task=reasoning_gym: needs pip install ".[reasoning_gym]"') from None
    said, own = f"task.generators.{generator}", json.loads(settings)
    require(generator in DATASETS, f"{said} is no generator{nearest(generator, [*DATASETS])}")
    require(generator not in OF_FORMULAS, f"{said}: its scorer would run responses as Python")
    try:
        return create_dataset(generator, **own)
    except (AssertionError, TypeError, ValueError) as error:
        raise ConfigError(f"{said}: {error}") from None
