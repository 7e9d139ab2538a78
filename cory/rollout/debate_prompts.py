"""The prompts of debaters: how an agent's view of a debate becomes a text or a chat."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from cory.config import DebatePrompts, MaftPrompts, require
from cory.episode import Context, Message, Prompt, Turn, as_messages, from_user
from cory.tasks import Form

Rounds = Sequence[Sequence[Turn]]  # [round][agent]


class DebateWording(Protocol):
    """Turns an agent's view of a debate into its prompt."""

    def contexts(
        self, prompt: Prompt, rounds: Rounds, agent: int, summary: str | None = None
    ) -> Iterator[Context]:
        """The full prompt first, then shorter and shorter ones; each has the whole question.

        summary: of the others' last answers; None: there is none
        """


@dataclass(frozen=True)
class Plain:
    """The task's own prompt with others' answers, for models that were not tuned to chat.

    The agent's own latest answer comes first.
    """

    task: Form

    def contexts(
        self, prompt: Prompt, rounds: Rounds, agent: int, summary: str | None = None
    ) -> Iterator[Context]:
        """As `DebateWording`; others' answers are left out, last first, then one's own.

        A summary takes the place of one other agent's answer.
        Raises ConfigError for a prompt of several messages.
        """
        require(
            prompt.messages is None,
            f"prompt {prompt.id} is made of chat messages, and a debater's model does not chat: "
            f"set model.chat=true, and that of members with a model of their own",
        )
        if rounds:
            said = [turn.response for turn in turns_of_others(rounds[-1], agent)]
            latest = [rounds[-1][agent].response, *(said if summary is None else [summary])]
            for count in range(len(latest), 0, -1):
                yield self.task.observer_context(prompt.text, latest[:count])
        yield prompt.text


# question, the agent's own latest answer, the others' to quote, summary of the others' (None: they
# are quoted) -> the user's message to a chat agent after a round
FollowUp = Callable[[str, Turn, Sequence[Turn], str | None], str]


@dataclass(frozen=True)
class Chat:
    """A chat: the user quotes the others' answers; the assistant's messages are the agent's own."""

    follow_up: FollowUp

    def contexts(
        self, prompt: Prompt, rounds: Rounds, agent: int, summary: str | None = None
    ) -> Iterator[Context]:
        """As `DebateWording`; the oldest exchanges are left out, then others' answers, last first.

        The opening messages, with the question, always stay; so does a summary with its exchange.
        """
        opening = as_messages(prompt.opening)
        for first in range(len(rounds)):
            yield [*opening, *self._exchanges(prompt, rounds[first:], agent, summary, None)]
        if rounds and summary is None:
            for count in range(len(rounds[-1]) - 2, -1, -1):
                yield [*opening, *self._exchanges(prompt, rounds[-1:], agent, None, count)]
        yield opening

    def _exchanges(
        self, prompt: Prompt, rounds: Rounds, agent: int, summary: str | None, quoted: int | None
    ) -> Iterator[Message]:
        """Own answer and follow-up of each round; quoted: how many others' answers, None: all."""
        # the summary after a round is kept with the next round's answer, which has read it
        told = [*(turns[agent].summary for turns in rounds[1:]), summary]
        for turns, heard in zip(rounds, told, strict=True):
            own, others = turns[agent], turns_of_others(turns, agent)[:quoted]
            yield {"role": "assistant", "content": own.response}
            yield from_user(self.follow_up(prompt.text, own, others, heard))


@dataclass(frozen=True)
class Graded:
    """A `FollowUp`: others' answers in numbered blocks, perhaps with scores (Park et al.)."""

    prompts: DebatePrompts
    feedback: bool  # show the judge's scores

    def __call__(self, query: str, own: Turn, others: Sequence[Turn], summary: str | None) -> str:
        """As `FollowUp`; these debates have no summaries."""
        said = self._graded(self.prompts.own_feedback, own, "")
        form = self.prompts.follow_up if others else self.prompts.follow_up_alone
        quoted = quotes(self.prompts, others, partial(self._graded, self.prompts.feedback))
        return form.format(others=quoted, own_feedback=said, query=query)

    def _graded(self, form: str, turn: Turn, number: int | str) -> str:
        if not self.feedback:
            return ""
        assert turn.score is not None  # the debate had it judged
        met = sum(turn.score >= bound for bound in self.prompts.grade_bounds)
        return form.format(score=f"{turn.score:.3f}", grade=self.prompts.grades[met], number=number)


def turns_of_others(turns: Sequence[Turn], agent: int) -> list[Turn]:
    return [turn for number, turn in enumerate(turns) if number != agent]


@dataclass(frozen=True)
class Told:
    """MAFT's `FollowUp`, with a summary of the others' answers, or with the answers."""

    prompts: MaftPrompts

    def __call__(self, query: str, own: Turn, others: Sequence[Turn], summary: str | None) -> str:
        prompts = self.prompts
        if summary is not None:
            return prompts.follow_up_summary.format(summary=summary, query=query)
        said = quotes(prompts, others)
        if not said:
            return prompts.follow_up_alone.format(query=query)
        return prompts.follow_up.format(others=said, query=query)


@dataclass(frozen=True)
class SumUp:
    """Prompts for a summary of the others' last answers."""

    prompts: MaftPrompts
    speaker: str  # the actor that summarises

    def contexts(self, prompt: Prompt, rounds: Rounds, agent: int) -> Iterator[Context]:
        """The full prompt first, then shorter ones: without the last answers, but for the first."""
        said = turns_of_others(rounds[-1], agent)
        for count in range(len(said), 0, -1):
            yield self.prompts.summarise.format(
                others=quotes(self.prompts, said[:count]), query=prompt.text
            )


@dataclass(frozen=True)
class Identified:
    """A `DebateWording` in which every message to an agent begins with its name (App. J)."""

    wording: DebateWording
    prompts: MaftPrompts
    number: int  # of the agent, from 1
    critics: bool  # whether critic agents speak after the first round

    def contexts(
        self, prompt: Prompt, rounds: Rounds, agent: int, summary: str | None = None
    ) -> Iterator[Context]:
        before = len(as_messages(prompt.opening)) - 1  # of the data, which name nobody
        for context in self.wording.contexts(prompt, rounds, agent, summary):
            if isinstance(context, str):
                yield self._name(len(rounds)) + context
                continue
            # the last message is about this round, the one before it about the last, ...
            asked = sum(message["role"] == "user" for message in context[before:])
            round = len(rounds) - asked
            named = context[:before]
            for number, message in enumerate(context[before:]):
                name = ""
                if message["role"] == "user":
                    round += 1
                    name = self._name(0 if number == 0 else round)  # the opening always stays
                named.append({**message, "content": name + message["content"]})
            yield named

    def _name(self, round: int) -> str:
        form = self.prompts.critic_id if self.critics and round > 0 else self.prompts.generation_id
        return form.format(number=self.number)


def quotes(
    prompts: DebatePrompts | MaftPrompts,
    turns: Sequence[Turn],
    feedback: Callable[[Turn, int], str] = lambda turn, number: "",
) -> str:
    """Answers quoted one after the other, perhaps each with what is said of it."""
    return prompts.separator.join(
        prompts.other.format(number=n, response=turn.response.strip(), feedback=feedback(turn, n))
        for n, turn in enumerate(turns, 1)
    )
