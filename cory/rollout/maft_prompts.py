"""The prompts of Multiagent Finetuning: others' answers or a summary, and agents' names."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cory.config import MaftPrompts
from cory.episode import Context, Prompt, Turn, as_messages
from cory.rollout.debate_prompts import (
    DebateWording,
    Rounds,
    turns_of_others,
)


@dataclass(frozen=True)
class Told:
    """A `FollowUp` with a summary of the others' answers, or with the answers."""

    prompts: MaftPrompts

    def __call__(
        self,
        prompt: Prompt,
        turns: Sequence[Turn],
        agent: int,
        summary: str | None,
        quoted: int | None,
    ) -> str:
        """As `FollowUp`."""
        prompts, query = self.prompts, prompt.text
        if summary is not None:
            return prompts.follow_up_summary.format(summary=summary, query=query)
        said = quotes(prompts, turns_of_others(turns, agent)[:quoted])
        if not said:
            return prompts.follow_up_alone.format(query=query)
        return prompts.follow_up.format(others=said, query=query)


@dataclass(frozen=True)
class SumUp:
    """A `Summariser`: prompts for a summary of the others' last answers."""

    prompts: MaftPrompts
    speaker: str  # the actor that summarises

    def contexts(self, prompt: Prompt, rounds: Rounds, agent: int) -> Iterator[Context]:
        """As `Summariser`; answers are left out from the last one on, but for the first."""
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
    critics: Callable[[int], bool]  # round, from 0 -> whether critic agents speak in it

    def contexts(
        self, prompt: Prompt, rounds: Rounds, agent: int, summary: str | None = None
    ) -> Iterator[Context]:
        """As `DebateWording`."""
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
        form = self.prompts.critic_id if self.critics(round) else self.prompts.generation_id
        return form.format(number=self.number)


def quotes(prompts: MaftPrompts, turns: Sequence[Turn]) -> str:
    """Answers quoted one after the other."""
    return prompts.separator.join(
        prompts.other.format(number=number, response=turn.response.strip())
        for number, turn in enumerate(turns, 1)
    )
