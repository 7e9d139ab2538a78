"""Random numbers: named streams, all from one seed; numbers by key; the order of training data."""

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from cory.config import require

Key = tuple[int | str, ...]  # of random numbers: what is drawn for, as seed, iteration, episode
NAMES = ("init", "data", "length", "sampling", "shuffle")
OF_NUMPY = ("data", "length")  # the others are torch's


class Streams:
    """One generator per name in NAMES; the same seed gives the same draws.

    init: value heads, seeds of adapters.  data: order and length of prompts.
    length: response limits.  sampling: keys of tokens.  shuffle: order of turns within an epoch.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.restart(*NAMES)

    def restart(self, *names: str) -> None:
        children = np.random.SeedSequence(self.seed).spawn(len(NAMES))
        for name, child in zip(NAMES, children, strict=True):
            if name in names and name in OF_NUMPY:
                setattr(self, name, np.random.default_rng(child))
            elif name in names:
                seed = int(child.generate_state(1)[0])
                setattr(self, name, torch.Generator().manual_seed(seed))

    def key_of_roll_out(self) -> Key:
        """The key of the next iteration's tokens: a number of the stream `sampling`."""
        drawn = torch.randint(2**62, (1,), generator=self.sampling)
        return ("roll-out", int(drawn))

    def state_dict(self) -> dict[str, Any]:
        """The state of each stream, and of torch's global one, which dropout draws from."""
        states: dict[str, Any] = {"torch": torch.get_rng_state()}
        if torch.cuda.is_available():
            states["cuda"] = torch.cuda.get_rng_state()
        for name in NAMES:
            stream = getattr(self, name)
            states[name] = stream.bit_generator.state if name in OF_NUMPY else stream.get_state()
        return states

    def load_state_dict(self, states: dict[str, Any]) -> None:
        torch.set_rng_state(states["torch"])
        if "cuda" in states:
            torch.cuda.set_rng_state(states["cuda"])
        for name in NAMES:
            stream = getattr(self, name)
            if name in OF_NUMPY:
                stream.bit_generator.state = states[name]
            else:
                stream.set_state(states[name])

    init: torch.Generator
    data: np.random.Generator
    length: np.random.Generator
    sampling: torch.Generator
    shuffle: torch.Generator


def generator(key: Key) -> np.random.Generator:
    """Random numbers that depend on their key alone, by Philox's counter."""
    words = [crc32(part.encode()) if isinstance(part, str) else part for part in key]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words)))


def uniforms(key: Key, count: int) -> Tensor:
    """The first numbers (count,) float64 in [0, 1) of a key."""
    return torch.from_numpy(generator(key).random(count))


class EpochSampler:
    """Draws rows, each once per epoch, in an order given by the stream."""

    def __init__(
        self, rows: Sequence[Any], stream: np.random.Generator, data: Iterable[Any], name: str
    ) -> None:
        """data: the rows, and those that the run is tested on, as plain values: a hash is kept

        name: of the data, for refusals
        """
        self.rows = rows
        self.stream = stream
        digest = sha256()
        for row in data:
            digest.update(json.dumps(row, sort_keys=True).encode())
        self.data = digest.hexdigest()
        self.name = name
        self.left: list[int] = []  # numbers of the epoch's rows that are left, the next one last

    def next(self) -> Any:
        """The next row; a new epoch begins after the last one."""
        if not self.left:
            self.left = self.stream.permutation(len(self.rows)).tolist()
        return self.rows[self.left.pop()]

    def state_dict(self) -> dict[str, Any]:
        """The rows left of the current epoch, and whose; the stream's state is saved elsewhere."""
        return {"left": list(self.left), "data": self.data}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a `state_dict`; ConfigError where it is of other data."""
        require(
            state["data"] == self.data,
            f"{self.name}: the data are not those that this run began with; put them back, or "
            f"begin a new run",
        )
        self.left = list(state["left"])
