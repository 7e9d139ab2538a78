"""A chat model behind an endpoint that grades responses by a rubric (Zheng et al., 2023)."""

import re
from collections.abc import Sequence
from typing import Any

from cory.config import JudgeConfig, require
from cory.endpoint import Ask, Endpoint, Message, Reply, client_of
from cory.episode import Episode, Metrics, Prompt, Turn, from_user
from cory.rewards import RunFacts

REPLIES = "judge"  # in the run directory: the judge's replies; of a part of a sum with its name
NUMBER = r"[-+]?\d+(?:\.\d+)?"


class Judge:
    """Asks for a grade of each response and reads it from the reply.

    The reply to a request is kept in the run directory, so that a run that goes on, or a response
    that was graded before, costs nothing.
    """

    def __init__(self, config: JudgeConfig, task: Any, device: Any) -> None:
        self.config = config
        limits = {"lowest": f"{config.lowest:g}", "highest": f"{config.highest:g}"}
        self.rubric = config.rubric.format(mark=config.mark, **limits)
        self.endpoint: Endpoint | None = None
        self.graded = self.unreadable = self.requests = self.tokens = 0

    @staticmethod
    def prepare(config: JudgeConfig) -> None:
        """Refuse an endpoint without its package or key, before models are loaded."""
        client_of(config.endpoint)

    def begin(self, run: RunFacts) -> None:
        """As `RunReward`."""
        name = REPLIES if run.part is None else f"{REPLIES}_{run.part}"
        self.endpoint = Endpoint(self.config.endpoint, run.folder / f"{name}.jsonl")

    def at(self, done: int) -> None:
        """As `RunReward`; a grade does not depend on the iteration."""

    def metrics(self) -> Metrics:
        """Requests and tokens per response, and the share of responses that got no grade."""
        if self.graded == 0:
            return {}
        logged = {
            "reward/requests": self.requests / self.graded,
            "reward/tokens": self.tokens / self.graded,
            "reward/unreadable": self.unreadable / self.graded,
        }
        self.graded = self.unreadable = self.requests = self.tokens = 0
        return logged

    def score(self, episodes: list[Episode]) -> None:
        """Fills `turn.score` of every turn that is not absent.

        ConfigError where a response gets no grade, unless `reward.unreadable` says what it is worth
        """
        rows = [(e.prompt, turn) for e in episodes for turn in e.turns if not turn.absent]
        self.graded += len(rows)
        for tried in range(self.config.asked_again + 1):
            left = [row for row in rows if tried == 0 or row[1].score is None]
            replies = self._replies([Ask(f"grade-{tried}", self._messages(*row)) for row in left])
            for (_, turn), reply in zip(left, replies, strict=True):
                turn.score = self.worth(reply.text)
        for (prompt, turn), reply in zip(left, replies, strict=True):
            if turn.score is None:
                turn.score = self._without_grade(prompt, turn, reply)
                self.unreadable += 1

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
        asked = self.config.request.format(
            query=_query(prompt), response=turn.response, answer=prompt.answer
        )
        return [{"role": "system", "content": self.rubric}, from_user(asked)]

    def _replies(self, asks: Sequence[Ask]) -> list[Reply]:
        assert self.endpoint is not None  # `begin` has opened it
        replies = self.endpoint.complete(asks)
        self.requests += len(replies)
        self.tokens += sum(reply.prompt_tokens + reply.completion_tokens for reply in replies)
        return replies

    def _without_grade(self, prompt: Prompt, turn: Turn, reply: Reply) -> float:
        """The score of a response that got no grade; ConfigError with reward.unreadable=refuse."""
        config = self.config
        said = " ".join(reply.text.split())[-80:] or f"nothing ({reply.finish_reason})"
        require(
            config.unreadable == "lowest",
            f"reward.unreadable=refuse: {config.asked_again + 1} replies about the response "
            f"{turn.response[:40]!r} to prompt {prompt.id} have no '{config.mark}' with a number "
            f"from {config.lowest:g} to {config.highest:g}; the last one ends: {said}; "
            f"take its replies out of {REPLIES}.jsonl to ask again",
        )
        return config.lowest if config.output == "grade" else 0.0


def _query(prompt: Prompt) -> str:
    """What was asked: the prompt, or all messages of a longer chat, each with its role."""
    if prompt.messages is None or len(prompt.messages) == 1:
        return prompt.text
    return "\n\n".join(f"{one['role']}: {one['content']}" for one in prompt.messages)
