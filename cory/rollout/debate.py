"""Debates: every agent answers, sees what the others answered, and answers again."""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from cory.episode import Context, Prompt, Turn
from cory.functional.votes import agreement
from cory.rollout.debate_prompts import DebateWording, Rounds, SumUp
from cory.rollout.scheduler import Cast, Speaker, TooLong


@dataclass
class Debate:
    """A debate over several rounds; `play` is an episode of it (Park et al., 3.1).

    Every episode has rounds x agents turns, by round and then by agent; those after the end of a
    debate are absent.
    """

    agents: int
    rounds: int
    speaker: Callable[[int, int], str]  # round, agent -> the actor that speaks
    wording: Callable[[str, int], DebateWording]  # of who speaks, as an agent
    limit: int  # tokens for which a prompt leaves room
    read: Callable[[str], Hashable | None]  # response -> its answer
    consensus: float | None  # share of equal answers that ends a debate
    scored: bool = False  # agents see the scores of answers
    summariser: SumUp | None = None  # None: agents read the others' answers themselves

    async def play(self, prompt: Prompt, cast: Cast) -> None:
        rounds: list[list[Turn]] = []
        for number in range(self.rounds):
            said = [self._answer(prompt, rounds, agent, cast) for agent in range(self.agents)]
            rounds.append(list(await asyncio.gather(*said)))
            cast.add(*rounds[-1])
            if self.scored:
                await cast.score(rounds[-1])
            if self.consensus is None:
                continue
            if agreement([self.read(turn.response) for turn in rounds[-1]]) >= self.consensus:
                for later in range(number + 1, self.rounds):
                    for agent in range(self.agents):
                        cast[self.speaker(later, agent)].absent(f"debater_{agent}", later)
                return

    async def _answer(self, prompt: Prompt, rounds: Rounds, agent: int, cast: Cast) -> Turn:
        """What an agent says after these rounds; of its prompts the first that fits is asked."""
        summary, cut = await self._summary(prompt, rounds, agent, cast)
        number, role = len(rounds), f"debater_{agent}"
        speaker = cast[self.speaker(number, agent)]
        contexts = [*self.wording(speaker.name, agent).contexts(prompt, rounds, agent, summary)]
        turn, shorter = await self._first_that_fits(speaker, contexts, role, number)
        if turn is None:  # the bare question, which an actor refuses that may not say less
            return await speaker.say(contexts[-1], role, number, aside=True)
        turn.summary, turn.shortened = summary, cut or shorter
        return turn

    async def _summary(
        self, prompt: Prompt, rounds: Rounds, agent: int, cast: Cast
    ) -> tuple[str | None, bool]:
        """The summary of the others' answers for an agent, None where there is none.

        And whether it has not all of them: without one that fits, an agent sees the answers
        themselves, as many as fit.
        """
        if self.summariser is None or self.agents == 1 or not rounds:
            return None, False  # of nobody's answers there is none
        speaker, role = cast[self.summariser.speaker], f"summariser_{agent}"
        contexts = self.summariser.contexts(prompt, rounds, agent)
        told, shorter = await self._first_that_fits(speaker, contexts, role, len(rounds))
        return None if told is None else told.response.strip(), shorter

    async def _first_that_fits(
        self, speaker: Speaker, contexts: Iterable[Context], role: str, number: int
    ) -> tuple[Turn | None, bool]:
        """What is said to the first of the contexts that fits; whether one before it did not."""
        for left_out, context in enumerate(contexts):
            if not speaker.fits(context, self.limit):
                continue
            try:
                return await speaker.say(context, role, number, aside=True), left_out > 0
            except TooLong:
                continue
        return None, True
