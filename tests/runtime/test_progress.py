"""What the progress bar says of each kind of run, and that prints stand above it."""

from __future__ import annotations

import io
import sys

import pytest
from tqdm import tqdm

from cory.runtime.progress import above_bars, bar_stream


def test_what_is_printed_stands_on_lines_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, errors = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(sys, "stderr", errors)
    with above_bars():
        assert bar_stream() is shown
        with tqdm(total=3, file=bar_stream(), bar_format="BAR {n_fmt}", mininterval=0) as bar:
            print("the user's own", end=" ")
            bar.update()
            print("words")
            print("a note", file=sys.stderr)
            bar.update()
            print("no end", end="")
    assert sys.stdout is shown and sys.stderr is errors
    lines = shown.getvalue().replace("\r", "\n").splitlines()
    assert "the user's own words" in lines and "no end" in lines
    assert not any("BAR" in line and ("words" in line or "no end" in line) for line in lines)
    assert errors.getvalue() == "a note\n"
    assert bar_stream() is shown
