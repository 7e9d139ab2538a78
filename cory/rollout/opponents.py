"""Opponents in word games: the policy itself, other runs' agents, scripts, a remote model."""

from collections.abc import Mapping
from pathlib import Path

from cory.config import OfflineConfig
from cory.endpoint import Endpoint
from cory.models.policy import Actor, Policy
from cory.models.visitor import Visitor
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
        others: Mapping[str, Policy | Visitor],
        run_dir: Path,
    ) -> None:
        """others: agents of other runs, by opponent's name"""
        self.task = task
        self.policy = policy
        self.others = others
        self.actors: dict[str, Actor] = {policy.name: policy, **others}
        if "start" in config.played_against.values():
            self.actors["start"] = policy.reference("start")
        self.endpoint: Endpoint | None = None
        if config.asks_endpoint:
            assert config.endpoint is not None  # settings without one were refused
            self.endpoint = Endpoint(config.endpoint, run_dir / REPLIES)
            self.actors[ENDPOINT] = EndpointActor(ENDPOINT, Server(self.endpoint))
        self.present: Visitor | None = None

    def seats(self, name: str, kind: str) -> dict[str, Seat]:
        """What the opponent called `name` plays each role by.

        kind: itself | start | scripted | random | endpoint, or the folder of a run
        """
        if kind in ("scripted", "random"):
            return {role: Seat(script) for role, script in self.task.players()[kind].items()}
        player = {"itself": self.policy.name, "start": kind, ENDPOINT: kind}.get(kind, name)
        return dict.fromkeys(self.task.game.roles, Seat(player, remote=kind == ENDPOINT))

    def seat(self, name: str) -> None:
        """Load the weights of an opponent that is a visitor; another one's are let go before."""
        visitor = self.others.get(name)
        if visitor is not self.present:
            self.dismiss()
        if isinstance(visitor, Visitor):
            visitor.arrive()
            self.present = visitor

    def dismiss(self) -> None:
        """Let the weights of the last visitor go."""
        if self.present is not None:
            self.present.leave()
            self.present = None
