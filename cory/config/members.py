"""Blocks of `members`: merged over what holds for all, and the rules about them."""

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from cory.config.base import Conflicts, nearest
from cory.config.experiment import OWN, Config, alike


def complete_models(cfg: DictConfig) -> None:
    """Where a block names a model by its path alone, put what the run says of its own beside it.

    Before interpolations are resolved: what conf/ reads from a path is read from the block's.
    """
    blocks = cfg.get("members")
    for block in blocks.values() if OmegaConf.is_dict(blocks) else ():
        model: Any = block.get("model") if OmegaConf.is_dict(block) else None
        if OmegaConf.is_dict(model) and "path" in model and "name" not in model:
            ours = cfg.model.copy()
            OmegaConf.set_struct(ours, False)  # what is no setting is refused later
            block.model = OmegaConf.merge(ours, model)


def with_members(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run, in them each block of `members` merged over those that it changes.

    What is no group is left as it is, for the models to refuse.
    """
    blocks = values.get("members")
    if not isinstance(blocks, dict):
        return values
    algorithm = values.get("algorithm")
    sampling = algorithm.get("sampling") if isinstance(algorithm, dict) else None
    run = {"model": values.get("model"), "sampling": sampling, **dict.fromkeys(OWN)}
    whole = {
        name: merged(run, one_limit(block)) if isinstance(block, dict) else block
        for name, block in blocks.items()
    }
    return {**values, "members": whole}


def one_limit(block: dict[str, Any]) -> dict[str, Any]:
    """A block whose longest response, where it says no shortest, is its one limit."""
    sampling = block.get("sampling")
    if not isinstance(sampling, dict) or "max_response_tokens" not in sampling:
        return block
    least = {"min_response_tokens": sampling["max_response_tokens"]}
    return {**block, "sampling": {**least, **sampling}}


def merged(base: Any, changes: Any) -> Any:
    """`changes` over `base`, group by group."""
    if not (isinstance(base, Mapping) and isinstance(changes, Mapping)):
        return changes
    return {**base, **{key: merged(base.get(key), value) for key, value in changes.items()}}


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
    first, *_ = algorithm.names()
    for name in (name for name, kind in fixed.items() if kind == "pool"):
        ours, theirs = config.model_of(name), config.model_of(first)
        if not alike(ours, theirs) or ours.adapter != theirs.adapter:
            yield "algorithm.fixed", f"{name} must have the model of {first}, whose versions play"
    if "model" not in map(config.group_of, algorithm.names()):
        yield "model", "is nobody's: every agent that learns has one of its own in members"
