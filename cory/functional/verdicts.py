"""A verifier's verdict on an answer, from its value head and the answer's log-probability."""

from torch import Tensor


def verdict_logits(values: Tensor, logprobs: Tensor, likelihood_coef: float) -> Tensor:
    """Logit of "this answer is right" before each of its tokens.

    The value head reads one state, which need not tell how likely the tokens before it were: that
    is computed from last-layer states that no later position attends to. So the sum of their
    log-probabilities may be added, times `likelihood_coef`; with 0 the head's values remain (Park
    et al., 2025).

    values: (B, R), of the value head before each token
    logprobs: (B, R), of each token
    returns: (B, R), with gradient where the inputs have one
    """
    if likelihood_coef == 0:
        return values
    return values + likelihood_coef * (logprobs.cumsum(1) - logprobs)
