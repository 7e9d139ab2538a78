"""The `speak` that interactions are given: named actors respond to contexts."""

from collections.abc import Iterator, Mapping, Sequence

import torch

from cory.config import SamplingConfig
from cory.episode import Context, Turn
from cory.models.policy import Actor, Policy, Spoken

# by `id` of a turn: the log-probability of each of its tokens under what it was sampled from
SamplerLogprobs = dict[int, list[float]]


class Speaking:
    """A `speak` of named actors; one that debaters can share (`SpeaksTogether`)."""

    def __init__(
        self,
        actors: Mapping[str, Actor],
        limit: int,
        sampling: SamplingConfig | None,
        streams: Iterator[torch.Generator],
        logprobs: SamplerLogprobs | None,
    ) -> None:
        self.actors = actors
        self.limit = limit
        self.sampling = sampling
        self.streams = streams
        self.logprobs = logprobs

    def __call__(
        self, actor: str, role: str, round: int, contexts: Sequence[Context | None]
    ) -> list[Turn]:
        """A turn per context, as `Speak`."""
        (turns,) = self.together(actor, [role], round, [contexts])
        return turns

    def together(
        self,
        actor: str,
        roles: Sequence[str],
        round: int,
        contexts: Sequence[Sequence[Context | None]],
    ) -> list[list[Turn]]:
        """As `SpeaksTogether`: a model samples for all roles at once."""
        who, streams = self.actors[actor], [next(self.streams) for _ in roles]
        if isinstance(who, Policy):
            spoken = who.turns_together(roles, round, contexts, self.limit, self.sampling, streams)
        else:
            spoken = [
                who.turns(role, round, own, self.limit, self.sampling, stream)
                for role, own, stream in zip(roles, contexts, streams, strict=True)
            ]
        return [self._taken_up(own) for own in spoken]

    def _taken_up(self, spoken: Spoken) -> list[Turn]:
        if self.logprobs is not None:
            self.logprobs.update({id(turn): row for turn, row in spoken})
        return [turn for turn, _ in spoken]


def speak_with(
    actors: Mapping[str, Actor],
    limit: int,
    sampling: SamplingConfig | None,
    streams: Iterator[torch.Generator],
    logprobs: SamplerLogprobs | None = None,
) -> Speaking:
    """A `speak` by which any of the actors responds in at most `limit` tokens.

    sampling: None decodes greedily
    streams: random numbers of each call and role, in the order of the calls
    logprobs: takes up those of every turn
    """
    return Speaking(actors, limit, sampling, streams, logprobs)
