"""Named random streams, all from one seed, so that the draws of one do not affect another."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

NAMES = ("init", "data", "length", "sampling", "shuffle")


class Streams:
    """One generator per name in NAMES; the same seed gives the same draws.

    init: value heads, seeds of adapters.  data: order and length of prompts.
    length: response limits.  sampling: tokens.  shuffle: order of turns within an epoch.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.restart(*NAMES)

    def restart(self, *names: str) -> None:
        """Reset the named streams to their initial states."""
        children = dict(
            zip(NAMES, np.random.SeedSequence(self.seed).spawn(len(NAMES)), strict=True)
        )
        for name in names:
            setattr(self, name, _generator(name, children[name]))

    def state_dict(self) -> dict[str, Any]:
        """The state of each stream, and of torch's global one, which dropout draws from."""
        states: dict[str, Any] = {"torch": torch.get_rng_state()}
        if torch.cuda.is_available():
            states["cuda"] = torch.cuda.get_rng_state()
        for name in NAMES:
            stream = getattr(self, name)
            states[name] = (
                stream.get_state()
                if isinstance(stream, torch.Generator)
                else stream.bit_generator.state
            )
        return states

    def load_state_dict(self, states: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        torch.set_rng_state(states["torch"])
        if "cuda" in states:
            torch.cuda.set_rng_state(states["cuda"])
        for name in NAMES:
            stream = getattr(self, name)
            if isinstance(stream, torch.Generator):
                stream.set_state(states[name])
            else:
                stream.bit_generator.state = states[name]

    init: torch.Generator
    data: np.random.Generator
    length: np.random.Generator
    sampling: torch.Generator
    shuffle: torch.Generator


def keyed(key: Sequence[int]) -> torch.Generator:
    """A stream that depends on its key alone."""
    seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
    return torch.Generator().manual_seed(seed % 2**63)


def place_stream(seed: int, place: int) -> torch.Generator:
    """Stream of an evaluation's turns at one place in the order of speaking.

    Agents that answer alone all get the first place's.
    """
    if place > 0:  # an observer that drew the pioneer's numbers would not answer independently
        return keyed((seed, place))
    return torch.Generator().manual_seed(seed % 2**63)


def _generator(name: str, seed: np.random.SeedSequence) -> np.random.Generator | torch.Generator:
    if name in ("data", "length"):
        return np.random.default_rng(seed)
    return torch.Generator().manual_seed(int(seed.generate_state(1)[0]))
