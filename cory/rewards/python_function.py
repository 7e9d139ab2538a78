"""A reward that is a function of the user's, called as TRL's GRPOTrainer calls one."""

import asyncio
import inspect
import math
import weakref
from collections.abc import Iterable, Sequence
from reprlib import repr as shown
from types import SimpleNamespace
from typing import Any

from cory import distributed
from cory.config import ConfigError, PythonRewardConfig, require
from cory.episode import Metrics
from cory.rewards import Reward, Row, RunFacts
from cory.user_function import RAISED, load_function, told

# what a call gives: scores, the columns of `log_extra`, the numbers of `log_metric`
Called = tuple[list[float | None], dict[str, list[Any]], dict[str, list[float]]]


class PythonReward(Reward):
    """Scores all turns of an iteration, or of a batch of an evaluation, by one call.

    The first process calls the function and tells the others what it returned, so a function sees
    all rows at once, however many processes there are, and is run once.
    """

    def __init__(self, config: PythonRewardConfig, task: Any, device: Any, run: RunFacts) -> None:
        self.found = load_function("reward.function", config.function)
        self.run = run
        # what functions may read of TRL's `trainer_state`: iterations done, and those of the run
        self.state = SimpleNamespace(global_step=0, max_steps=run.iterations)
        self.numbers: dict[str, list[float]] = {}
        # one for all calls, as in TRL: a client or a lock of an asynchronous function belongs to it
        self.loop = asyncio.new_event_loop()
        weakref.finalize(self, self.loop.close)

    @staticmethod
    def prepare(config: PythonRewardConfig) -> None:
        """Import the function, before models are loaded."""
        load_function("reward.function", config.function)

    def at(self, done: int) -> None:
        self.state.global_step = done

    def metrics(self) -> Metrics:
        """The means of what the function logged."""
        numbers, self.numbers = self.numbers, {}
        return {f"reward/logged/{name}": sum(n) / len(n) for name, n in numbers.items()}

    def scores(self, rows: Sequence[Row]) -> list[float | None]:
        """What the function returns; fills `turn.extra`.

        ConfigError where it raises, or returns anything but a finite number for each row; None
        counts only in a sum.
        """
        scores, columns, numbers = distributed.first_works(lambda: self._call(rows))
        for name, logged in numbers.items():
            self.numbers.setdefault(name, []).extend(logged)
        prefix = "" if self.run.part is None else f"{self.run.part}/"
        for number, (_, turn) in enumerate(rows):
            turn.extra |= {prefix + name: values[number] for name, values in columns.items()}
        return scores

    def _call(self, rows: Sequence[Row]) -> Called:
        """Call the function; ConfigError as in `scores`."""
        said, function = self.found.said, self.found.call
        columns: dict[str, list[Any]] = {}
        numbers: dict[str, list[float]] = {}
        given = self._arguments(rows) | {
            "log_extra": lambda column, values: columns.update(
                {str(column): [_plain(value) for value in values]}
            ),
            "log_metric": lambda name, value: numbers.setdefault(name, []).append(float(value)),
        }
        parameters = inspect.signature(function).parameters
        needed = [
            name
            for name, one in parameters.items()
            if one.default is one.empty
            and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
            and name not in given
        ]
        require(
            not needed,
            f"{said}: it asks for {', '.join(needed)}; there are {', '.join(sorted(given))}",
        )
        if all(one.kind != one.VAR_KEYWORD for one in parameters.values()):
            given = {name: value for name, value in given.items() if name in parameters}
        try:
            returned = function(**given)
            if inspect.isawaitable(returned):
                returned = self.loop.run_until_complete(returned)
            if isinstance(returned, Iterable) and not isinstance(returned, str | bytes | dict):
                returned = list(returned)  # of a generator, the function's body runs only now
        except RAISED as error:  # whatever a user's function raises
            raise ConfigError(f"{said}: {told(error, self.found.file)}") from error
        rule = f"{said}: it must return a list with a finite number for each completion"
        require(isinstance(returned, list), f"{rule}, got {shown(returned)}")
        for name, values in (("", returned), *columns.items()):
            what = f"log_extra('{name}', ...)" if name else "it"
            require(
                len(values) == len(rows),
                f"{said}: {what} gave {len(values)} values for {len(rows)} completions",
            )
        for name, values in numbers.items():
            right = all(map(math.isfinite, values))
            require(right, f"{said}: log_metric('{name}', ...) must give finite numbers")
        scores = [None if value is None else as_number(value) for value in returned]
        for value, score, (_, turn) in zip(returned, scores, rows, strict=True):
            require(
                score is not None or (value is None and self.run.part is not None),
                f"{rule}; it returned {shown(value)} for {shown(turn.response)} (None is for "
                f"parts of reward=sum alone)",
            )
        return scores, columns, numbers

    def _arguments(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The keywords that TRL gives a function, and `role`, `agent` and `round`, by row."""
        prompts, turns = [row[0] for row in rows], [row[1] for row in rows]
        given: dict[str, Any] = {
            "role": [turn.role for turn in turns],
            "agent": [turn.agent for turn in turns],
            "round": [turn.round for turn in turns],
        }
        if any(prompt.answer is not None for prompt in prompts):
            given["answer"] = [prompt.answer for prompt in prompts]
        # a column of the user's data has the last word about a name
        for name in dict.fromkeys(name for prompt in prompts for name in prompt.columns):
            given[name] = [prompt.columns.get(name) for prompt in prompts]
        return given | {
            "prompts": [
                prompt.text if prompt.messages is None else [dict(one) for one in prompt.messages]
                for prompt in prompts
            ],
            "completions": [
                turn.response
                if prompt.messages is None
                else [{"role": "assistant", "content": turn.response}]
                for prompt, turn in rows
            ],
            "completion_ids": [list(turn.response_ids) for turn in turns],
            "trainer_state": self.state,
        }


def as_number(value: Any) -> float | None:
    """A finite number of Python, numpy or torch as a float; None where it is none."""
    try:
        number = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return number if math.isfinite(number) else None


def _plain(value: Any) -> Any:
    """A value as samples.jsonl can keep it: a text, a number, True, False or None."""
    if value is None or isinstance(value, str | bool | int):
        return value
    number = as_number(value)
    return str(value) if number is None else number
