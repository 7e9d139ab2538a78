"""Debates: every agent answers, sees what the others answered, and answers again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cory.config import DebatePrompts
from cory.episode import Context, Episode, Message, Prompt, Turn
from cory.functional.credit import rounds_of
from cory.functional.votes import agreement
from cory.interactions import Speak
from cory.tasks import Task

DEBATER = "debater_"  # begins the role of whoever speaks
Rounds = Sequence[Sequence[Turn]]  # [turn][agent]


class Wording(Protocol):
    """How an agent's view of a debate becomes what its model is shown."""

    def contexts(self, prompt: Prompt, rounds: Rounds, agent: int) -> Iterator[Context]:
        """The whole view first, then shorter and shorter ones; each holds the whole question."""
        ...


class Plain:
    """The task's own form for answers of others, for models that were not tuned to chat.

    The agent's own latest answer stands among them, first.
    """

    def __init__(self, task: Task) -> None:
        self.task = task

    def contexts(self, prompt: Prompt, rounds: Rounds, agent: int) -> Iterator[Context]:
        """As `Wording`: others' answers are left out from the last one on, then one's own."""
        if rounds:
            latest = [rounds[-1][agent], *others(rounds[-1], agent)]
            for count in range(len(latest), 0, -1):
                answers = [turn.response for turn in latest[:count]]
                yield self.task.observer_context(prompt.text, answers)
        yield prompt.text


class Chat:
    """A chat in which the user passes on what the others said; the agent sees its own answers."""

    def __init__(self, prompts: DebatePrompts, feedback: bool) -> None:
        """feedback: whether agents see the judge's scores."""
        self.prompts = prompts
        self.feedback = feedback

    def contexts(self, prompt: Prompt, rounds: Rounds, agent: int) -> Iterator[Context]:
        """As `Wording`: the oldest exchanges are left out, then others' answers from the last on.

        The opening message, with the question, always stays.
        """
        opening = {"role": "user", "content": prompt.text}
        for first in range(len(rounds)):
            yield [opening, *self._exchanges(prompt, rounds[first:], agent, None)]
        if rounds:
            for count in range(len(rounds[-1]) - 2, -1, -1):
                latest = self._exchanges(prompt, rounds[-1:], agent, count)
                yield [opening, *latest]
        yield [opening]

    def _exchanges(
        self, prompt: Prompt, rounds: Rounds, agent: int, quoted: int | None
    ) -> Iterator[Message]:
        """Own answer and follow-up of each turn; `quoted`: how many others' answers, None: all."""
        for turns in rounds:
            own = turns[agent]
            yield {"role": "assistant", "content": own.response}
            said = "" if not self.feedback else self._graded(self.prompts.own_feedback, own, "")
            blocks = [
                self.prompts.other.format(
                    number=number,
                    response=turn.response.strip(),
                    feedback=self._graded(self.prompts.feedback, turn, number)
                    if self.feedback
                    else "",
                )
                for number, turn in enumerate(others(turns, agent)[:quoted], 1)
            ]
            form = self.prompts.follow_up if blocks else self.prompts.follow_up_alone
            content = form.format(
                others=self.prompts.separator.join(blocks), own_feedback=said, query=prompt.text
            )
            yield {"role": "user", "content": content}

    def _graded(self, form: str, turn: Turn, number: int | str) -> str:
        assert turn.score is not None  # the debate had it judged
        better = sum(turn.score >= bound for bound in self.prompts.grade_bounds)
        return form.format(
            score=f"{turn.score:.3f}", grade=self.prompts.grades[better], number=number
        )


def others(turns: Sequence[Turn], agent: int) -> list[Turn]:
    """What all but one agent said."""
    return [turn for number, turn in enumerate(turns) if number != agent]


@dataclass
class Debate:
    """Who speaks how often, seeing what; an interaction (Park et al., 3.1).

    Every episode has `turns` times `agents` turns, by turn and then by agent; those after the end
    of a debate are absent.
    """

    agents: int
    turns: int
    speaker: Callable[[int, int], str]  # turn, agent -> who speaks
    wording: Callable[[int], Wording]  # of an agent
    fits: Callable[[int, Context], bool]  # agent, context -> whether its model can still answer
    read: Callable[[str], Hashable | None]  # the answer that a response gives
    consensus: float | None  # share of equal answers that ends a debate
    judge: Callable[[list[Episode]], None] | None  # where agents see scores: fills `turn.score`
    shortened: int = 0  # contexts that had to leave something out, since it was last set to 0
    shown: int = 0  # contexts, since then

    def __call__(self, prompts: list[Prompt], speak: Speak) -> list[Episode]:
        """One debate per prompt."""
        episodes = [Episode(prompt, []) for prompt in prompts]
        ended = [False] * len(prompts)
        for turn in range(self.turns):
            views = [rounds_of(episode, self.agents) for episode in episodes]
            said: list[list[Turn]] = []
            for agent in range(self.agents):
                contexts = [
                    None if over else self._context(episode.prompt, rounds, agent)
                    for episode, rounds, over in zip(episodes, views, ended, strict=True)
                ]
                said.append(speak(self.speaker(turn, agent), f"{DEBATER}{agent}", turn, contexts))
            for number, row in enumerate(zip(*said, strict=True)):
                episodes[number].turns += row
                ended[number] = ended[number] or self._agreed(row)
            if self.judge is not None:
                self.judge(
                    [
                        Episode(episode.prompt, list(row))
                        for episode, row in zip(episodes, zip(*said, strict=True), strict=True)
                    ]
                )
        return episodes

    def _context(self, prompt: Prompt, rounds: Rounds, agent: int) -> Context:
        self.shown += 1
        context: Context = prompt.text
        for number, context in enumerate(self.wording(agent).contexts(prompt, rounds, agent)):
            if self.fits(agent, context):
                self.shortened += number > 0
                break
        return context  # where nothing fits, the speaker refuses the bare question

    def _agreed(self, row: Sequence[Turn]) -> bool:
        if self.consensus is None:
            return False
        answers = [self.read(turn.response) for turn in row]
        return agreement(answers) >= self.consensus
