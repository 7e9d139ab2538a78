"""How many tokens a model reads at once, and how many the prompts of a run may have."""

from collections.abc import Mapping
from string import Formatter
from typing import Any

from cory.config import Config, ConfigError, DebateConfig, TeamConfig

CHARACTERS_PER_TOKEN = 3  # of a template's own words; a low number, to estimate on the safe side

# names of a model's longest text in config.json: most architectures', GPT-2's
LONGEST = ("max_position_embeddings", "n_positions")
# what config.json has called its rotary frequencies, the newest name first
ROPE = ("rope_parameters", "rope_scaling")


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
    """The same from a config.json as it stands, without transformers; None: it does not tell."""
    longest = next((described[name] for name in LONGEST if name in described), None)
    if not isinstance(longest, int):
        return None
    rope = next((rope for name in ROPE if isinstance(rope := described.get(name), Mapping)), {})
    end = "original_max_position_embeddings"  # earlier beside the frequencies, now among them
    written = {"rope_type": rope.get("type"), end: described.get(end), **rope}
    factors = (written.get("short_factor"), written.get("long_factor"))
    if None in factors or not isinstance(written[end], int):
        return longest
    return min(longest, _end_of_first_set(written) or longest)


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


def longest_context(config: Config) -> int:
    """Tokens of the longest prompt: the last observer's, which quotes all earlier answers."""
    task, algorithm = config.task, config.algorithm
    query = int(task.max_prompt_tokens)
    if algorithm.holds_debates:
        return longest_history(config)
    earlier = int(algorithm.policy_count()) - 1
    if isinstance(algorithm, TeamConfig):  # what it shows is the user's; say, all others' answers
        return query + len(algorithm.agents) * int(algorithm.sampling.max_response_tokens)
    if earlier == 0 or not getattr(algorithm, "knowledge_transfer", True):
        return query
    quoted = any(field == "query" for _, field, _, _ in Formatter().parse(task.answer_template))
    answer = int(algorithm.sampling.max_response_tokens) + (query if quoted else 0)
    words = task.observer_template + earlier * task.answer_template
    words += (earlier - 1) * task.answer_separator
    own = "".join(text for text, _, _, _ in Formatter().parse(words))
    return query + earlier * answer + len(own) // CHARACTERS_PER_TOKEN


def longest_history(config: Config) -> int:
    """Tokens of a debater's last prompt, before it is cut to the model's context."""
    algorithm = config.algorithm
    query = int(config.task.max_prompt_tokens)
    response = int(algorithm.sampling.max_response_tokens)
    agents = max(int(algorithm.agents), int(algorithm.evaluation_agents))
    exchanges = max(int(algorithm.turns), int(algorithm.evaluation_turns)) - 1
    if not config.model.chat:  # the question once, and everybody's latest answer
        return query + min(exchanges, 1) * agents * response
    prompts = algorithm.prompts
    words = prompts.follow_up + agents * (prompts.other + prompts.separator)
    if isinstance(algorithm, DebateConfig) and algorithm.verifier_feedback:
        words += prompts.own_feedback + agents * prompts.feedback
    one = agents * response + query
    return query + exchanges * (one + len(words) // CHARACTERS_PER_TOKEN)
