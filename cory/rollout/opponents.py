"""Opponents in word games: the policy itself, other runs' agents, scripts, a remote model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cory.config import OfflineConfig, SamplingConfig
from cory.endpoint import Ask, Endpoint
from cory.games.prompts import GamePrompts
from cory.models.policy import Actor, Policy
from cory.models.tokenization import Codec
from cory.models.visitor import Visitor
from cory.rollout.self_play import Key, ModelPlayer, Player, Positions, Said, ScriptedPlayer
from cory.tasks.game import GameTask

REPLIES = "endpoint.jsonl"  # in the run directory: the endpoint's replies


@dataclass(frozen=True)
class Opponent:
    """Players for both roles."""

    players: Mapping[str, Player]  # by role
    visitor: Visitor | None = None  # whose weights are in memory only while it plays


class EndpointPlayer:
    """A chat model behind an endpoint; every process calls it."""

    def __init__(self, endpoint: Endpoint, prompts: GamePrompts) -> None:
        self.endpoint = endpoint
        self.prompts = prompts

    def say(self, role: str, positions: Positions, keys: Sequence[Key]) -> list[Said]:
        """As `Player`; a run pays only once for the same key and position."""
        asks = [
            Ask("-".join(map(str, key)), self.prompts.messages(position, role))
            for key, position in zip(keys, positions, strict=True)
            if position is not None
        ]
        replies = iter(self.endpoint.complete(asks))
        return [Said("" if p is None else next(replies).text.strip()) for p in positions]


class Opponents:
    """The opponents of a run, each made when it is first needed."""

    def __init__(
        self,
        config: OfflineConfig,
        task: GameTask,
        codec: Codec,
        policy: Policy,
        others: Mapping[str, Policy | Visitor],
        run_dir: Path,
    ) -> None:
        """others: agents of other runs, by opponent's name"""
        self.config = config
        self.task = task
        self.codec = codec
        self.policy = policy
        self.others = others
        self.run_dir = run_dir
        self.endpoint: Endpoint | None = None
        self.present: Visitor | None = None

    def named(self, name: str, kind: str, sampling: SamplingConfig | None) -> Opponent:
        """The opponent called `name`.

        kind: itself | start | scripted | endpoint, or the folder of a run
        sampling: of models; None plays greedily
        """
        if kind == "itself":
            return self._model(self.policy, sampling)
        if kind == "start":
            return self._model(self.policy.reference("start"), sampling)
        if kind == "scripted":
            scripts = self.task.players()
            return Opponent({role: ScriptedPlayer(script) for role, script in scripts.items()})
        if kind == "endpoint":
            player = EndpointPlayer(self._endpoint(), self.task.wording)
            return Opponent(dict.fromkeys(self.task.game.roles, player))
        return self._model(self.others[name], sampling)

    def seat(self, opponent: Opponent) -> None:
        """Load the opponent's weights, if it is a visitor; another one's are let go before."""
        if opponent.visitor is not self.present:
            self.dismiss()
        if opponent.visitor is not None:
            opponent.visitor.arrive()
            self.present = opponent.visitor

    def dismiss(self) -> None:
        """Let the weights of the last visitor go."""
        if self.present is not None:
            self.present.leave()
            self.present = None

    def _model(self, speaker: Actor, sampling: SamplingConfig | None) -> Opponent:
        limit = self.config.sampling.max_response_tokens
        player = ModelPlayer(speaker, self.task.wording, self.codec.fits, sampling, limit)
        visitor = speaker if isinstance(speaker, Visitor) else None
        return Opponent(dict.fromkeys(self.task.game.roles, player), visitor)

    def _endpoint(self) -> Endpoint:
        if self.endpoint is None:
            assert self.config.endpoint is not None  # settings without one were refused
            self.endpoint = Endpoint(self.config.endpoint, self.run_dir / REPLIES)
        return self.endpoint
