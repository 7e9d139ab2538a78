"""Rules of `members`: whose blocks they are, and what would be ignored there."""

from cory.config.base import Conflicts, nearest
from cory.config.debate import MaftConfig
from cory.config.experiment import Config
from cory.config.members import OWN, alike


def of_members(config: Config) -> Conflicts:
    """Blocks of agents: whose they are, and what would be ignored or does not go together."""
    algorithm, known = config.algorithm, config.algorithm.members()
    fixed, said = getattr(algorithm, "fixed_agents", {}), f"algorithm={algorithm.name}"
    for name, member in config.members.items():
        key = f"members.{name}"
        if len(known) == 1 or algorithm.speaks_remotely():
            yield key, f"needs several agents that are models here; {said} has {known[0]} alone"
            continue
        if name not in known:
            yield key, f"{said} has the agents {', '.join(known)}{nearest(name, known)}"
            continue
        if fixed.get(name) == "endpoint":
            yield key, "would be ignored: algorithm.endpoint says how it samples"
        copied = member.model.sharing == "copies" and alike(member.model, config.model)
        if copied and member.model.adapter != config.model.adapter:
            yield f"{key}.model.adapter", "would be ignored: needs model.sharing=adapters"
        for own in (own for own in OWN if getattr(member, own) is not None):
            if name in fixed:
                yield f"{key}.{own}", "would be ignored: algorithm.fixed says that it never learns"
            elif not hasattr(algorithm, own):
                yield f"{key}.{own}", f"would be ignored: {said} has no algorithm.{own}"
        broken = {*config.algorithm_of(name).conflicts()} - {*algorithm.conflicts()}
        for place, rule in sorted(broken):
            yield key, f"algorithm.{place} {rule}"
        least, most = member.sampling.lengths
        if least != most and isinstance(algorithm, MaftConfig):
            yield f"{key}.sampling.min_response_tokens", f"must equal max_response_tokens={most}"
    first, *_ = algorithm.names()
    for name in (name for name, kind in fixed.items() if kind == "pool"):
        ours, theirs = config.model_of(name), config.model_of(first)
        if not alike(ours, theirs) or ours.adapter != theirs.adapter:
            yield "algorithm.fixed", f"{name} must have the model of {first}, whose versions play"
    if "model" not in map(config.group_of, algorithm.names()):
        yield "model", "is nobody's: every agent that learns has one of its own in members"
