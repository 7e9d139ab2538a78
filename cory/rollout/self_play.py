"""Plays word games: many side by side, one utterance of each at a time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cory.config import SamplingConfig
from cory.episode import Asked
from cory.games import GameRules
from cory.games.prompts import GamePrompts
from cory.games.scripted import RuleBasedPlayer
from cory.games.state import GameState
from cory.games.transcript import IDS, FinishedGame
from cory.models.policy import Actor
from cory.seeding import uniforms

Key = tuple[int, ...]  # of one game's random numbers at one utterance
Positions = Sequence[GameState | None]  # None: that game is over


@dataclass(frozen=True)
class Said:
    """One utterance of a player."""

    text: str
    ids: list[int] | None = None  # sampled token ids, EOS included; None: no model spoke


class Player(Protocol):
    """Plays a role in word games; nothing inherits from it."""

    def say(self, role: str, positions: Positions, keys: Sequence[Key]) -> list[Said]:
        """The next utterance in each game; anything where a game is over.

        keys: of each game's random numbers: the same key and position give the same words
        """
        ...


class ModelPlayer:
    """A language model; one policy plays both roles, told apart by the prompt."""

    def __init__(
        self,
        speaker: Actor,
        wording: GamePrompts,
        fits: Callable[[str], bool],
        sampling: SamplingConfig | None,
        limit: int,
    ) -> None:
        """sampling: None plays greedily
        fits: whether a context leaves room for an utterance
        limit: tokens of an utterance
        """
        self.speaker = speaker
        self.wording = wording
        self.fits = fits
        self.sampling = sampling
        self.limit = limit

    def say(self, role: str, positions: Positions, keys: Sequence[Key]) -> list[Said]:
        """As `Player`."""
        asked = [
            Asked(
                fitting(self.wording, self.fits, position, role, None),
                role,
                uniforms=uniforms(key, self.limit),
            )
            for position, key in zip(positions, keys, strict=True)
            if position is not None
        ]
        turns = iter(self.speaker.turns(asked, self.limit, self.sampling))
        said = [None if position is None else next(turns) for position in positions]
        return [
            Said("") if one is None else Said(one.response.strip(), one.response_ids)
            for one in said
        ]


class ScriptedPlayer:
    """A player that follows rules."""

    def __init__(self, script: RuleBasedPlayer) -> None:
        self.script = script

    def say(self, role: str, positions: Positions, keys: Sequence[Key]) -> list[Said]:
        """As `Player`."""
        return [
            Said("" if position is None else self.script.say(position, np.random.default_rng(key)))
            for position, key in zip(positions, keys, strict=True)
        ]


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


def play(
    game: GameRules,
    starts: Sequence[GameState],
    players: Mapping[str, Player],
    key: tuple[int, ...],
    first: int,
    found: Mapping[int, FinishedGame],
    ended: Callable[[int, FinishedGame], None],
    before_each: Callable[[], None],
) -> list[FinishedGame]:
    """Play every game to its end.

    players: by role
    key, first: seeds of all random numbers, and the number of the first game; a game's course does
        not depend on others
    found: games that were finished before, by number
    ended(number, game): called as soon as a game is over
    before_each: called before the next utterance of all games; what it raises ends the playing
    """
    positions = list(starts)
    ids: list[list[list[int] | None]] = [[] for _ in starts]
    over = dict(found)
    utterance = 0
    while len(over) < len(positions):
        before_each()
        role = game.roles[utterance % 2]
        going = [None if n in over else position for n, position in enumerate(positions)]
        keys = [(*key, first + number, utterance) for number in range(len(positions))]
        said = players[role].say(role, going, keys)
        for number, (position, own) in enumerate(zip(going, said, strict=True)):
            if position is None:
                continue
            positions[number] = position = position.after(role, own.text)
            ids[number].append(own.ids)
            outcome = game.outcome(position)
            if outcome is not None:
                over[number] = FinishedGame(
                    position.word,
                    position.max_turns,
                    position.utterances,
                    outcome,
                    {IDS: ids[number]} if any(ids[number]) else {},
                )
                ended(number, over[number])
        utterance += 1
    return [over[number] for number in range(len(positions))]
