from __future__ import annotations

import numpy as np
import pytest
import torch

from cory.seeding import NAMES, Streams, uniforms


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
