"""How processes share work, in the old order; random numbers by key."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from cory import distributed
from cory.config import ConfigError
from cory.seeding import NAMES, Streams, uniforms
from tests.support.close import assert_close


@pytest.fixture
def world(monkeypatch) -> Iterator[list[int]]:
    """[this process's number, how many there are], as the process group would say."""
    place = [0, 1]
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_rank", lambda: place[0])
    monkeypatch.setattr(dist, "get_world_size", lambda: place[1])
    yield place


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 256])
def test_every_row_belongs_to_one_process_and_shares_are_even(world, rows: int, count: int) -> None:
    shares = []
    for rank in range(count):
        world[:] = [rank, count]
        shares.append(list(range(rows))[distributed.own_rows(rows)])
    assert [row for share in shares for row in share] == list(range(rows))
    sizes = {len(share) for share in shares}
    assert max(sizes) - min(sizes) <= 1


def test_results_come_together_in_the_order_of_the_rows(world: list[int], monkeypatch) -> None:
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
def test_processes_meet_while_the_first_one_works(world, monkeypatch, error) -> None:
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


def draws(streams: Streams, name: str, count: int = 8) -> list[float]:
    stream = getattr(streams, name)
    if isinstance(stream, np.random.Generator):
        return [float(x) for x in stream.random(count)]
    return [float(x) for x in torch.rand(count, generator=stream)]


def test_the_seed_decides_every_stream_and_no_two_draw_the_same() -> None:
    for name in NAMES:
        assert draws(Streams(3), name) == draws(Streams(3), name)
        assert draws(Streams(3), name) != draws(Streams(4), name)
    assert len({tuple(draws(Streams(0), name)) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_restart_gives_the_same_draws_of_the_named_streams_only(name: str) -> None:
    streams = Streams(5)
    first = {other: draws(streams, other) for other in NAMES}
    streams.restart(name)
    for other in NAMES:
        assert (draws(streams, other) == first[other]) == (other == name)


def test_keyed_numbers_depend_on_the_whole_key_and_on_nothing_else() -> None:
    key = (3, "evaluation", 5, "debater_0", 1)
    numbers = uniforms(key, 6)
    assert numbers.dtype == torch.float64 and bool(((numbers >= 0) & (numbers < 1)).all())
    torch.rand(3)
    assert torch.equal(uniforms(key, 4), numbers[:4])  # more tokens are drawn after them
    others = [(4, *key[1:]), (3, "probe", *key[2:]), (*key[:4], 2), (*key[:3], "debater_1", 1)]
    drawn = [numbers.tolist(), *(uniforms(other, 6).tolist() for other in others)]
    assert len({tuple(one) for one in drawn}) == 5


def test_each_roll_out_has_a_key_of_its_own_and_a_restart_repeats_it() -> None:
    streams = Streams(1)
    keys = [streams.key_of_roll_out() for _ in range(3)]
    assert len({*keys}) == 3 and keys[0] != Streams(2).key_of_roll_out()
    streams.restart("sampling")
    assert [streams.key_of_roll_out() for _ in range(3)] == keys
