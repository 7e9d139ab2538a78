"""20 Questions and Guess My City: the guesser asks questions until it can name the word.

The rules of both are the same; their prompts and target words differ.
"""

from dataclasses import dataclass

from cory.games.judges import Judge
from cory.games.state import BROKE_RULES, TIE, GameResult, GameState

NAMED = GameResult(("guesser", "oracle"), "guessed", valid=True)


@dataclass(frozen=True)
class Naming:
    """Both roles win as soon as the guesser says the word, in any sentence."""

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
        by_oracle = position.next_role(self.roles) == self.knows
        return not by_oracle or not self.judge.mentions(text, position.word)
