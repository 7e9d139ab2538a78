"""State of a word game: the utterances so far; and results of finished games."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GameUtterance:
    """One contribution of one role."""

    role: str
    text: str


@dataclass(frozen=True)
class GameState:
    """The state of a game. A turn is one utterance of each role."""

    word: str  # the target word
    max_turns: int
    utterances: tuple[GameUtterance, ...] = ()

    def after(self, role: str, text: str) -> GameState:
        """The state after `role` says `text`."""
        return GameState(self.word, self.max_turns, (*self.utterances, GameUtterance(role, text)))

    def next_role(self, roles: tuple[str, str]) -> str:
        """The role of the next utterance, of the roles in their order within a turn."""
        return roles[len(self.utterances) % 2]

    @property
    def turn(self) -> int:
        """Number of the turn of the next utterance, from 0."""
        return len(self.utterances) // 2

    @property
    def full(self) -> bool:
        """Whether all turns have been played."""
        return len(self.utterances) >= 2 * self.max_turns


@dataclass(frozen=True)
class GameResult:
    """How a game ended. A valid game without winners is a tie."""

    winners: tuple[str, ...]  # roles
    reason: str
    valid: bool  # False: a role broke the rules


TIE = GameResult((), "tie", valid=True)
BROKE_RULES = GameResult((), "broke_rules", valid=False)
