"""What single agents have of their own: `members.<name>`, merged over what holds for all."""

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from cory.config.algorithm import SamplingConfig
from cory.config.base import NotNegative, Positive, Settings
from cory.config.model import ModelConfig

OF_TEXTS = ("template", "system", "thinking")  # how a model is shown prompts, and read
OWN = ("learning_rate", "kl_coef")  # null where a block does not say them


class MemberConfig(Settings):
    """Settings of one agent; those that its block does not name are the run's."""

    model: ModelConfig  # chosen by +model@members.<agent>.model=<option>
    learning_rate: Positive | None  # None: as the algorithm has it
    kl_coef: NotNegative | None  # None: likewise
    sampling: SamplingConfig


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


def alike(one: ModelConfig, other: ModelConfig) -> bool:
    """Whether agents with these settings start from one model in memory.

    Each agent has an adapter of its own, and may be shown prompts in its own way.
    """
    own = {key: getattr(other, key) for key in ("adapter", *OF_TEXTS)}
    return one.model_copy(update=own) == other
