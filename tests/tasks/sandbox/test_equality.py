"""Formulas that are equal and those that are not, and comparisons that have no end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from cory.tasks.sandbox.equality import Equality


@pytest.fixture(scope="module")
def equal() -> Iterator[Equality]:
    made = Equality(5)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\frac{1}{2}", "1/2"),
        ("1,000", "1000"),  # thousands
        (r"90^{\circ}", r"90\text{ degrees}"),
        (r"5\text{ cm}", "5"),  # units
        ("[1,2)", r"\left[ 1, 2 \right)"),  # intervals
        ("(3, \\frac{\\pi}{2})", r"\left(3,\frac{1}{2}\pi\right)"),  # tuples
        (r"3\text{ or }5", "5,3"),
        (r"2\frac{1}{2}", "5/2"),  # mixed numbers
        (r"\text{Evelyn}", "Evelyn"),  # words
        (r"\frac{1}{}", r"\frac{1}{}"),  # no formula, but the same
        ("45°", r"45^\circ"),
        (r"1{,}000{,}000", r"1\,000\,000"),
        (r"[1,2)", r"1\le x<2"),
        (r"(-\infty,3]", r"x \leq 3"),
    ],
)
def test_equal_formulas(one: str, other: str, equal: Equality) -> None:
    assert equal(one, other) and equal(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"1\,000\,000", r"1{,}000"),
        (r"(-\infty,3]", "x<3"),
        ("0.333", r"\frac13"),
        ("(1,2)", "[1,2]"),
        ("12t", "12"),  # letters after a number are no units
        ("2 1/2", "3/2"),
        (r"\frac{1}{}", "1"),
    ],
)
def test_different_formulas(one: str, other: str, equal: Equality) -> None:
    assert not equal(one, other) and not equal(other, one)


def test_each_pair_is_compared_once(equal: Equality, monkeypatch: pytest.MonkeyPatch) -> None:
    assert equal("4/2", "2") and not equal("4/2", "3")
    monkeypatch.setattr(equal, "_compare", None)
    assert equal("2", "4/2") and not equal("3", "4/2") and equal("7 ", "7")


@pytest.mark.slow
def test_what_cannot_be_calculated_ends_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    """In any thread; the next comparison is answered as if nothing had been."""
    hasty = Equality(2)
    with ThreadPoolExecutor(1) as pool:
        found = [
            pool.submit(hasty, formula, "5").result()
            for formula in ("10^{10^{10}}", "4+1", "9" * 501)
        ]
    assert found == [False, True, False]
    assert hasty("10^{10^{10}}", "10^{10^{10}}")  # one text is equal to itself
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "note: task.seconds=2: '10^{10^{10}}' and '5' cannot be compared in time; they count as "
        "different"
    ]
    child = hasty.child
    assert child is not None
    hasty.close()
    assert child.returncode == 0


@pytest.mark.slow
def test_a_comparer_that_somebody_else_ends_is_no_answer() -> None:
    ended = Equality(5)
    assert ended("4+1", "5")
    assert ended.child is not None
    # while it waits for the next one
    ended.child.kill()
    ended.child.wait()
    assert ended("4+2", "6") and ended.child is not None
    # in the midst of a comparison, which takes minutes
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ended, "10^{10^{10}}", "5")
        time.sleep(1)  # it has the question; one that is ended before gets a successor
        os.kill(ended.child.pid, signal.SIGKILL)
        with pytest.raises((RuntimeError, BrokenPipeError)):
            waiting.result()
