"""Which turns of a roll-out are compared with each other."""

from collections.abc import Sequence

import torch
from torch import Tensor

from cory.episode import Episode


def groups_of(episodes: Sequence[Episode], agent: str, samples: int) -> Tensor:
    """The group of each turn of an agent: turns that share a query, a role and a round.

    Their contexts are equal where an agent sees the bare query. An observer or a debater of a later
    round also sees earlier answers, which differ within the group.

    episodes: `samples` of each query, one after another
    returns: (B,) int64, in the order of `turns_of`; -1 for absent turns
    """
    numbers: dict[tuple[int, str, int], int] = {}
    found = []
    for place, episode in enumerate(episodes):
        for turn in episode.turns:
            if turn.agent == agent:
                key = (place // samples, turn.role, turn.round)
                found.append(-1 if turn.absent else numbers.setdefault(key, len(numbers)))
    return torch.tensor(found)
