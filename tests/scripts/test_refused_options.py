"""Options of scripts that cannot be are refused in a line, before anything is made or measured."""

from __future__ import annotations

import pytest

from tests.support.warm import run_script


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("kill_test.py --kills 0", "--kills must be at least 1, got 0"),
        ("benchmark.py --iterations 0", "--iterations must be at least 1, got 0"),
        ("benchmark.py --rounds -1", "--rounds must be at least 1, got -1"),
        ("step_documents.py --kinds foo", "invalid choice: 'foo'"),
        ("memory.py nope", "Error parsing override 'nope'"),
        ("export.py x", "there is no run"),
        ("benchmarks.py x --device foo", "--device=foo: this machine has none"),
        ("benchmarks.py x --tasks piqa --cot", "--cot and --tasks both choose: type one"),
    ],
)
def test_options_that_cannot_be(words: str, said: str) -> None:
    script, *options = words.split()
    done = run_script(f"scripts/{script}", *options)
    assert done.returncode in (1, 2)
    last = done.stderr.splitlines()[-1]
    assert "error: " in last and said in last
    assert "Traceback" not in done.stderr
