"""Opponents in word games: the policy itself, other runs' agents, scripts, a remote model."""

from collections.abc import Callable, Mapping
from pathlib import Path

from cory.config import OfflineConfig
from cory.endpoint import Endpoint
from cory.models.policy import Actor, Policy
from cory.rollout.endpoint import EndpointActor, Server
from cory.rollout.games import Seat
from cory.tasks.game import GameTask

REPLIES = "endpoint.jsonl"  # in the run directory: the endpoint's replies
ENDPOINT = "endpoint"  # the actor of the model behind it


class Opponents:
    """Who can play in a run: its policy, and those that the settings name."""

    def __init__(
        self,
        config: OfflineConfig,
        task: GameTask,
        policy: Policy,
        others: Mapping[str, Callable[[], Policy]],
        run_dir: Path,
    ) -> None:
        """others: load agents of other runs, by opponent's name"""
        self.task = task
        self.policy = policy
        self.others = others
        self.actors: dict[str, Actor] = {policy.name: policy}
        if "start" in config.played_against.values():
            self.actors["start"] = policy.reference("start")
        self.endpoint: Endpoint | None = None
        if config.asks_endpoint:
            assert config.endpoint is not None  # settings without one were refused
            self.endpoint = Endpoint(config.endpoint, run_dir / REPLIES)
            self.actors[ENDPOINT] = EndpointActor(ENDPOINT, Server(self.endpoint))

    def seats(self, name: str, kind: str) -> dict[str, Seat]:
        """What the opponent called `name` plays each role by.

        kind: itself | start | scripted | endpoint, or the folder of a run
        """
        if kind == "scripted":
            return {role: Seat(script) for role, script in self.task.players().items()}
        player = {"itself": self.policy.name, "start": kind, ENDPOINT: kind}.get(kind, name)
        return dict.fromkeys(self.task.game.roles, Seat(player, remote=kind == ENDPOINT))

    def seat(self, name: str) -> None:
        """Load the weights of another run's agent; those of another one are let go before."""
        if name in self.others and name not in self.actors:
            self.dismiss()
            self.actors[name] = self.others[name]()

    def dismiss(self) -> None:
        """Let the weights of another run's agent go."""
        for name in self.others:
            self.actors.pop(name, None)
