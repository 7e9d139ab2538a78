"""Adversarial Taboo (Yao et al., 2021): one lures the other into saying a word it does not know."""

from __future__ import annotations

from dataclasses import dataclass

from cory.games.judges import Judge
from cory.games.state import BROKE_RULES, TIE, GameResult, GameState

GUESSED = GameResult(("defender",), "guessed", valid=True)
WRONG_GUESS = GameResult(("attacker",), "wrong_guess", valid=True)
UTTERED = GameResult(("attacker",), "uttered", valid=True)


@dataclass(frozen=True)
class Taboo:
    """The attacker must not say the word; the defender loses by saying it other than as a guess."""

    judge: Judge
    roles: tuple[str, str] = ("attacker", "defender")
    knows: str = "attacker"

    def outcome(self, position: GameState) -> GameResult | None:
        """A guess ends the game; only what is no guess can be a slip, since a guess has the word.

        A game whose attacker breaks the rules counts for nobody: the paper leaves such games out.
        """
        last = position.utterances[-1]
        if last.role == self.knows:
            if self._gives_away(position.word, last.text):
                return BROKE_RULES
        else:
            right = self.judge.guess(last.text, position.word)
            if right is not None:
                return GUESSED if right else WRONG_GUESS
            if self.judge.mentions(last.text, position.word):
                return UTTERED
        return TIE if position.full else None

    def legal(self, position: GameState, text: str) -> bool:
        """The attacker may neither say the word nor make a guess; the defender says what it will.

        What the defender says may lose the game, but breaks no rule.
        """
        attackers = self.roles[len(position.utterances) % 2] == self.knows
        return not attackers or not self._gives_away(position.word, text)

    def _gives_away(self, word: str, text: str) -> bool:
        return self.judge.mentions(text, word) or self.judge.guess(text, word) is not None
