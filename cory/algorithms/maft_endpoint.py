"""Debates in which one chat model behind an endpoint speaks for every agent."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from cory.config import SamplingConfig, require
from cory.endpoint import TOO_LONG, Ask, Endpoint, Reply
from cory.episode import TEXT_ONLY, Context, Episode, Metrics, Prompt, Turn, as_messages
from cory.evaluation.evaluate import Evaluator
from cory.evaluation.responses import TEAM, BeforeEach, EvalRequest
from cory.models.policy import Spoken
from cory.rollout.debate import Debate
from cory.rollout.interactions import Speak


class Shorten(Exception):
    """The server refused a context for its length: the debates begin again without it."""


class EndpointDebate:
    """A debate whose actors are all one endpoint; an interaction.

    Replies are stored by problem and place in the debate, so that a restarted run pays for none of
    them twice, whatever it asks at once. Only the server knows what it finds too long. Once it has
    refused a context, the debates begin again, with stored replies up to there, and the next
    shorter wording takes its place; the refusal is stored, too.
    """

    def __init__(self, endpoint: Endpoint, debate: Debate) -> None:
        self.endpoint = endpoint
        self.debate = replace(debate, fits=lambda agent, context: self._fits(context))
        self.too_long: set[str] = set()  # contexts that the server has refused
        self.prompts: list[Prompt] = []  # those being debated
        self.watch: BeforeEach | None = None  # called every few seconds while replies come

    def __call__(self, prompts: list[Prompt], speak: Speak) -> list[Episode]:
        """One debate per prompt. `speak` is not used: it can be asked only once."""
        self.prompts = prompts
        while True:
            try:
                return self.debate(prompts, self._speak)
            except Shorten:
                continue

    def replies(self, role: str, round: int, contexts: Sequence[Context | None]) -> list[Reply]:
        """A reply to each context but None; `contexts` are those of `prompts`, in order.

        Raises Shorten where one is too long; ConfigError if it has no shorter wording.
        """
        asked = [
            (prompt, context)
            for prompt, context in zip(self.prompts, contexts, strict=True)
            if context is not None
        ]
        for prompt, context in asked:
            require(
                self._fits(context),
                f"{self.endpoint.config.key}: {self.endpoint.config.base_url} refuses problem "
                f"{prompt.id} as too long, also in its shortest wording; with a smaller "
                f"max_tokens it may fit",
            )
        asks = [
            Ask(f"{prompt.id}/turn_{round + 1}/{role}", as_messages(context), shorter=True)
            for prompt, context in asked
        ]
        replies = self.endpoint.complete(asks, self.watch)
        refused = {
            as_key(context)
            for (_, context), reply in zip(asked, replies, strict=True)
            if reply.finish_reason == TOO_LONG
        }
        if refused:
            self.too_long |= refused
            raise Shorten
        return replies

    def _fits(self, context: Context) -> bool:
        return as_key(context) not in self.too_long

    def _speak(
        self, actor: str, role: str, round: int, contexts: Sequence[Context | None]
    ) -> list[Turn]:
        """The turns of one actor, as `Speak`."""
        spoken = EndpointActor(actor, self).turns(role, round, contexts, 0, None, torch.Generator())
        return [turn for turn, _ in spoken]


@dataclass(frozen=True)
class EndpointEvaluator:
    """An evaluation, and the requests and tokens spent so far; an `Evaluator`.

    Those of earlier starts of the run count, too.
    """

    debate: EndpointDebate
    evaluate: Evaluator

    def __call__(self, request: EvalRequest, before_each: BeforeEach) -> Metrics:
        """As `Evaluator`; it can also be interrupted while replies come, which are kept."""

        def watched(done: int, rows: int) -> None:
            before_each(done, rows)
            self.debate.watch = lambda come, asked: before_each(done, rows)

        metrics = self.evaluate(request, watched)
        requests, tokens = self.debate.endpoint.spent()
        return metrics | {
            f"eval/endpoint_requests/{TEAM}": float(requests),
            f"eval/endpoint_tokens/{TEAM}": float(tokens),
        }


@dataclass
class EndpointActor:
    """An `Actor` of that debate. Its sampling is the endpoint's own settings'."""

    name: str
    debate: EndpointDebate

    def turns(
        self,
        role: str,
        round: int,
        contexts: Sequence[Context | None],
        limit: int,
        sampling: SamplingConfig | None,
        stream: torch.Generator,
    ) -> Spoken:
        """As `Policy.turns`; limit, sampling and stream are not used."""
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
                response_ids=[] if context is None else TEXT_ONLY,
            )
            spoken.append((turn, []))
        return spoken


def as_key(context: Context) -> str:
    """A context as text, by which equal ones are known."""
    return json.dumps(as_messages(context), ensure_ascii=False)


def as_text(context: Context | None) -> str:
    """A context as samples.jsonl keeps it; of a single message, its content."""
    if isinstance(context, list):
        alone = context[0]["content"] if len(context) == 1 else None
        return alone or json.dumps(context, ensure_ascii=False)
    return context or ""
