"""Log-probabilities in slabs, masks, padding and repetition."""

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical

from cory.functional import logprobs
from cory.functional.logprobs import (
    aligned_right,
    copied_share,
    corrected_kl,
    distinct_share,
    full_kl,
    logprobs_of,
    masked_mean,
    pad_turns,
    padded,
    sampled_kl,
    token_statistics,
    training_kl,
    training_logprobs,
    whiten,
)
from tests.functional.test_golden import entropy_of
from tests.support.close import assert_close

N, H, V = 7, 5, 11


def random_logits(seed: int) -> Tensor:
    return 3 * torch.randn(N, V, generator=torch.Generator().manual_seed(seed))


def test_k3_is_never_negative_and_does_not_overflow() -> None:
    logp = torch.tensor([-1e4, -200.0, -1e-4, -1.0, 0.0, -1e-3])
    k3 = sampled_kl(logp, logp.flip(0), "k3")
    assert bool((k3 >= 0).all()) and bool(k3.isfinite().all())
    assert_close(sampled_kl(logp, logp, "k3"), [0.0] * 6)


def test_half_precision_logits_are_worked_in_float32() -> None:
    logits, tokens = random_logits(0).bfloat16(), torch.arange(N)
    for result in (logprobs_of(logits, tokens), entropy_of(logits), full_kl(logits, logits / 2)):
        assert result.dtype == torch.float32
    assert_close(logprobs_of(logits, tokens), logprobs_of(logits.float(), tokens))


