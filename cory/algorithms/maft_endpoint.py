"""Debates in which one chat model behind an endpoint speaks for every agent."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from cory.config import SamplingConfig
from cory.endpoint import TOO_LONG, Ask, Endpoint
from cory.episode import TEXT_ONLY, Asked, Context, Metrics, Turn, as_messages
from cory.evaluation.evaluate import Evaluator
from cory.evaluation.responses import TEAM, BeforeEach, EvalRequest


@dataclass
class Server:
    """An endpoint, and what is called every few seconds while its replies come."""

    endpoint: Endpoint
    watch: BeforeEach | None = None


@dataclass
class EndpointActor:
    """An `Actor`. Its sampling is the endpoint's own settings'.

    Replies are stored by problem and place in the debate, so that a restarted run pays for none of
    them twice, whatever it asks at once; so is what the server found too long.
    """

    name: str
    server: Server

    def turns(
        self, asked: Sequence[Asked], limit: int, sampling: SamplingConfig | None
    ) -> list[Turn | None]:
        """As `Actor`; limit, sampling and random numbers are not used."""
        asks = [
            Ask(f"{one.prompt}/turn_{one.round + 1}/{one.role}", as_messages(one.context), True)
            for one in asked
        ]
        replies = self.server.endpoint.complete(asks, self.server.watch)
        return [
            None
            if reply.finish_reason == TOO_LONG
            else Turn(
                agent=self.name,
                role=one.role,
                round=one.round,
                context=as_text(one.context),
                response=reply.text.strip(),
                context_ids=[],
                response_ids=TEXT_ONLY,
            )
            for one, reply in zip(asked, replies, strict=True)
        ]


@dataclass(frozen=True)
class EndpointEvaluator:
    """An evaluation, and the requests and tokens spent so far; an `Evaluator`.

    Those of earlier starts of the run count, too.
    """

    server: Server
    evaluate: Evaluator

    def __call__(self, request: EvalRequest, before_each: BeforeEach) -> Metrics:
        """As `Evaluator`; it can also be interrupted while replies come, which are kept."""

        def watched(done: int, rows: int) -> None:
            before_each(done, rows)
            self.server.watch = lambda come, asked: before_each(done, rows)

        metrics = self.evaluate(request, watched)
        requests, tokens = self.server.endpoint.spent()
        return metrics | {
            f"eval/endpoint_requests/{TEAM}": float(requests),
            f"eval/endpoint_tokens/{TEAM}": float(tokens),
        }


def as_text(context: Context) -> str:
    """A context as samples.jsonl keeps it; of a single message, its content."""
    if isinstance(context, str):
        return context
    return context[0]["content"] if len(context) == 1 else json.dumps(context, ensure_ascii=False)
