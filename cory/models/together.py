"""What several agents are asked together: adapters on one base speak in the same passes."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

from cory import distributed
from cory.config import SamplingConfig
from cory.episode import Asked, Turn
from cory.models.actor import Actor
from cory.models.policy import Policy


def turns_together(
    actors: Mapping[str, Actor],
    batch: Mapping[str, Sequence[Asked]],
    limits: Mapping[str, int],
    sampling: SamplingConfig | None,
) -> dict[str, Sequence[Turn | None]]:
    """The turns of each agent, as of `Actor.turns`, from as few passes as they take.

    batch: what each is asked
    limits: of each, the most tokens of a response
    """
    alike: dict[Hashable, dict[str, Policy]] = defaultdict(dict)
    for agent in batch:
        one = actors[agent]
        if isinstance(one, Policy) and one.base and not (one.served or one.samples_with_dropout):
            key = id(one.base), limits[agent], str(one.own_sampling(sampling))
            alike[key][agent] = one
    turns: dict[str, Sequence[Turn | None]] = {}
    for group in alike.values():
        (first, *_), rows = group.values(), [len(batch[agent]) for agent in group]
        size = first.responses_at_once * distributed.count()
        if -(-sum(rows) // size) < sum(-(-own // size) for own in rows):
            limit = limits[next(iter(group))]
            shown = [policy.shown(batch[agent], limit) for agent, policy in group.items()]
            said = iter(
                first.sampled(
                    [one for agent in group for one in batch[agent]],
                    [ids for _, own in shown for ids in own],
                    limit,
                    first.own_sampling(sampling),
                    [policy.adapter for agent, policy in group.items() for _ in batch[agent]],
                )
            )
            for (agent, policy), texts in zip(group.items(), shown, strict=True):
                each = zip(batch[agent], *texts, strict=True)
                turns[agent] = [policy.turn(*own, next(said)) for own in each]
    return {
        agent: turns.get(agent) or actors[agent].turns(asked, limits[agent], sampling)
        for agent, asked in batch.items()
    }
