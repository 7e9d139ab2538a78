"""Numbers behind tables of results: by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from cory.report.numbers import at_the_end, decimals, paired


def series(*values: float, first: int = 0) -> pd.Series:
    return pd.Series(values, index=range(first, first + len(values)), dtype=float)


def test_only_common_seeds_are_paired() -> None:
    assert paired(series(1, 2, 5), series(0, 0, 0, first=1)).to_dict() == {1: 2, 2: 5}
    assert paired(series(1, 2, 4), series(1 + 1e-8, 2, 3)).tolist() == [0, 0, 1]
    assert paired(series(1, 2), series(1, 2, first=5)).empty


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
