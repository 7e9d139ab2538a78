"""What agents of Multiagent Finetuning are shown: others' answers or a summary, and their name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cory.config import MaftPrompts
from cory.episode import Context, Prompt, Turn
from cory.rollout.debate_prompts import Rounds, Wording, others


@dataclass(frozen=True)
class Told:
    """An agent is told a summary of the others' answers, or the answers; a `FollowUp`."""

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
        said = quotes(prompts, others(turns, agent)[:quoted])
        if not said:
            return prompts.follow_up_alone.format(query=query)
        return prompts.follow_up.format(others=said, query=query)


@dataclass(frozen=True)
class SumUp:
    """Asks somebody to sum up what the others said last; a `Summariser`."""

    prompts: MaftPrompts
    speaker: str  # who sums up

    def contexts(self, prompt: Prompt, rounds: Rounds, agent: int) -> Iterator[Context]:
        """As `Summariser`: answers are left out from the last one on."""
        said = others(rounds[-1], agent)
        for count in range(len(said), 0, -1):
            yield self.prompts.summarise.format(
                others=quotes(self.prompts, said[:count]), query=prompt.text
            )


@dataclass(frozen=True)
class Identified:
    """Every message to an agent begins with a name of its own (App. J); a `Wording`."""

    wording: Wording
    prompts: MaftPrompts
    number: int  # of the agent, from 1
    critics: Callable[[int], bool]  # turn, from 0 -> whether a critic agent speaks in it

    def contexts(
        self, prompt: Prompt, rounds: Rounds, agent: int, summary: str | None = None
    ) -> Iterator[Context]:
        """As `Wording`."""
        for context in self.wording.contexts(prompt, rounds, agent, summary):
            if isinstance(context, str):
                yield self._name(len(rounds)) + context
                continue
            # the last message is about this turn, the one before it about the last, ...
            asked = sum(message["role"] == "user" for message in context)
            turn = len(rounds) - asked
            named = []
            for number, message in enumerate(context):
                name = ""
                if message["role"] == "user":
                    turn += 1
                    name = self._name(0 if number == 0 else turn)  # the opening always stays
                named.append({**message, "content": name + message["content"]})
            yield named

    def _name(self, turn: int) -> str:
        form = self.prompts.critic_id if self.critics(turn) else self.prompts.generation_id
        return form.format(number=self.number)


def quotes(prompts: MaftPrompts, turns: Sequence[Turn]) -> str:
    """Answers as they are, one after the other."""
    return prompts.separator.join(
        prompts.other.format(number=number, response=turn.response.strip())
        for number, turn in enumerate(turns, 1)
    )
