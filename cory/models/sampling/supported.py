"""What a model must be like to be sampled from and trained: found out by trying it."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from cory.config import ConfigError, require
from cory.functional.logprobs import pad_turns
from cory.models.actor_critic import response_states
from cory.models.sampling.cache import cache_for
from cory.models.sampling.passes import PlainPass, RecordedPass, prefill
from cory.models.weight_files import UNREADABLE, first_line

LENGTHS = (8, 3)  # tokens of the rows that are tried
# how far logits may be off, as a share of their spread: in float32, and in what rounds more
TOLERANCE, ROUNDED = 1e-3, 0.2


@torch.no_grad()
def require_supported(lm: PreTrainedModel, key: str, recorded: bool = False) -> None:
    """ConfigError unless sampling and training give the logits of a plain forward pass.

    Tried with a few tokens: a row beside a longer one, as updates see it, and with a cache, as it
    is sampled.

    lm: in evaluation mode, on its device
    recorded: the passes of `hardware.cuda_graphs=true` alone
    """
    rows = [list(range(1, 1 + length)) for length in LENGTHS]
    try:
        plain, headed = plain_logits(lm, rows)
        if recorded:
            passes = {"hardware.cuda_graphs=true": sampled_states(lm, rows, RecordedPass)}
        else:
            sampled = sampled_states(lm, rows, PlainPass)
            passes = {"updates": update_states(lm, rows), "sampling": sampled}
        head = lm.get_output_embeddings()
        logits = {name: head(states).float() for name, states in passes.items()}
    except torch.OutOfMemoryError:
        raise
    except UNREADABLE as error:
        raise ConfigError(
            f"{key}: cory cannot run this model as it runs others: {first_line(error)}"
        ) from error
    require(
        torch.allclose(headed, plain, rtol=TOLERANCE, atol=TOLERANCE * float(plain.abs().max())),
        f"{key}: this model changes what its output head gives (it caps, scales or transforms its "
        f"logits), which cory cannot do",
    )
    exact = lm.dtype == torch.float32 and getattr(lm, "product_dtype", None) is None
    spread = (plain - plain.mean(-1, keepdim=True)).norm()
    for name, found in logits.items():
        limit = (TOLERANCE if exact else ROUNDED) * spread
        require(
            bool((found - plain).norm() <= limit),
            f"{key}: in the passes of {name} this model ({lm.config.model_type}) gives other "
            f"logits than in a plain forward pass: a row depends on the padding around it",
        )


def plain_logits(lm: PreTrainedModel, rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Logits (2 rows x 3, V) of the last three tokens: the model's own, and its head's alone."""
    own, headed = [], []
    for row in rows:
        ids = torch.tensor([row], device=lm.device)
        own.append(lm(input_ids=ids, use_cache=False).logits[0, -3:])
        states = lm.base_model(input_ids=ids, use_cache=False).last_hidden_state
        headed.append(lm.get_output_embeddings()(states[0, -3:]))
    return torch.cat(own).float(), torch.cat(headed).float()


def update_states(lm: PreTrainedModel, rows: list[list[int]]) -> Tensor:
    """States (2 rows x 3, H) of the same tokens in updates: they are responses' contexts."""
    turns = pad_turns([row[:-2] for row in rows], [[*row[-2:], 0] for row in rows], 0)
    ids, mask, response_mask = (tensor.to(lm.device) for tensor in turns)
    return response_states(lm, ids, mask, response_mask)


def sampled_states(
    lm: PreTrainedModel, rows: list[list[int]], kind: type[PlainPass] | type[RecordedPass]
) -> Tensor:
    """The same in the passes of sampling: contexts, then a token at a time."""
    cache = cache_for(lm, 2 * max(LENGTHS))
    states, mask = prefill(lm, [row[:-2] for row in rows], cache, 0)
    following = kind(lm, mask, cache)
    steps = [states]
    for place in (-2, -1):
        ids = torch.tensor([[row[place]] for row in rows], device=lm.device)
        steps.append(following(ids).clone())
    return torch.cat(steps, dim=1).flatten(0, 1)
