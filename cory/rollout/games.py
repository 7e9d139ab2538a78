"""Word games as plays: two roles speak in turn until the rules say how the game ended."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cory import distributed
from cory.episode import Prompt
from cory.games import GameRules
from cory.games.prompts import GamePrompts
from cory.games.scripted import RuleBasedPlayer
from cory.games.state import GameState
from cory.games.transcript import IDS, FinishedGame
from cory.rollout.scheduler import Cast, RollOut
from cory.seeding import Key, generator


@dataclass(frozen=True)
class Seat:
    """Who plays a role: a script, or an actor; one that is remote is shown messages."""

    player: str | RuleBasedPlayer
    remote: bool = False


@dataclass
class WordGame:
    """Games of one kind; `play` is a game about the prompt's word."""

    rules: GameRules
    wording: GamePrompts
    fits: Callable[[str], bool]  # whether a context leaves room for an utterance
    seats: Mapping[str, Seat]  # by role
    max_turns: Callable[[Key], int]  # key of the game's own random numbers -> its most turns
    over: Mapping[int, FinishedGame] = field(default_factory=dict)  # not played again, by number
    ended: Callable[[int, FinishedGame], None] = lambda number, game: None
    finished: dict[int, FinishedGame] = field(default_factory=dict)  # in the first process

    def __call__(self, roll_out: RollOut, prompts: Sequence[Prompt]) -> dict[int, FinishedGame]:
        """The games about these prompts by number, without those that were over."""
        self.finished = {}
        roll_out(self.play, prompts)
        return distributed.from_first(self.finished)

    async def play(self, prompt: Prompt, cast: Cast) -> None:
        """Play one game; `ended` is called as soon as it is over."""
        if cast.episode in self.over:
            return
        position, ids = GameState(prompt.text, self.max_turns(cast.key)), []
        outcome = None
        while outcome is None:
            role = position.next_role(self.rules.roles)
            text, own = await self._utterance(role, position, cast)
            position = position.after(role, text)
            ids.append(own)
            outcome = self.rules.outcome(position)
        extra = {IDS: ids} if any(ids) else {}
        game = FinishedGame(position.word, position.max_turns, position.utterances, outcome, extra)
        self.finished[cast.episode] = game
        self.ended(cast.episode, game)

    async def _utterance(
        self, role: str, position: GameState, cast: Cast
    ) -> tuple[str, list[int] | None]:
        """What a role says, and the tokens that were sampled, EOS included; None: none were."""
        seat = self.seats[role]
        if not isinstance(seat.player, str):
            draws = generator((*cast.key, len(position.utterances)))
            return seat.player.say(position, draws), None
        if seat.remote:
            said = await cast[seat.player].say(self.wording.messages(position, role), role)
            return said.response, None
        shown = fitting(self.wording, self.fits, position, role, None)
        said = await cast[seat.player].say(shown, role)
        return said.response.strip(), said.response_ids


def fitting(
    wording: GamePrompts,
    fits: Callable[[str], bool],
    position: GameState,
    role: str,
    style: int | None,
) -> str:
    """A role's prompt; of a history that does not fit, the oldest utterances are left out.

    style: as for `GamePrompts.context`
    """
    context = ""
    for first in range(len(position.utterances) + 1):
        rest = GameState(position.word, position.max_turns, position.utterances[first:])
        context = wording.context(rest, role, style)
        if fits(context):
            break
    return context  # the rules alone, which the task has checked to be short enough
