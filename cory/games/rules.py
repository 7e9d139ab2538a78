"""The rules of the games: Adversarial Taboo, 20 Questions, Guess My City."""

from dataclasses import dataclass

from cory.games.judges import Judge
from cory.games.state import BROKE_RULES, TIE, GameResult, GameState

NAMED = GameResult(("guesser", "oracle"), "guessed", valid=True)
GUESSED = GameResult(("defender",), "guessed", valid=True)
WRONG_GUESS = GameResult(("attacker",), "wrong_guess", valid=True)
UTTERED = GameResult(("attacker",), "uttered", valid=True)


@dataclass(frozen=True)
class Taboo:
    """The attacker tries to make the defender say the word (Yao et al., 2021).

    The attacker must not say it; the defender loses if it does, except as a guess.
    """

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


@dataclass(frozen=True)
class Naming:
    """20 Questions and Guess My City, which differ in their prompts and target words.

    The guesser asks questions. Both roles win as soon as it says the word, in any sentence.
    """

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
