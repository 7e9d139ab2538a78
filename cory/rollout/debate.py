"""Debates: every agent answers, sees what the others answered, and answers again."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Protocol

from cory import distributed
from cory.episode import Context, Episode, Prompt, Turn
from cory.functional.credit import rounds_of
from cory.functional.votes import agreement
from cory.rollout.debate_prompts import DebateWording, Rounds
from cory.rollout.interactions import Speak, SpeaksTogether

DEBATER = "debater_"  # begins the role of a debater
SUMMARISER = "summariser_"  # begins the role of a debater's summariser
View = tuple[Prompt, Rounds]  # a debate so far


class Summariser(Protocol):
    """Summarises the others' answers for an agent."""

    @property
    def speaker(self) -> str:
        """The name of the actor that summarises."""
        ...

    def contexts(self, prompt: Prompt, rounds: Rounds, agent: int) -> Iterator[Context]:
        """The summariser's prompt: the full one first, then shorter and shorter ones."""
        ...


@dataclass
class Debate:
    """A debate over several rounds; an `Interaction` (Park et al., 3.1).

    Every episode has rounds x agents turns, by round and then by agent; those after the end of a
    debate are absent.
    """

    agents: int
    rounds: int
    speaker: Callable[[int, int], str]  # round, agent -> the actor that speaks
    wording: Callable[[int], DebateWording]  # of an agent
    fits: Callable[[int, Context], bool]  # agent, context -> whether an answer still fits
    read: Callable[[str], Hashable | None]  # response -> its answer
    consensus: float | None  # share of equal answers that ends a debate
    judge: Callable[[list[Episode]], None] | None  # fills `turn.score`, where agents see scores
    summariser: Summariser | None = None  # None: agents read the others' answers themselves

    def __call__(self, prompts: list[Prompt], speak: Speak) -> list[Episode]:
        """Hold one debate per prompt."""
        episodes = [Episode(prompt, []) for prompt in prompts]
        ended = [False] * len(prompts)
        for round in range(self.rounds):
            views = [rounds_of(episode, self.agents) for episode in episodes]
            open_views = [
                None if over else (episode.prompt, rounds)
                for episode, rounds, over in zip(episodes, views, ended, strict=True)
            ]
            said: list[list[Turn]] = []
            for agents in self._speaking_together(round, speak):
                said += self._answers(round, agents, open_views, speak)
            rows = list(zip(*said, strict=True))
            for episode, row in zip(episodes, rows, strict=True):
                episode.turns += row
            if self.consensus is not None:
                agreed = self._agreed(rows, self.consensus)
                ended = [over or now for over, now in zip(ended, agreed, strict=True)]
            if self.judge is not None:
                self.judge(
                    [
                        Episode(episode.prompt, list(row))
                        for episode, row in zip(episodes, rows, strict=True)
                    ]
                )
        return episodes

    def _speaking_together(self, round: int, speak: Speak) -> list[list[int]]:
        """Runs of consecutive agents for which one actor speaks."""
        if self.summariser is not None or not isinstance(speak, SpeaksTogether):
            return [[agent] for agent in range(self.agents)]
        return [list(own) for _, own in groupby(range(self.agents), partial(self.speaker, round))]

    def _answers(
        self, round: int, agents: list[int], views: Sequence[View | None], speak: Speak
    ) -> list[list[Turn]]:
        """The turns of agents that one actor speaks for, [agent][debate]."""
        heard = [self._summaries(round, agent, views, speak) for agent in agents]
        shown = [
            [
                (None, False) if view is None else self._context(*view, agent, summary)
                for view, (summary, _) in zip(views, own, strict=True)
            ]
            for agent, own in zip(agents, heard, strict=True)
        ]
        contexts = [[context for context, _ in own] for own in shown]
        actor, roles = self.speaker(round, agents[0]), [f"{DEBATER}{agent}" for agent in agents]
        if isinstance(speak, SpeaksTogether):
            said = speak.together(actor, roles, round, contexts)
        else:
            said = [speak(actor, roles[0], round, contexts[0])]
        for turns, summaries, prompts in zip(said, heard, shown, strict=True):
            for one, (summary, cut), (_, left_out) in zip(turns, summaries, prompts, strict=True):
                one.summary, one.shortened = summary, cut or left_out
        return said

    @property
    def places(self) -> int:
        """Calls of `speak` in a debate; each has random numbers of its own."""
        heard = self.agents * (self.rounds - 1) if self._summarises else 0
        return self.agents * self.rounds + heard

    @property
    def _summarises(self) -> bool:
        return self.summariser is not None and self.agents > 1

    def _summaries(
        self, round: int, agent: int, views: Sequence[View | None], speak: Speak
    ) -> list[tuple[str | None, bool]]:
        """For each debate the summary that an agent gets, None where there is none.

        And whether the summariser's prompt had to be shortened.
        """
        if self.summariser is None or not self._summarises or round == 0:
            return [(None, False)] * len(views)
        shown = [
            (None, False)
            if view is None
            else self._to_summarise(self.summariser.contexts(*view, agent), agent)
            for view in views
        ]
        contexts = [context for context, _ in shown]
        told = speak(self.summariser.speaker, f"{SUMMARISER}{agent}", round, contexts)
        return [
            (None if one.absent else one.response.strip(), cut)
            for one, (_, cut) in zip(told, shown, strict=True)
        ]

    def _to_summarise(self, contexts: Iterator[Context], agent: int) -> tuple[Context | None, bool]:
        """The summariser's first prompt that fits, None where none does; whether it is shortened.

        Without a summary an agent sees the answers themselves, as many as fit.
        """
        fitting = (
            (context, number > 0)
            for number, context in enumerate(contexts)
            if self.fits(agent, context)
        )
        return next(fitting, (None, True))

    def _context(
        self, prompt: Prompt, rounds: Rounds, agent: int, summary: str | None
    ) -> tuple[Context | None, bool]:
        return self._fitting(self.wording(agent).contexts(prompt, rounds, agent, summary), agent)

    def _fitting(self, contexts: Iterator[Context], agent: int) -> tuple[Context | None, bool]:
        """The first prompt that fits, and whether it was shortened."""
        context: Context = ""
        for number, context in enumerate(contexts):
            if self.fits(agent, context):
                return context, number > 0
        return context, False  # nothing fits: the actor will refuse the bare question

    def _agreed(self, rows: Sequence[Sequence[Turn]], share: float) -> list[bool]:
        """Whether such a share of a round's answers is equal in each debate.

        By one process: where formulas are compared, time may run out in one and not in another.
        """
        return distributed.first_works(
            lambda: [agreement([self.read(t.response) for t in row]) >= share for row in rows]
        )
