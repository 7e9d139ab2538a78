"""The `speak` that interactions are given: named actors respond to contexts."""

from collections.abc import Iterator, Mapping, Sequence

import torch

from cory.config import SamplingConfig
from cory.episode import Context, Turn
from cory.models.policy import Actor
from cory.rollout.interactions import Speak


def speak_with(
    actors: Mapping[str, Actor],
    limit: int,
    sampling: SamplingConfig | None,
    streams: Iterator[torch.Generator],
    logprobs: dict[str, list[float]] | None = None,
) -> Speak:
    """A `speak` by which any of the actors responds in at most `limit` tokens.

    sampling: None decodes greedily
    streams: random numbers of each call, in the order of the calls
    logprobs: takes up, by actor, the log-probability of every token under what it was sampled from
    """

    def speak(actor: str, role: str, round: int, contexts: Sequence[Context | None]) -> list[Turn]:
        spoken = actors[actor].turns(role, round, contexts, limit, sampling, next(streams))
        if logprobs is not None:
            logprobs.setdefault(actor, []).extend(logp for _, row in spoken for logp in row)
        return [turn for turn, _ in spoken]

    return speak
