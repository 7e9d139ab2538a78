"""Settings that run directories of before do not have.

Each has a value with which a run is what it was before, so that such a directory still resumes,
and its agents still load: there the setting is taken to have this value.
"""

from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from typing import Any

from omegaconf import DictConfig, OmegaConf

# Setting -> a setting of the same group, which tells that it belongs there; its value of before.
# One that belongs beside another of these comes after it.
ADDED: dict[str, tuple[str, Any]] = {
    **{
        key: ("label", value)  # of classifiers
        for key, value in {
            "chat": False,
            "max_tokens": None,
            "precision": "fp32",
            "quantisation": "none",
            "double_quantisation": True,
            "compute_precision": "fp32",
        }.items()
    },
    "attention": ("compute_precision", "auto"),
    "value_init": ("value_dropout", "uniform"),
    "value_detached": ("value_dropout", False),
    "rollout_dropout": ("value_dropout", False),
    "special_tokens_in_text": ("value_dropout", False),
    "generation_batch_size": ("rollout_batch_size", None),
    "cuda_graphs": ("rollout_batch_size", False),
    "gpu": ("rollout_batch_size", None),
    "memory": ("rollout_batch_size", None),
    "credit": ("collective_reward", "all"),
    "contradictions": ("pick_seed", "refused"),
    "plain_http": ("key_variable", False),
    "parallel_runs": ("keep_last", 1),
    "fidelity": ("scale", "paper"),
    "before": ("probes", False),
    "untrained_store": ("evaluation", None),
    "objective": ("keep_last", None),
    "keep_state": ("keep_last", None),
    "keep_best": ("keep_last", None),
    "keep_best_mode": ("keep_last", "max"),
    "stretch_schedule": ("keep_last", False),
    "tensorboard": ("keep_last", False),
    **dict.fromkeys(("entity", "name", "group", "notes"), ("finish_timeout", None)),
    "tags": ("finish_timeout", []),
    "next_question": ("programs", "ignored"),
    "unreadable_votes": ("vote_ties", "counted"),
    "labels": ("critic_share", "vote"),
    "average": ("keep_per_label", "tokens"),
    "chats_only": ("follow_up_summary", False),
    "schedule": ("learning_rate", "constant"),
    "warmup": ("learning_rate", 0.0),
    "final_share": ("learning_rate", 0.0),
    "optimizer": ("learning_rate", "adamw"),
    "samples_per_prompt": ("gae_lambda", 1),
    "advantages": ("gae_lambda", "gae"),
    "value_learning_rate": ("gae_lambda", None),
    "divide_by_std": ("gae_lambda", True),
    "group_baseline": ("gae_lambda", False),
    "ratio": ("gae_lambda", "token"),
    "loss_average": ("gae_lambda", "tokens"),
    "loss_average_turns": ("gae_lambda", None),
    "clip_range_high": ("gae_lambda", None),
    "kl_in": ("gae_lambda", "reward"),
    "kl_loss": ("gae_lambda", "k3"),
    "policy_temperature": ("gae_lambda", 1.0),
}
# setting -> a setting of groups that had it from the start: there no value is left out
HAD_BEFORE = {"schedule": "iterations_per_epoch", "warmup": "iterations_per_epoch"}


def complete(cfg: DictConfig, schema: DictConfig) -> None:
    """Give the settings that are not there, and that a run has, the values of before.

    schema: the types of all settings; an option of another package may have the one beside and not
        the one that came later
    """
    for node, key in _places(cfg, schema):
        if key not in node:
            node[key] = ADDED[key][1]


def with_values_of_before(flat: dict[str, Any]) -> dict[str, Any]:
    """Settings by dotted keys, and those that are not there with the values of before."""
    found = dict(flat)
    for name, (beside, before) in ADDED.items():
        for key in list(found):
            group, dot, leaf = key.rpartition(".")
            if leaf == beside and f"{group}{dot}{HAD_BEFORE.get(name, '')}" not in found:
                found.setdefault(f"{group}{dot}{name}", before)
    return found


def as_before(flat: dict[str, Any]) -> dict[str, Any]:
    """Settings by dotted keys, without those that are as before."""
    return {key: value for key, value in flat.items() if not _is_as_before(key, value, flat)}


def _is_as_before(key: str, value: Any, flat: dict[str, Any]) -> bool:
    group, dot, name = key.rpartition(".")
    beside, before = ADDED.get(name, ("", None))
    if name not in ADDED or f"{group}{dot}{HAD_BEFORE.get(name, '')}" in flat:
        return False
    return f"{group}{dot}{beside}" in flat and value == before


def _places(node: DictConfig, schema: DictConfig) -> Iterator[tuple[DictConfig, str]]:
    known = schema.keys()
    for key, (beside, _) in ADDED.items():
        if beside in node and key in known:
            yield node, key
    for name in known & node.keys():
        inner, own = node._get_node(name), schema._get_node(name)
        if not isinstance(inner, DictConfig) or inner._is_none() or inner._is_missing():
            continue
        if not isinstance(own, DictConfig):
            continue  # any value, or none that can be: a refusal says so
        if not own._is_missing():
            yield from _places(inner, own)
        elif is_dataclass(own._metadata.ref_type):  # the schema has the type of the group alone
            yield from _places(inner, _typed(own._metadata.ref_type))


@cache
def _typed(kind: type) -> DictConfig:
    """The types of the settings of a group."""
    found: DictConfig = OmegaConf.structured(kind)
    return found
