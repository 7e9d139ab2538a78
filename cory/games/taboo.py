"""Adversarial Taboo (Yao et al., 2021): the attacker tries to make the defender say the word."""

from dataclasses import dataclass

from cory.games.judges import Judge
from cory.games.state import BROKE_RULES, TIE, GameResult, GameState

GUESSED = GameResult(("defender",), "guessed", valid=True)
WRONG_GUESS = GameResult(("attacker",), "wrong_guess", valid=True)
UTTERED = GameResult(("attacker",), "uttered", valid=True)


@dataclass(frozen=True)
class Taboo:
    """The attacker must not say the word; the defender loses if it does, except as a guess."""

    judge: Judge
    roles: tuple[str, str] = ("attacker", "defender")
    knows: str = "attacker"

    def outcome(self, position: GameState) -> GameResult | None:
        """A guess ends the game; any other utterance with the word loses it for the defender.

        A game whose attacker says the word or makes a guess is not valid: the released code leaves
        it out of training, and the paper out of win rates.
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
        """The attacker may neither say the word nor make a guess; the defender may say anything.

        An utterance of the defender may lose the game, but breaks no rule.
        """
        by_attacker = position.next_role(self.roles) == self.knows
        return not by_attacker or not self._gives_away(position.word, text)

    def _gives_away(self, word: str, text: str) -> bool:
        return self.judge.mentions(text, word) or self.judge.guess(text, word) is not None
