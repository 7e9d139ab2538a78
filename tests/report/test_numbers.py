"""Numbers behind tables of results: by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from cory.report.numbers import at_the_end, decimals, paired


def series(*values: float, first: int = 0) -> pd.Series:
    return pd.Series(values, index=range(first, first + len(values)), dtype=float)


def test_the_interval_of_three_seeds_by_hand() -> None:
    """1, 2 and 3: mean 2, s = 1, half width 2.920 / sqrt(3) = 1.686."""
    one = paired(series(2, 4, 6), series(1, 2, 3))
    assert one is not None
    assert one.interval is not None
    low, high = one.interval
    assert (one.mean, len(one.each)) == (2, 3)
    assert (low, high) == pytest.approx((2 - 1.686, 2 + 1.686), abs=1e-3)
    assert one.decided
    wider = paired(series(2, 4, 6), series(2, 2, 3))  # 0, 2, 3: half width 2.575
    assert wider is not None and not wider.decided


def test_only_common_seeds_are_paired() -> None:
    one = paired(series(1, 2, 5), series(0, 0, 0, first=1))
    assert one is not None
    assert (one.mean, len(one.each)) == (3.5, 2)
    same = paired(series(1, 2), series(0, 1))
    assert same is not None
    assert same.interval is None  # equal differences say nothing about other seeds
    assert not same.decided
    one_seed = paired(series(1), series(2))
    assert one_seed is not None and one_seed.mean == -1 and one_seed.interval is None
    rounding = paired(series(1, 2, 4), series(1 + 1e-8, 2, 3))
    assert rounding is not None and rounding.each.tolist() == [0, 0, 1]
    assert paired(series(1, 2), series(1, 2, first=5)) is None


def lines(values: dict[int, list[float]]) -> pd.DataFrame:
    rows = [(s, i, v) for s, own in values.items() for i, v in enumerate(own)]
    return pd.DataFrame(rows, columns=["seed", "iteration", "value"])


def test_a_number_is_the_mean_of_the_last_values_of_each_seed() -> None:
    frame = lines({3: [1, 2, 3, 4], 7: [10, 20, 30, 50]}).sample(frac=1, random_state=0)
    assert at_the_end(frame, 2).to_dict() == {3: 3.5, 7: 40}
    assert at_the_end(frame, 1).to_dict() == {3: 4, 7: 50}
    assert at_the_end(frame, 1, iteration=1).to_dict() == {3: 2, 7: 20}
    assert at_the_end(frame, 1, iteration=9).empty


@pytest.mark.parametrize(
    ("values", "digits"),
    [((1.0, 1.4), 2), ((70, 90), 0), ((0.5001, 0.5002), 6), ((1080,), 0), ((0.352,), 3), ((0,), 0)],
)
def test_as_many_decimals_as_the_spread_has(values: tuple[float, ...], digits: int) -> None:
    assert decimals(series(*values)) == digits
