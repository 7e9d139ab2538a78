"""20 Questions and Guess My City: one asks until it can name what the other thinks of.

Both follow the same rules; what the roles are told differs, and where the words come from.
"""

from __future__ import annotations

from dataclasses import dataclass

from cory.games.judges import Judge
from cory.games.state import BROKE_RULES, TIE, GameResult, GameState

NAMED = GameResult(("guesser", "oracle"), "guessed", valid=True)


@dataclass(frozen=True)
class Naming:
    """Both win as soon as the guesser names the word, in whatever sentence."""

    judge: Judge
    roles: tuple[str, str] = ("guesser", "oracle")
    knows: str = "oracle"

    def outcome(self, position: GameState) -> GameResult | None:
        """The oracle must not say the word before the guesser has."""
        last = position.utterances[-1]
        if self.judge.mentions(last.text, position.word):
            return BROKE_RULES if last.role == self.knows else NAMED
        return TIE if position.full else None

    def legal(self, position: GameState, text: str) -> bool:
        """The oracle may not say the word."""
        oracles = self.roles[len(position.utterances) % 2] == self.knows
        return not oracles or not self.judge.mentions(text, position.word)
