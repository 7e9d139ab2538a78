"""How processes share work: every row to one of them, and what they give in the old order."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist

from cory import distributed
from cory.config import ConfigError
from tests.support.close import assert_close


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """[this process's number, how many there are], as the process group would say."""
    place = [0, 1]
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_rank", lambda: place[0])
    monkeypatch.setattr(dist, "get_world_size", lambda: place[1])
    yield place


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 256])
def test_every_row_belongs_to_one_process_and_shares_are_even(
    world: list[int], rows: int, count: int
) -> None:
    shares = []
    for rank in range(count):
        world[:] = [rank, count]
        shares.append(list(range(rows))[distributed.own_rows(rows)])
    assert [row for share in shares for row in share] == list(range(rows))
    sizes = {len(share) for share in shares}
    assert max(sizes) - min(sizes) <= 1


def test_results_come_together_in_the_order_of_the_rows(
    world: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of seven rows in three processes this one has the middle two, and computes no other."""
    world[:] = [1, 3]
    asked: list[list[int]] = []

    def answer(lists: list[object], own: list[object]) -> None:
        lists[:] = [[([0, 1], [0.0, 1.0])], own, [([4], [4.0]), ([6, 5], [6.0, 5.0])]]

    def double(batch: Sequence[int]) -> torch.Tensor:
        asked.append(list(batch))
        return torch.tensor([2.0 * row for row in batch])

    monkeypatch.setattr(dist, "all_gather_object", answer)
    results = distributed.map_rows(range(7), 1, double)
    assert asked == [[2], [3]]
    assert_close(torch.tensor(results), [0.0, 1.0, 4.0, 6.0, 4.0, 5.0, 6.0])


def test_rows_of_similar_length_are_computed_at_once() -> None:
    asked: list[list[str]] = []

    def upper(batch: Sequence[str]) -> list[str]:
        asked.append(list(batch))
        return [text.upper() for text in batch]

    rows = ["long text", "a", "longest text", "of", "b"]
    assert distributed.map_rows(rows, 2, upper, len) == [text.upper() for text in rows]
    assert asked == [["a", "b"], ["of", "long text"], ["longest text"]]


@pytest.mark.parametrize("error", [None, ConfigError("key: no"), OSError("no room")])
def test_processes_meet_while_the_first_one_works(
    world: list[int], monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    said: list[list[Any]] = []

    def work() -> str:
        time.sleep(0.2)
        if error is not None:
            raise error
        return "done"

    def given(rank: int) -> Any:
        world[:] = [rank, 2]
        try:
            return distributed.first_works(work)
        except (RuntimeError, ConfigError, OSError) as raised:
            return raised

    monkeypatch.setattr(distributed, "BEAT_S", 0.01)
    monkeypatch.setattr(dist, "broadcast_object_list", lambda box: said.append(list(box)))
    assert given(0) == (error or "done")
    assert said[:-1] == [[False]] * (len(said) - 2) + [[True]] and len(said) > 5
    # the other process meets as often, runs nothing, and has the same
    monkeypatch.setattr(
        dist, "broadcast_object_list", lambda box: box.__setitem__(0, said.pop(0)[0])
    )
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it ran"))
    other = given(1)
    assert said == []
    if error is None:
        assert other == "done"
    elif isinstance(error, ConfigError):
        assert type(other) is ConfigError and str(other) == "key: no"
    else:
        assert type(other) is RuntimeError and "in work" in str(other)
