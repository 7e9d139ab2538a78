"""Whom a policy plays against: itself, other runs' agents, scripted players, a remote model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cory.config import (
    ENDPOINT,
    ITSELF,
    RANDOM,
    SCRIPTED,
    START,
    OfflineConfig,
    SamplingConfig,
)
from cory.endpoint.batch import Endpoint
from cory.models.policy import Actor, Policy, Reference
from cory.models.tokenization import Codec
from cory.rollout.endpoint_player import EndpointPlayer
from cory.rollout.self_play import Key, ModelPlayer, Player, Positions, Said, ScriptedPlayer
from cory.tasks.game import GameTask

JOURNAL = "endpoint.jsonl"  # in the run directory: what the endpoint replied


@dataclass(frozen=True)
class Opponent:
    """Somebody who can play either role."""

    players: Mapping[str, Player]  # by role
    lent: Policy | None = None  # a model that is on the device only while it plays

    @contextlib.contextmanager
    def at_hand(self) -> Iterator[None]:
        """While this lasts, it can play."""
        if self.lent is None:
            yield
            return
        model, device = self.lent.model, self.lent.team.device
        model.to(device)
        try:
            yield
        finally:
            model.to("cpu")


class RemotePlayer:
    """A chat model behind an endpoint."""

    def __init__(self, endpoint: Endpoint, task: GameTask) -> None:
        self.player = EndpointPlayer(endpoint, task.wording)

    def say(self, role: str, positions: Positions, key: Key) -> list[Said]:
        """As `Player`. The same key and position are asked only once, whatever happens."""
        name = "-".join(map(str, key))
        going = [(n, position) for n, position in enumerate(positions) if position is not None]
        texts = self.player.say_all(
            [position for _, position in going], role, [f"{name}/{n}" for n, _ in going]
        )
        said = {n: Said(text.strip()) for (n, _), text in zip(going, texts, strict=True)}
        return [said.get(n, Said("")) for n in range(len(positions))]


class Opponents:
    """Everybody that a run may play against, made when first asked for."""

    def __init__(
        self,
        config: OfflineConfig,
        task: GameTask,
        codec: Codec,
        voice: Policy,
        others: Mapping[str, Policy],
        run_dir: Path,
    ) -> None:
        """others: agents of other runs, by the name of the opponent that each of them is"""
        self.config = config
        self.task = task
        self.codec = codec
        self.voice = voice
        self.others = others
        self.run_dir = run_dir
        self.endpoint: Endpoint | None = None

    def named(self, name: str, kind: str, sampling: SamplingConfig | None) -> Opponent:
        """The opponent called `name`.

        kind: itself | start | scripted | random | endpoint, or the folder of a run
        sampling: of models; None plays greedily
        """
        if kind == ITSELF:
            return self._model(self.voice, sampling)
        if kind == START:
            return self._model(Reference(START, self.voice), sampling)
        if kind in (SCRIPTED, RANDOM):
            scripts = self.task.players()[kind]
            return Opponent({role: ScriptedPlayer(script) for role, script in scripts.items()})
        if kind == ENDPOINT:
            player = RemotePlayer(self._endpoint(), self.task)
            return Opponent(dict.fromkeys(self.task.game.roles, player))
        other = self.others[name]
        on_loan = other if other.model.base is None else None  # an adapter lies on our own base
        return self._model(other, sampling, on_loan)

    def _model(
        self, speaker: Actor, sampling: SamplingConfig | None, lent: Policy | None = None
    ) -> Opponent:
        limit = self.config.sampling.max_response_tokens
        player = ModelPlayer(speaker, self.task.wording, self.codec.fits, sampling, limit)
        return Opponent(dict.fromkeys(self.task.game.roles, player), lent)

    def _endpoint(self) -> Endpoint:
        if self.endpoint is None:
            assert self.config.endpoint is not None  # settings without one were refused
            self.endpoint = Endpoint(self.config.endpoint, self.run_dir / JOURNAL)
        return self.endpoint
