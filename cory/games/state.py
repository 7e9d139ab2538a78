"""Where a word game stands: what has been said so far, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GameUtterance:
    """What one role has said at once."""

    role: str
    text: str


@dataclass(frozen=True)
class GameState:
    """A game so far. A turn is one utterance of each role."""

    word: str  # the target word
    max_turns: int
    utterances: tuple[GameUtterance, ...] = ()

    def after(self, role: str, text: str) -> GameState:
        """The position when `role` has said `text`."""
        return GameState(self.word, self.max_turns, (*self.utterances, GameUtterance(role, text)))

    @property
    def turn(self) -> int:
        """The turn, from 0, of whoever speaks next."""
        return len(self.utterances) // 2

    @property
    def full(self) -> bool:
        """Whether all turns have been played."""
        return len(self.utterances) >= 2 * self.max_turns


@dataclass(frozen=True)
class GameResult:
    """How a game ended. Nobody won and it is valid: a tie."""

    winners: tuple[str, ...]  # roles
    reason: str
    valid: bool  # False: somebody broke the rules


TIE = GameResult((), "tie", valid=True)
BROKE_RULES = GameResult((), "broke_rules", valid=False)
