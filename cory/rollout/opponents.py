"""Opponents in word games: the policy itself, other runs' agents, scripts, a remote model."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cory.config import OfflineConfig, SamplingConfig
from cory.endpoint import Ask, Endpoint
from cory.games.prompts import GamePrompts
from cory.models.policy import Actor, Policy
from cory.rollout.self_play import Key, ModelPlayer, Player, Positions, Said, ScriptedPlayer
from cory.tasks.game import GameTask

REPLIES = "endpoint.jsonl"  # in the run directory: the endpoint's replies


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
        fits: Callable[[str], bool],
        policy: Policy,
        others: Mapping[str, Callable[[], Policy]],
        run_dir: Path,
    ) -> None:
        """fits: whether a context is not too long; others: load agents of other runs, by name."""
        self.config = config
        self.task = task
        self.fits = fits
        self.policy = policy
        self.others = others
        self.run_dir = run_dir
        self.endpoint: Endpoint | None = None
        self.present: Policy | None = None  # the one of others whose weights are in memory

    def named(self, name: str, kind: str, sampling: SamplingConfig | None) -> Mapping[str, Player]:
        """The opponent called `name`: a player for each role.

        kind: itself | start | scripted | random | endpoint, or the folder of a run
        sampling: of models; None plays greedily
        """
        if kind == "itself":
            return self._model(self.policy, sampling)
        if kind == "start":
            return self._model(self.policy.reference("start"), sampling)
        if kind in ("scripted", "random"):
            scripts = self.task.players()[kind]
            return {role: ScriptedPlayer(script) for role, script in scripts.items()}
        if kind == "endpoint":
            player = EndpointPlayer(self._endpoint(), self.task.wording)
            return dict.fromkeys(self.task.game.roles, player)
        if self.present is None or self.present.name != name:
            self.present = None  # before the next one is loaded
            self.present = self.others[name]()
        return self._model(self.present, sampling)

    def dismiss(self) -> None:
        """Let the weights of another run's agent go."""
        self.present = None

    def _model(self, speaker: Actor, sampling: SamplingConfig | None) -> Mapping[str, Player]:
        limit = self.config.sampling.max_response_tokens
        player = ModelPlayer(speaker, self.task.wording, self.fits, sampling, limit)
        return dict.fromkeys(self.task.game.roles, player)

    def _endpoint(self) -> Endpoint:
        if self.endpoint is None:
            assert self.config.endpoint is not None  # settings without one were refused
            self.endpoint = Endpoint(self.config.endpoint, self.run_dir / REPLIES)
        return self.endpoint
