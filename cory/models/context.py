"""How many tokens a model reads at once."""

from collections.abc import Mapping
from typing import Any

from cory.config import ConfigError

# names of a model's longest text in config.json: most architectures', GPT-2's
LONGEST = ("max_position_embeddings", "n_positions")


def context_length(config: Any) -> int | None:
    """A model's context length, in tokens; None where it is not limited.

    LongRoPE (Ding et al., 2024; Phi-3's 128k models) has one set of rotary frequencies up to the
    length that a model was first trained at, and another above it, which the library takes for all
    rows of a pass and all their tokens as soon as one row is longer. A token's log-probability
    would depend on the rows beside it and on what came after it, so that the context ends where the
    first set does, unless both sets are the same.

    config: of the model, as transformers reads its config.json
    """
    longest: int | None = getattr(config, "max_position_embeddings", None)
    if longest is None:
        return None
    rope = getattr(config, "rope_parameters", None) or {}
    # of models with several kinds of layers, one for each kind
    kinds = [rope, *(kind for kind in rope.values() if isinstance(kind, Mapping))]
    return min([int(longest), *(end for kind in kinds if (end := _end_of_first_set(kind)))])


def described_length(described: Mapping[str, Any]) -> int | None:
    """The same from a config.json as it stands, without transformers; None: it does not tell.

    Not where LongRoPE ends a context: the worker knows that.
    """
    found = (described[name] for name in LONGEST if isinstance(described.get(name), int))
    return next(found, None)


def require_context_length(config: Any, key: str) -> int:
    """The context length of a language model, which the settings `key` name; see above."""
    length = context_length(config)
    if length is None:
        raise ConfigError(f"{key}: its config.json does not say max_position_embeddings")
    return length


def _end_of_first_set(rope: Mapping[str, Any]) -> int | None:
    if rope.get("rope_type") != "longrope" or rope["short_factor"] == rope["long_factor"]:
        return None
    return int(rope["original_max_position_embeddings"])
