"""What debaters are shown: how an agent's view of a debate becomes a text or a chat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from cory.config import DebatePrompts
from cory.episode import Context, Message, Prompt, Turn
from cory.tasks import Form

Rounds = Sequence[Sequence[Turn]]  # [turn][agent]


class Wording(Protocol):
    """How an agent's view of a debate becomes what its model is shown."""

    def contexts(
        self, prompt: Prompt, rounds: Rounds, agent: int, summary: str | None = None
    ) -> Iterator[Context]:
        """The whole view first, then shorter and shorter ones; each holds the whole question.

        summary: of what the others said last, where somebody sums it up
        """
        ...


class Plain:
    """The task's own form for answers of others, for models that were not tuned to chat.

    The agent's own latest answer stands among them, first.
    """

    def __init__(self, task: Form) -> None:
        self.task = task

    def contexts(
        self, prompt: Prompt, rounds: Rounds, agent: int, summary: str | None = None
    ) -> Iterator[Context]:
        """As `Wording`: others' answers are left out from the last one on, then one's own.

        A summary stands where the answer of one other agent would.
        """
        if rounds:
            said = [turn.response for turn in others(rounds[-1], agent)]
            latest = [rounds[-1][agent].response, *(said if summary is None else [summary])]
            for count in range(len(latest), 0, -1):
                yield self.task.observer_context(prompt.text, latest[:count])
        yield prompt.text


class FollowUp(Protocol):
    """What an agent with a chat model is told after a turn."""

    def __call__(
        self,
        prompt: Prompt,
        turns: Sequence[Turn],
        agent: int,
        summary: str | None,
        quoted: int | None,
    ) -> str:
        """The user's next message.

        turns: everybody's latest answers
        quoted: how many others' answers it may hold; None: all
        """
        ...


class Chat:
    """A chat in which the user passes on what the others said; the agent sees its own answers."""

    def __init__(self, follow_up: FollowUp) -> None:
        self.follow_up = follow_up

    def contexts(
        self, prompt: Prompt, rounds: Rounds, agent: int, summary: str | None = None
    ) -> Iterator[Context]:
        """As `Wording`: the oldest exchanges are left out, then others' answers from the last on.

        The opening message, with the question, always stays; a summary is one with its exchange.
        """
        opening = {"role": "user", "content": prompt.text}
        for first in range(len(rounds)):
            yield [opening, *self._exchanges(prompt, rounds[first:], agent, summary, None)]
        if rounds and summary is None:
            for count in range(len(rounds[-1]) - 2, -1, -1):
                yield [opening, *self._exchanges(prompt, rounds[-1:], agent, None, count)]
        yield [opening]

    def _exchanges(
        self, prompt: Prompt, rounds: Rounds, agent: int, summary: str | None, quoted: int | None
    ) -> Iterator[Message]:
        """Own answer and follow-up of each turn; `quoted`: how many others' answers, None: all."""
        # of each turn, the summary that was made after it is kept with the answer to it
        told = [*(turns[agent].summary for turns in rounds[1:]), summary]
        for turns, heard in zip(rounds, told, strict=True):
            yield {"role": "assistant", "content": turns[agent].response}
            content = self.follow_up(prompt, turns, agent, heard, quoted)
            yield {"role": "user", "content": content}


class Graded:
    """Others' answers in numbered blocks, with the judge's scores if wanted (Park et al.)."""

    def __init__(self, prompts: DebatePrompts, feedback: bool) -> None:
        """feedback: whether agents see the judge's scores."""
        self.prompts = prompts
        self.feedback = feedback

    def __call__(
        self,
        prompt: Prompt,
        turns: Sequence[Turn],
        agent: int,
        summary: str | None,
        quoted: int | None,
    ) -> str:
        """As `FollowUp`; these debates have no summaries."""
        own = turns[agent]
        said = "" if not self.feedback else self._graded(self.prompts.own_feedback, own, "")
        blocks = [
            self.prompts.other.format(
                number=number,
                response=turn.response.strip(),
                feedback=self._graded(self.prompts.feedback, turn, number) if self.feedback else "",
            )
            for number, turn in enumerate(others(turns, agent)[:quoted], 1)
        ]
        form = self.prompts.follow_up if blocks else self.prompts.follow_up_alone
        return form.format(
            others=self.prompts.separator.join(blocks), own_feedback=said, query=prompt.text
        )

    def _graded(self, form: str, turn: Turn, number: int | str) -> str:
        assert turn.score is not None  # the debate had it judged
        better = sum(turn.score >= bound for bound in self.prompts.grade_bounds)
        return form.format(
            score=f"{turn.score:.3f}", grade=self.prompts.grades[better], number=number
        )


def others(turns: Sequence[Turn], agent: int) -> list[Turn]:
    """What all but one agent said."""
    return [turn for number, turn in enumerate(turns) if number != agent]
