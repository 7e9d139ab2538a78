"""Debates: every agent answers, sees what the others answered, and answers again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cory.episode import Context, Episode, Prompt, Turn
from cory.functional.credit import rounds_of
from cory.functional.votes import agreement
from cory.rollout.debate_prompts import Rounds, Wording
from cory.rollout.interactions import Speak

DEBATER = "debater_"  # begins the role of whoever speaks
SUMMARISER = "summariser_"  # ... of who sums up for a debater
View = tuple[Prompt, Rounds]  # what a debate has come to


class Summariser(Protocol):
    """Who tells an agent, in fewer words, what the others said."""

    @property
    def speaker(self) -> str:
        """Its name among those who speak."""
        ...

    def contexts(self, prompt: Prompt, rounds: Rounds, agent: int) -> Iterator[Context]:
        """What it is shown: all of it first, then shorter and shorter forms."""
        ...


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
    summariser: Summariser | None = None  # who sums up for every agent what the others said

    def __call__(self, prompts: list[Prompt], speak: Speak) -> list[Episode]:
        """One debate per prompt."""
        episodes = [Episode(prompt, []) for prompt in prompts]
        ended = [False] * len(prompts)
        for turn in range(self.turns):
            views = [rounds_of(episode, self.agents) for episode in episodes]
            said: list[list[Turn]] = []
            for agent in range(self.agents):
                open_views = [
                    None if over else (episode.prompt, rounds)
                    for episode, rounds, over in zip(episodes, views, ended, strict=True)
                ]
                heard = self._summaries(turn, agent, open_views, speak)
                shown = [
                    (None, False) if view is None else self._context(*view, agent, summary)
                    for view, (summary, _) in zip(open_views, heard, strict=True)
                ]
                contexts = [context for context, _ in shown]
                own = speak(self.speaker(turn, agent), f"{DEBATER}{agent}", turn, contexts)
                for one, (summary, cut), (_, left_out) in zip(own, heard, shown, strict=True):
                    one.summary, one.shortened = summary, cut or left_out
                said.append(own)
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

    @property
    def places(self) -> int:
        """How often it lets somebody speak."""
        heard = self.agents * (self.turns - 1) if self._sums_up else 0
        return self.agents * self.turns + heard

    @property
    def _sums_up(self) -> bool:
        return self.summariser is not None and self.agents > 1

    def _summaries(
        self, turn: int, agent: int, views: Sequence[View | None], speak: Speak
    ) -> list[tuple[str | None, bool]]:
        """What an agent is told of the others, for each debate; None where nobody sums up.

        And whether who sums up was not shown all of it.
        """
        if self.summariser is None or not self._sums_up or turn == 0:
            return [(None, False)] * len(views)
        shown = [
            (None, False)
            if view is None
            else self._fitting(self.summariser.contexts(*view, agent), agent)
            for view in views
        ]
        contexts = [context for context, _ in shown]
        told = speak(self.summariser.speaker, f"{SUMMARISER}{agent}", turn, contexts)
        return [
            (None if one.absent else one.response.strip(), cut)
            for one, (_, cut) in zip(told, shown, strict=True)
        ]

    def _context(
        self, prompt: Prompt, rounds: Rounds, agent: int, summary: str | None
    ) -> tuple[Context | None, bool]:
        return self._fitting(self.wording(agent).contexts(prompt, rounds, agent, summary), agent)

    def _fitting(self, contexts: Iterator[Context], agent: int) -> tuple[Context | None, bool]:
        """The first that fits, and whether another one came before it."""
        context: Context = ""
        for number, context in enumerate(contexts):
            if self.fits(agent, context):
                return context, number > 0
        return context, False  # where nothing fits, the speaker refuses the bare question

    def _agreed(self, row: Sequence[Turn]) -> bool:
        if self.consensus is None:
            return False
        answers = [self.read(turn.response) for turn in row]
        return agreement(answers) >= self.consensus
