"""A finished run goes on with more iterations, and is then as if it had been begun with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cory.config import Config
from cory.runs.checkpoint import Checkpoints
from tests.support.warm import WarmCommand

Run = Callable[..., WarmCommand]
# An evaluation after every second iteration, and all that one changes beside weights and Adam.
EVEN = (
    *("evaluate_every=2", "samples_every=2", "checkpoint_every=1", "hardware.microbatch_size=2"),
    *("algorithm=cory", "algorithm.swap_every=3", "algorithm.score_scaling=normalise"),
    *("algorithm.kl_controller=adaptive", "algorithm.minibatch_size=4"),
)


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its name there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def same_bytes(one: Path, other: Path) -> bool:
    """Whether two runs left the same bytes."""
    names = ("metrics.jsonl", "samples.jsonl")
    records = all((one / name).read_bytes() == (other / name).read_bytes() for name in names)
    return records and files(one / "agents") == files(other / "agents")


@pytest.mark.slow
def test_an_extended_run_ends_as_one_of_that_length(run: Run, tmp_path: Path) -> None:
    whole = run("run_dir=whole", "algorithm.iterations=4", *EVEN)
    assert whole.wait() == 0, whole.err
    short = run("run_dir=x", "algorithm.iterations=2", *EVEN)
    assert short.wait() == 0, short.err
    assert [p.name for p in (tmp_path / "x" / "checkpoints").iterdir()] == ["000002"]
    first = (tmp_path / "x/metrics.jsonl").read_bytes()
    longer = run("run_dir=x", "algorithm.iterations=4", *EVEN)
    assert longer.wait() == 0, longer.err
    assert "goes on with the run in x" in longer.out
    assert (tmp_path / "x/metrics.jsonl").read_bytes().startswith(first)
    assert same_bytes(tmp_path / "x", tmp_path / "whole")
    assert json.loads((tmp_path / "x/record.json").read_text())["iterations"] == 4
    again = run("run_dir=x", "algorithm.iterations=4", *EVEN)
    assert again.wait() == 0 and "is complete" in again.out


@pytest.mark.parametrize("keep", [True, False])
def test_what_is_kept_of_the_state(
    config_of: Callable[..., Config], tmp_path: Path, keep: bool
) -> None:
    checkpoints = Checkpoints(tmp_path, "this run", config_of().hardware, 2)
    for done in (1, 2):
        checkpoints.save(done, {}, {"number": done})
    checkpoints.end(keep)
    left = [p.name for p in (tmp_path / "checkpoints").glob("*")]
    assert left == (["000002"] if keep else [])
