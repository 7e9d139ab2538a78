"""scripts/benchmark.py: what it prints of a workload."""

from __future__ import annotations

import pytest

from scripts.benchmark import show


def test_each_workload_says_of_how_many_iterations_its_medians_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = {
        "iterations": 2,
        "tokens": 600.0,
        "seconds": {"rollout": 2.0, "iteration": 3.0},
        "operations": {"rollout": 1e9},
        "products_alone": {"rollout": 1.0},
        "torch_operations": {"rollout": 7},
        "peak_bytes": 2**30,
    }
    show("update", "float32", found, 1e9)
    first, rollout, whole = capsys.readouterr().out.splitlines()
    assert first == (
        "update, float32, medians of 2 iterations: 300 tokens/s generated, 200 over all; "
        "peak 1.00 GiB"
    )
    assert rollout.split()[:3] == ["rollout", "2.000", "s"]
    assert whole.endswith("; its products alone 1.000 s; 7 operations of torch")
