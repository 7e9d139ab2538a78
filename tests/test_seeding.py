from __future__ import annotations

import numpy as np
import pytest
import torch

from cory.seeding import NAMES, Streams


def draws(streams: Streams, name: str, count: int = 8) -> list[float]:
    stream = getattr(streams, name)
    if isinstance(stream, np.random.Generator):
        return [float(x) for x in stream.random(count)]
    return [float(x) for x in torch.rand(count, generator=stream)]


def test_the_seed_decides_every_stream() -> None:
    for name in NAMES:
        assert draws(Streams(3), name) == draws(Streams(3), name)
        assert draws(Streams(3), name) != draws(Streams(4), name)


def test_no_two_streams_draw_the_same() -> None:
    assert len({tuple(draws(Streams(0), name)) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_draws_from_one_stream_leave_the_others_alone(name: str) -> None:
    disturbed = Streams(0)
    draws(disturbed, name)
    torch.rand(3)  # nor do the global generators matter
    np.random.rand(3)
    for other in set(NAMES) - {name}:
        assert draws(disturbed, other) == draws(Streams(0), other)


@pytest.mark.parametrize("name", NAMES)
def test_restart_gives_the_same_draws_of_the_named_streams_only(name: str) -> None:
    streams = Streams(5)
    first = {other: draws(streams, other) for other in NAMES}
    streams.restart(name)
    for other in NAMES:
        assert (draws(streams, other) == first[other]) == (other == name)
