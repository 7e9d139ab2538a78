"""A verifier's verdict on an answer, from its value head and the answer's log-probability."""

from torch import Tensor


def verdict_logits(values: Tensor, logprobs: Tensor, likelihood_coef: float) -> Tensor:
    """Logit of "this answer is right" before each of its tokens.

    A value head reads the state after the last token, which need not hold how likely the tokens
    were: that stands in the states before them, in the last layer, where later tokens cannot look.
    So their log-probability so far may be added, times `likelihood_coef`; 0 gives the values
    (Park et al., 2025).

    values: (B, R), of the value head before each token
    logprobs: (B, R), of each token
    returns: (B, R), with gradient where the inputs have one
    """
    if likelihood_coef == 0:
        return values
    return values + likelihood_coef * (logprobs.cumsum(1) - logprobs)
