"""Learning rates over a stage."""

from __future__ import annotations

import pytest

from cory.functional.schedule import share_of_peak


def test_constant_after_a_linear_rise() -> None:
    assert [share_of_peak(p, "constant", 0.2) for p in (0, 0.1, 0.2, 0.9, 1)] == [0, 0.5, 1, 1, 1]
    assert share_of_peak(0.0, "constant", 0.0) == 1


def test_cosine_falls_to_nothing() -> None:
    found = [share_of_peak(p, "cosine", 0.2) for p in (0.1, 0.2, 0.4, 0.6, 1.0)]
    assert found == pytest.approx([0.5, 1.0, 0.5 * (1 + 2**-0.5), 0.5, 0.0])


def test_another_schedule_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown schedule 'linear'; choose constant or cosine"):
        share_of_peak(0.5, "linear", 0.0)
