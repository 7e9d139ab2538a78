"""Policies that a server samples from: their weights there, their responses, and whether it agrees.

Weights go to the server when they have changed, in a new folder and under a new name: a server
keeps what it has computed under a name, and reads a folder again whenever it likes.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from cory import distributed
from cory.config import ConfigError, SamplingConfig
from cory.episode import Asked, Turn
from cory.models.agreement import CHECKED, server_gap, tolerance_of
from cory.models.server import Server

if TYPE_CHECKING:
    from cory.models.policy import Policy

MAY_BE = (
    "it has other weights (an adapter that does not act, a cache of prompts of earlier ones), "
    "another model or precision, or says those before temperature and top_k, as with "
    "--logprobs-mode raw_logprobs"
)


@dataclass
class Weights:
    name: str  # the server's of an adapter; "": none acts
    version: int  # of the engine that trains them
    checked: bool = False  # whether what it says of their responses is what they give here


@dataclass
class Served:
    """What a server has of the policies of one bundle; every process keeps the same."""

    server: Server
    folder: Path  # where the server reads weights
    weights: dict[str, Weights] = field(default_factory=dict)  # by the adapter's name; "": none
    number: count[int] = field(default_factory=count)
    # in the names of adapters, so that another run at the same server has others
    run: str = field(default_factory=lambda: distributed.from_first(token_hex(4)))

    def publish(self, policy: Policy) -> None:
        """Give the server a policy's weights if it has not got them; every process calls it."""
        adapter, version = policy.adapter, policy.version
        held = self.weights.get(adapter)
        if held is not None and held.version == version:
            return
        folder = self.folder / f"{adapter or 'model'}-{self.run}-{next(self.number)}"
        if adapter or policy.model.base is None:
            with policy.whole():
                distributed.first_works(lambda: self._give(policy, held, folder))
        self.weights[adapter] = Weights(folder.name if adapter else "", version)

    def close(self) -> None:
        """Have a server unload the run's adapters, or end if it is the run's own."""
        self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _give(self, policy: Policy, held: Weights | None, folder: Path) -> None:
        """Write weights to a folder and load them, in the place of those that were `held`."""
        server, base = self.server, policy.model.base
        folder.mkdir(parents=True)
        if base is None:
            policy.model.lm.save_pretrained(folder)
        else:
            base.save(policy.adapter, folder, policy.bundle.config.path)

        async def load() -> None:
            async with server.connected():
                if base is None:
                    old = server.weights
                    await server.replace_weights(folder)
                else:  # its last request has ended with the roll-out
                    old = None if held is None else await server.unload(held.name)
                    await server.load(folder.name, folder)
            if old is not None:
                shutil.rmtree(old)

        distributed.run_coroutine(load())

    async def turn(
        self, policy: Policy, asked: Asked, limit: int, sampling: SamplingConfig | None
    ) -> Turn:
        """As `Policy.turns`, of one that it is asked; its weights are published already."""
        (shown,), (context,) = policy.shown([asked], limit)
        how, stops = policy.own_sampling(sampling), sorted(policy.bundle.stops)
        seed = 0 if asked.uniforms is None else int(asked.uniforms[0] * 2**53)
        async with self.server.connected():
            name = self.weights[policy.adapter].name or self.server.base
            said = await self.server.sample(name, context, limit, how, seed, stops)
        turn = policy.turn(asked, shown, context, said)
        turn.served_as = policy.adapter
        return turn

    def check(self, policy: Policy, turns: Sequence[Turn], sampling: SamplingConfig | None) -> None:
        """Compare what the server said of a policy's turns with a pass over them, some of them.

        Once for each set of weights, in every process. ConfigError, with what may be the cause,
        where the two do not agree.
        """
        held, sampling = self.weights.get(policy.adapter), policy.own_sampling(sampling)
        # its reference may have its name
        turns = [t for t in turns if t.sampler_logprobs and t.served_as == policy.adapter][:CHECKED]
        if held is None or held.checked or not turns:
            return
        off, bound = server_gap(policy, turns, sampling), tolerance_of(policy.bundle.config)
        if not off < bound:  # also where it is no number
            raise ConfigError(
                f"{policy.name}: the server's log-probabilities are off those computed here by "
                f"{off:.2g} (at most {bound}): {MAY_BE}"
            )
        held.checked = True