class Head:
    """Hidden states, a linear head and tokens, the same in every test; counts the head's calls."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.hidden = torch.randn(N, H, generator=generator, requires_grad=True)
        self.weight = torch.randn(H, V, generator=generator, requires_grad=True)
        self.rows_seen: list[int] = []

    def logits(self, hidden: Tensor) -> Tensor:
        self.rows_seen.append(len(hidden))
        return hidden @ self.weight


TOKENS = torch.tensor([0, 10, 3, 3, 7, 1, 9])
SLABS = [(10 * N, [7]), (3, [3, 3, 1]), (0, [1] * 7)]  # room for this many rows -> rows per slab


@pytest.mark.parametrize(("room", "sizes"), SLABS)
def test_statistics_do_not_depend_on_the_slabs(monkeypatch, room: int, sizes: list[int]) -> None:
    monkeypatch.setattr(logprobs, "SLAB_BYTES", 4 * V * room * logprobs.TENSORS_AT_ONCE)
    policy, reference = Head(0), Head(1)
    logits, ref_logits = policy.hidden @ policy.weight, reference.hidden @ reference.weight
    got = token_statistics(
        policy.hidden, policy.logits, reference.hidden, reference.logits, TOKENS, V
    )
    assert policy.rows_seen == reference.rows_seen == sizes
    assert_close(got.logprobs, logprobs_of(logits, TOKENS))
    assert_close(got.entropy, Categorical(logits=logits).entropy())
    assert_close(got.ref_logprobs, logprobs_of(ref_logits, TOKENS))
    assert_close(got.full_kl, full_kl(logits, ref_logits))


def test_a_policy_equal_to_its_reference_has_no_kl() -> None:
    one = Head(0)
    got = token_statistics(one.hidden, one.logits, one.hidden, one.logits, TOKENS, V)
    assert got.full_kl.tolist() == [0.0] * N  # exactly: before training nothing may be penalised


def test_the_head_is_called_as_often_as_where_there_are_most_tokens(monkeypatch) -> None:
    monkeypatch.setattr(logprobs, "SLAB_BYTES", 4 * V * 3)
    head, other = Head(0), Head(0)
    few = training_logprobs(head.hidden[:2], head.logits, TOKENS[:2], V, most=8)
    assert head.rows_seen == [2, 0, 0]
    expected = training_logprobs(other.hidden[:2], other.logits, TOKENS[:2], V)
    assert_close(few, expected)
    few.sum().backward()
    expected.sum().backward()
    assert len(head.rows_seen) == 6  # on the way back, too
    assert head.weight.grad is not None and other.weight.grad is not None
    assert_close(head.weight.grad, other.weight.grad)
    monkeypatch.setattr(logprobs, "SLAB_BYTES", 4 * V * 3 * logprobs.TENSORS_AT_ONCE)
    kl = training_kl(head.hidden[:2], head.logits, other.hidden[:2], other.logits, V, most=8)
    assert head.rows_seen[6:] == [2, 0, 0] and len(kl) == 2


def test_no_tokens_give_no_statistics() -> None:
    head, empty, none = Head(0), torch.zeros(0, H), torch.zeros(0, dtype=torch.int64)
    found = token_statistics(empty, head.logits, empty, head.logits, none, V)
    assert all(len(column) == 0 for column in found)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("entropy", [False, True])
@pytest.mark.parametrize(("room", "sizes"), SLABS)
def test_gradients_of_log_probabilities_and_entropy_do_not_depend_on_the_slabs(
    monkeypatch, room: int, sizes: list[int], entropy: bool, temperature: float
) -> None:
    """Of the entropy beside the log-probabilities, in one call of the head."""
    direct, head = Head(0), Head(0)
    factor = torch.randn(N, 2, generator=torch.Generator().manual_seed(5))
    logits = direct.hidden @ direct.weight / temperature
    p = logits.exp() / logits.exp().sum(-1, keepdim=True)
    expected = torch.stack([p[torch.arange(N), TOKENS].log(), -(p * p.log()).sum(-1)], dim=1)
    if not entropy:
        expected, factor = expected[:, 0], factor[:, 0]
    (factor * expected).sum().backward()
    at_once = logprobs.TENSORS_AT_ONCE if entropy else 1
    monkeypatch.setattr(logprobs, "SLAB_BYTES", 4 * V * room * at_once)
    got = training_logprobs(head.hidden, head.logits, TOKENS, V, temperature, entropy=entropy)
    assert head.rows_seen == sizes
    assert_close(got, expected)
    (factor * got).sum().backward()
    assert head.hidden.grad is not None and direct.hidden.grad is not None
    assert_close(head.hidden.grad, direct.hidden.grad, 1e-4)
    assert_close(head.weight.grad, direct.weight.grad, 1e-4)
    # one slab keeps its logits; several are made again on the way back
    assert len(head.rows_seen) == (1 if len(sizes) == 1 else 2 * len(sizes))


def test_the_corrected_k3_has_the_kls_value_and_gradient() -> None:
    """In the mean over every token of a small vocabulary, as the sampling policy draws them."""
    logits, reference = random_logits(1).requires_grad_(), random_logits(2).log_softmax(-1)
    old = random_logits(3).log_softmax(-1)
    exact = full_kl(logits, reference)
    (expected,) = torch.autograd.grad(exact.sum(), logits)
    estimates = corrected_kl(logits.log_softmax(-1), reference, old)
    mean = (old.exp() * estimates).sum(-1)
    assert_close(mean, exact, 1e-4)
    (found,) = torch.autograd.grad(mean.sum(), logits)
    assert_close(found, expected, 1e-4)
    plain = (old.exp() * sampled_kl(logits.log_softmax(-1), reference, "k3")).sum(-1)
    (other,) = torch.autograd.grad(plain.sum(), logits)
    assert (other - expected).abs().max() > 0.1


NAN = float("nan")
X = torch.tensor([[1.0, 2.0, NAN], [4.0, NAN, NAN], [NAN, NAN, NAN]])
MASK = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])


def test_mean_counts_only_the_mask() -> None:
    assert_close(masked_mean(X, MASK), 7 / 3)  # (1 + 2 + 4) / 3
    assert_close(masked_mean(X, torch.zeros_like(MASK)), 0.0)


def test_whiten_survives_equal_values() -> None:
    assert_close(whiten(torch.full((3,), 7.0), torch.ones(3, dtype=torch.bool)), [0.0] * 3)


@pytest.mark.parametrize(
    ("side", "ids", "mask"),
    [
        ("left", [[1, 2, 3], [9, 9, 4], [9, 9, 9]], [[1, 1, 1], [0, 0, 1], [0, 0, 0]]),
        ("right", [[1, 2, 3], [4, 9, 9], [9, 9, 9]], [[1, 1, 1], [1, 0, 0], [0, 0, 0]]),
    ],
)
def test_padding(side: str, ids: list[list[int]], mask: list[list[int]]) -> None:
    rows, real = padded([[1, 2, 3], [4], []], 9, side)
    assert rows.dtype == torch.int64
    assert rows.tolist() == ids
    assert real.dtype == torch.bool
    assert real.int().tolist() == mask


def test_padding_moves_to_the_left() -> None:
    rows = pad_turns([[1, 2, 3, 4], [5], [6, 7]], [[8], [8, 9, 10], []], 0)
    ids, attention, response = (t.int().tolist() for t in aligned_right(*rows))
    assert ids == [[0, 1, 2, 3, 4, 8][1:], [0, 5, 8, 9, 10], [0, 0, 0, 6, 7]]
    assert attention == [[1, 1, 1, 1, 1], [0, 1, 1, 1, 1], [0, 0, 0, 1, 1]]
    assert response == [[0, 0, 1], [1, 1, 1], [0, 0, 0]]


def test_padding_inside_a_response_window() -> None:
    """A mask of single tokens moves with its row; it need not begin with the response."""
    ids, attention, _ = pad_turns([[1], [2]], [[3, 4], [5, 6, 7]], 0)
    last = torch.tensor([[False, True, False], [False, False, True]])
    moved = aligned_right(ids, attention, last)
    assert moved[0].tolist() == [[0, 1, 3, 4], [2, 5, 6, 7]]
    assert moved[2].int().tolist() == [[0, 0, 1], [0, 0, 1]]


@pytest.mark.parametrize(
    ("texts", "n", "expected"),
    [
        ([[5, 5, 5, 5]], 2, 1 / 3),
        ([[1, 2], [1, 2]], 1, 2 / 4),  # over all texts, not within each
        ([[1, 2], [2, 1]], 2, 1.0),  # no pair spans two texts
        ([[1], []], 2, 0.0),
    ],
)
def test_distinct_share(texts: list[list[int]], n: int, expected: float) -> None:
    assert distinct_share(texts, n) == pytest.approx(expected)


def test_copied_share_by_hand() -> None:
    """Each n-gram counts as often as it is shown, and none goes over the end of a shown text."""
    own, shown = ["a", "b", "a", "c", "d"], [["x", "a", "b"], ["c", "d"]]
    assert copied_share(own, shown, 1) == 4 / 5  # a b c d, and one a too many
    assert copied_share(own, shown, 2) == 2 / 4  # (a, b) and (c, d); not (a, c)
    assert copied_share(["b", "c"], shown, 2) == 0
    assert copied_share(["a"], shown, 2) is None
