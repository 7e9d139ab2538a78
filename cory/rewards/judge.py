"""A chat model behind an endpoint that grades responses by a rubric (Zheng et al., 2023)."""

import re
from collections.abc import Sequence
from typing import Any

from cory.config import JudgeConfig
from cory.endpoint import Ask, Endpoint, client_of
from cory.episode import Message, Metrics, Prompt, Turn, from_user
from cory.rewards import Reward, Row, RunFacts

REPLIES = "judge"  # in the run directory: the judge's replies; of a part of a sum with its name
NUMBER = r"[-+]?\d+(?:\.\d+)?"


class Judge(Reward):
    """Asks for a grade of each response and reads it from the reply.

    The reply to a request is kept in the run directory, so that a run that goes on, or a response
    that was graded before, costs nothing.
    """

    def __init__(self, config: JudgeConfig, task: Any, device: Any, run: RunFacts) -> None:
        self.config = config
        limits = {"lowest": f"{config.lowest:g}", "highest": f"{config.highest:g}"}
        self.rubric = config.rubric.format(mark=config.mark, **limits)
        name = REPLIES if run.part is None else f"{REPLIES}_{run.part}"
        self.endpoint = Endpoint(config.endpoint, run.folder / f"{name}.jsonl")
        self.graded = self.unreadable = self.tokens = 0

    @staticmethod
    def prepare(config: JudgeConfig) -> None:
        """Refuse an endpoint without its package or key, before models are loaded."""
        client_of(config.endpoint)

    def metrics(self) -> Metrics:
        """Tokens per response, and the share of responses that got no grade."""
        if self.graded == 0:
            return {}
        logged = {
            "reward/tokens": self.tokens / self.graded,
            "reward/unreadable": self.unreadable / self.graded,
        }
        self.graded = self.unreadable = self.tokens = 0
        return logged

    def scores(self, rows: Sequence[Row]) -> list[float]:
        """The grades; the lowest one, where there is none."""
        replies = self.endpoint.complete([Ask("grade", self._messages(*row)) for row in rows])
        lowest = self.config.lowest if self.config.output == "grade" else 0.0
        grades = [self.worth(reply.text) for reply in replies]
        self.graded += len(grades)
        self.unreadable += grades.count(None)
        self.tokens += sum(one.prompt_tokens + one.completion_tokens for one in replies)
        return [lowest if grade is None else grade for grade in grades]

    def worth(self, reply: str) -> float | None:
        """The score that a reply gives; None where it has no grade in range behind the mark."""
        config = self.config
        # bold or in brackets, as models like to write it
        found = re.findall(rf"{re.escape(config.mark)}[\s*_\[]*({NUMBER})(?![\d.]*\d)", reply)
        grade = float(found[-1]) if found else None
        if grade is None or not config.lowest <= grade <= config.highest:
            return None
        if config.output == "grade":
            return grade
        return (grade - config.lowest) / (config.highest - config.lowest)

    def _messages(self, prompt: Prompt, turn: Turn) -> list[Message]:
        query = prompt.text
        if prompt.messages is not None and len(prompt.messages) > 1:
            query = "\n\n".join(f"{one['role']}: {one['content']}" for one in prompt.messages)
        text = self.config.request.format(query=query, response=turn.response, answer=prompt.answer)
        return [{"role": "system", "content": self.rubric}, from_user(text)]
