"""Settings that run directories of before do not have.

Each has a value with which a run is what it was before, so that such a directory still resumes,
and its agents still load: there the setting is taken to have this value.
"""

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig

# setting -> a setting of the same group, which tells that it belongs there; its value of before
ADDED: dict[str, tuple[str, Any]] = {
    "attention": ("compute_precision", "auto"),
    "generation_batch_size": ("rollout_batch_size", None),
    "cuda_graphs": ("rollout_batch_size", False),
    "parallel_runs": ("keep_last", 1),
    "unreadable_votes": ("vote_ties", "counted"),
}


def complete(cfg: DictConfig) -> None:
    """Give the settings that are not there the values of before."""
    for node, key in _places(cfg):
        if key not in node:
            node[key] = ADDED[key][1]


def as_before(flat: dict[str, Any]) -> dict[str, Any]:
    """Settings by dotted keys, without those that are as before."""
    return {key: value for key, value in flat.items() if not _is_as_before(key, value, flat)}


def _is_as_before(key: str, value: Any, flat: dict[str, Any]) -> bool:
    group, _, name = key.rpartition(".")
    beside, before = ADDED.get(name, ("", None))
    return name in ADDED and f"{group}.{beside}" in flat and value == before


def _places(node: DictConfig) -> Iterator[tuple[DictConfig, str]]:
    for key, (beside, _) in ADDED.items():
        if beside in node:
            yield node, key
    for name in node:
        inner = node._get_node(name)
        if isinstance(inner, DictConfig) and not inner._is_none() and not inner._is_missing():
            yield from _places(inner)
