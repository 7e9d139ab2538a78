"""Word games as plays: two roles speak in turn until the rules say how the game ended.

And who can play them, and the sets of games that a run keeps on disk.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cory import distributed
from cory.config import OfflineConfig
from cory.endpoint import REPLIES, Endpoint, EndpointActor
from cory.episode import Context, Prompt
from cory.games.prompts import Form, GamePrompts
from cory.games.rules import GameRules, GameState
from cory.games.scripted import Draw
from cory.games.transcript import FinishedGame, read_games
from cory.models.actor import Actor
from cory.models.policy import Policy
from cory.models.tokenization import Texts
from cory.rollout.scheduler import Cast, RollOut
from cory.runs.files import keep_lines, whole_lines
from cory.seeding import Key, generator
from cory.tasks.game import GameTask

ENDPOINT = "endpoint"  # the actor of the model behind it


@dataclass(frozen=True)
class Seat:
    """Who plays a role: a script, or an actor, and how it is shown a game.

    One that is remote is shown all of it: only its server knows what fits.
    """

    player: str | Callable[[GameState, Draw], str]
    form: Form = "text"
    remote: bool = False


@dataclass
class WordGame:
    """Games of one kind; `play` is a game about the prompt's word."""

    rules: GameRules
    wording: GamePrompts
    fits: Callable[[Context], bool]  # whether a context leaves room for an utterance
    seats: Mapping[str, Seat]  # by role
    max_turns: Callable[[Key], int]  # key of the game's own random numbers -> its most turns
    finished: dict[int, FinishedGame] = field(default_factory=dict)  # in the first process

    def __call__(self, roll_out: RollOut, prompts: Sequence[Prompt]) -> dict[int, FinishedGame]:
        """The games about these prompts, by number."""
        self.finished = {}
        roll_out(self.play, prompts)
        return distributed.from_first(self.finished)

    async def play(self, prompt: Prompt, cast: Cast) -> None:
        position, ids = GameState(prompt.text, self.max_turns(cast.key)), []
        outcome = None
        while outcome is None:
            role = position.next_role(self.rules.roles)
            said, own = await self._utterance(role, position, cast)
            position = position.after(role, *said)
            ids.append(own)
            outcome = self.rules.outcome(position)
        game = FinishedGame(**vars(position), **vars(outcome), ids=ids if any(ids) else None)
        self.finished[cast.episode] = game

    async def _utterance(
        self, role: str, position: GameState, cast: Cast
    ) -> tuple[tuple[str, str | None], list[int] | None]:
        """What a role says, with what it thinks before, and the tokens that were sampled.

        EOS is one of these; None: none were.
        """
        seat = self.seats[role]
        if not isinstance(seat.player, str):
            draws = generator((*cast.key, len(position.utterances)))
            return (seat.player(position, draws), None), None
        fits = self.fits if not seat.remote else lambda context: True
        shown = fitting(self.wording, fits, position, role, None, seat.form)
        said = await cast[seat.player].say(shown, role)
        text = said.response.strip(), said.thinking or None
        return text, None if seat.remote else said.response_ids


def form_of(texts: Texts) -> Form:
    """How a model with these texts is shown a game."""
    if not texts.chat:
        return "text"
    return "system" if texts.takes_system else "user"


def fitting(
    wording: GamePrompts,
    fits: Callable[[Context], bool],
    position: GameState,
    role: str,
    style: int | None,
    form: Form = "text",
) -> Context:
    """A role's prompt; of a history that does not fit, the oldest utterances are left out."""
    context: Context = ""
    for first in range(len(position.utterances) + 1):
        rest = GameState(position.word, position.max_turns, position.utterances[first:])
        context = wording.context(rest, role, style, form)
        if fits(context):
            break
    return context  # the rules alone, which the task has checked to be short enough


@dataclass
class Opponents:
    """Who can play in a run: its policy, and those that the settings name."""

    config: OfflineConfig
    task: GameTask
    policy: Policy
    others: Mapping[str, Callable[[], Policy]]  # load agents of other runs, by opponent's name
    run_dir: Path
    endpoint: Endpoint | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.actors: dict[str, Actor] = {self.policy.name: self.policy}
        if "start" in self.config.played_against.values():
            self.actors["start"] = self.policy.reference("start")
        if self.config.asks_endpoint:
            assert self.config.endpoint is not None  # settings without one were refused
            self.endpoint = Endpoint(self.config.endpoint, self.run_dir / REPLIES)
            self.actors[ENDPOINT] = EndpointActor(ENDPOINT, self.endpoint)

    def seats(self, name: str, kind: str) -> dict[str, Seat]:
        """What the opponent called `name` plays each role by.

        kind: itself | start | scripted | endpoint, or the folder of a run
        """
        if kind == "scripted":
            return {role: Seat(script) for role, script in self.task.players.items()}
        player = {"itself": self.policy.name, "start": kind, ENDPOINT: kind}.get(kind, name)
        remote = kind == ENDPOINT
        form: Form = "system" if remote else form_of(self.policy.texts)
        return dict.fromkeys(self.task.game.roles, Seat(player, form, remote))

    def seat(self, name: str) -> None:
        """Load the weights of another run's agent; those of another one are let go before."""
        if name in self.others and name not in self.actors:
            self.dismiss()
            self.actors[name] = self.others[name]()

    def dismiss(self) -> None:
        """Let the weights of another run's agent go."""
        for name in self.others:
            self.actors.pop(name, None)


def stored_games(path: Path, game: GameRules) -> list[FinishedGame]:
    """The games of a set that are on the disk, in their order; none where there is no file."""
    kept = whole_lines(path)  # a kill may have torn the last
    keep_lines(path, kept)
    return read_games(path, game, "games") if kept else []
