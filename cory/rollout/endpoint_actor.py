"""An agent that is a chat model behind an endpoint."""

from collections.abc import Sequence
from dataclasses import dataclass

from cory.config import SamplingConfig
from cory.endpoint import TOO_LONG, Ask, Endpoint
from cory.episode import TEXT_ONLY, Asked, Context, Turn, as_messages, as_text

REPLIES = "endpoint.jsonl"  # in the run directory: the endpoint's replies


@dataclass
class EndpointActor:
    """An `Actor`. Its sampling is the endpoint's own settings'.

    Replies are stored by the keys of what is asked, so that a restarted run pays for none of them
    twice, whatever it asks at once; so is what the server found too long.
    """

    name: str
    endpoint: Endpoint

    def turns(
        self, asked: Sequence[Asked], limit: int, sampling: SamplingConfig | None
    ) -> list[Turn | None]:
        """As `Actor`; limit, sampling and random numbers are not used."""
        asks = [Ask(one.key, as_messages(one.context), shorter=True) for one in asked]
        replies = self.endpoint.complete(asks)
        return [
            None
            if reply.finish_reason == TOO_LONG
            else Turn(
                agent=self.name,
                role=one.role,
                round=one.round,
                context=as_text(one.context),
                asked=one.context,
                response=reply.text.strip(),
                context_ids=[],
                response_ids=TEXT_ONLY,
                cut_off=reply.finish_reason == "length",
                thinking=reply.thinking,
            )
            for one, reply in zip(asked, replies, strict=True)
        ]

    def fits(self, context: Context, limit: int) -> bool:
        """As `Actor`: the server checks that itself."""
        return True
