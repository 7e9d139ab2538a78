"""Debates in which one chat model behind an endpoint speaks in every seat."""

from __future__ import annotations

import json
from collections.abc import Sequence

import torch

from cory.config import SamplingConfig
from cory.endpoint.batch import Ask, Endpoint
from cory.endpoint.client import Reply
from cory.episode import Context, Episode, Metrics, Prompt, Turn
from cory.evaluation.evaluate import SAID, TEAM, BeforeEach, EvalContext, Request, evaluate
from cory.models.policy import Spoken
from cory.models.team import user
from cory.rollout.debate import Debate
from cory.rollout.interactions import Speak
from cory.runs.partial_results import PartialResults


class EndpointDebate:
    """A debate whose speakers are one endpoint; an interaction.

    Replies are kept under the problem and the place in the debate, so that a run that begins again
    pays for none of them twice, whatever it asks at once.
    """

    def __init__(self, endpoint: Endpoint, debate: Debate) -> None:
        self.endpoint = endpoint
        self.debate = debate
        self.prompts: list[Prompt] = []  # what is debated just now
        self.watch: BeforeEach | None = None  # called every few seconds while replies come

    def __call__(self, prompts: list[Prompt], speak: Speak) -> list[Episode]:
        """One debate per prompt."""
        self.prompts = prompts
        return self.debate(prompts, speak)

    def replies(self, role: str, round: int, contexts: Sequence[Context | None]) -> list[Reply]:
        """A reply to each context that is there; `contexts` are those of `prompts`, in order."""
        asks = [
            Ask(f"{prompt.id}/turn_{round + 1}/{role}", messages(context))
            for prompt, context in zip(self.prompts, contexts, strict=True)
            if context is not None
        ]
        return self.endpoint.complete(asks, self.watch)

    def measured(
        self, bench: EvalContext, request: Request, pieces: PartialResults, before_each: BeforeEach
    ) -> Metrics:
        """An evaluation, and what all replies have taken so far, those of earlier starts included.

        It may be asked to stop while replies come, too: those that came are kept.
        """

        def watched(done: int, rows: int) -> None:
            before_each(done, rows)
            self.watch = lambda come, asked: before_each(done, rows)

        metrics = evaluate(bench, request, pieces, watched)
        spent = self.endpoint.spent()
        return metrics | {
            f"eval/endpoint_requests/{TEAM}": float(spent.requests),
            f"eval/endpoint_tokens/{TEAM}": float(spent.prompt_tokens + spent.completion_tokens),
        }


class EndpointSpeaker:
    """Somebody at that debate; a `Actor`. It samples as the endpoint's own settings say."""

    def __init__(self, name: str, debate: EndpointDebate) -> None:
        self.name = name
        self.debate = debate

    def turns(
        self,
        role: str,
        round: int,
        contexts: Sequence[Context | None],
        limit: int,
        sampling: SamplingConfig | None,
        stream: torch.Generator,
    ) -> Spoken:
        """As `Voice.turns`; limit, sampling and stream are of models that speak here."""
        replies = iter(self.debate.replies(role, round, contexts))
        spoken: Spoken = []
        for context in contexts:
            text = "" if context is None else next(replies).text.strip()
            turn = Turn(
                agent=self.name,
                role=role,
                round=round,
                context=as_text(context),
                response=text,
                context_ids=[],
                response_ids=[] if context is None else SAID,
            )
            spoken.append((turn, []))
        return spoken


def messages(context: Context) -> list[dict[str, str]]:
    """A chat as it is; a text as what the user says."""
    return context if isinstance(context, list) else [user(context)]


def as_text(context: Context | None) -> str:
    """What samples.jsonl keeps of a context; one message, as of a text, is its content."""
    if isinstance(context, list):
        alone = context[0]["content"] if len(context) == 1 else None
        return alone or json.dumps(context, ensure_ascii=False)
    return context or ""
