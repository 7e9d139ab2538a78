"""States and results of word games; judges of what is said; the rules of each game.

Adversarial Taboo, 20 Questions, Guess My City.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import dropwhile
from typing import Annotated

from lemminflect import getInflection
from pydantic import AliasChoices, Field

from cory.games.words import inflected, plain_text, tokens


@dataclass(frozen=True)
class GameUtterance:
    role: str
    text: Annotated[str, Field(validation_alias=AliasChoices("text", "content"))]  # SPAG's files
    thinking: str | None = None  # what the role said to itself before; no rule reads it


@dataclass(frozen=True)
class GameState:
    """The state of a game. A turn is one utterance of each role."""

    word: str  # the target word
    max_turns: int
    utterances: tuple[GameUtterance, ...] = ()

    def after(self, role: str, text: str, thinking: str | None = None) -> "GameState":
        said = GameUtterance(role, text, thinking)
        return GameState(self.word, self.max_turns, (*self.utterances, said))

    def next_role(self, roles: tuple[str, str]) -> str:
        """The role of the next utterance, of the roles in their order within a turn."""
        return roles[len(self.utterances) % 2]


@dataclass(frozen=True)
class GameResult:
    """How a game ended. A valid game without winners is a tie."""

    winners: tuple[str, ...]  # roles
    reason: str
    valid: bool  # False: a role broke the rules


TIE = GameResult((), "tie", valid=True)
BROKE_RULES = GameResult((), "broke_rules", valid=False)


class WordsJudge:
    """Compares whole words in all their inflected forms; punctuation does not matter.

    A guess is `I know the word`, then `it is` and the like or an exclamation mark or colon, then
    the guessed word. The first guess counts; it must begin with the word, not counting articles and
    the like.
    """

    def mentions(self, text: str, word: str) -> bool:
        """Whether the text says the word in any of its forms."""
        words = tokens(text)
        return any(
            words[start : start + len(form)] == form
            for form in inflected(word)
            for start in range(len(words))
        )

    def guess(self, text: str, word: str) -> bool | None:
        """Whether the text's guess is right; None: the text makes no guess."""
        declared = DECLARED.search(plain_text(text))
        if declared is None:
            return None
        words = tokens(declared["guess"])
        skipped = len(words) - len([*dropwhile(FILLER.__contains__, words)])
        return any(
            words[start : start + len(form)] == form
            for form in inflected(word)
            for start in range(skipped + 1)
        )


# in texts in plain form (`plain_text`)
DECLARED = re.compile(
    r"\bi know the word"
    r"(?:\W*?\b(?:(?:it|that)(?: is|'s| must be)|its|is)\b|\s*[!:])"
    r"\W*?(?P<guess>[\"'`]?\w.*)",
    re.DOTALL,
)
FILLER = {
    *("a", "an", "the", "word", "called", "simply", "just", "definitely", "of", "course"),
    *("is", "it", "my", "guess"),
}


class OfficialJudge:
    """The judge of the released code: finds a form anywhere in the text, `cat` in `category`.

    A guess is the phrase as printed in the rules; up to eight characters may stand between `it`
    and the word.
    """

    def mentions(self, text: str, word: str) -> bool:
        lower = text.lower()
        return any(form in lower for form in official_forms(word))

    def guess(self, text: str, word: str) -> bool | None:
        lower = text.lower()
        if re.search(PHRASE, lower) is None:
            return None
        return any(re.search(PHRASE + re.escape(form), lower) for form in official_forms(word))


PHRASE = r"i know the word! it.{1,8}"


@cache
def official_forms(word: str) -> tuple[str, ...]:
    """The word, its plural and two suffixes; each also in the three kinds of quotation marks."""
    bare = word.lower()
    forms = (bare, bare + "ing", bare + "ed", str(getInflection(bare, "NNS")[0]))
    return tuple(f"{mark}{form}{mark}" for mark in ("", '"', "'", "`") for form in forms)


Judge = WordsJudge | OfficialJudge
JUDGES: dict[str, type[Judge]] = {"words": WordsJudge, "official": OfficialJudge}


NAMED = GameResult(("guesser", "oracle"), "guessed", valid=True)
GUESSED = GameResult(("defender",), "guessed", valid=True)
WRONG_GUESS = GameResult(("attacker",), "wrong_guess", valid=True)
UTTERED = GameResult(("attacker",), "uttered", valid=True)


@dataclass(frozen=True)
class GameRules:
    """Rules of a game: as they stand here 20 Questions and Guess My City, which differ in prompts.

    The guesser asks questions. Both roles win as soon as it says the word, in any sentence.
    """

    judge: Judge
    roles: tuple[str, str] = ("guesser", "oracle")  # in the order of their utterances within a turn
    knows: str = "oracle"  # the role that sees the target word, and must not give it away

    def outcome(self, position: GameState) -> GameResult | None:
        """The result after the last utterance; None: the game goes on.

        No earlier utterance has ended the game. After all turns it is a tie.
        """
        last = position.utterances[-1]
        if last.role == self.knows:
            result = BROKE_RULES if self.gives_away(position.word, last.text) else None
        else:
            result = self.ended_by(position.word, last.text)
        all_played = len(position.utterances) >= 2 * position.max_turns
        return result or (TIE if all_played else None)

    def legal(self, position: GameState, text: str) -> bool:
        """Whether the role that speaks next may say this text; the other role may say anything."""
        knows = position.next_role(self.roles) == self.knows
        return not (knows and self.gives_away(position.word, text))

    def gives_away(self, word: str, text: str) -> bool:
        """Whether a text may not be said by the role that knows the word: it says it."""
        return self.judge.mentions(text, word)

    def ended_by(self, word: str, text: str) -> GameResult | None:
        """The result that an utterance of the other role brings about, if any."""
        return NAMED if self.judge.mentions(text, word) else None


@dataclass(frozen=True)
class Taboo(GameRules):
    """The attacker tries to make the defender say the word (Yao et al., 2021).

    The attacker must not say it; the defender loses if it does, except as a guess. A game whose
    attacker says the word or makes a guess is not valid: the released code leaves it out of
    training, and the paper out of win rates.
    """

    roles: tuple[str, str] = ("attacker", "defender")
    knows: str = "attacker"

    def gives_away(self, word: str, text: str) -> bool:
        """Neither the word nor a guess may be said."""
        return self.judge.mentions(text, word) or self.judge.guess(text, word) is not None

    def ended_by(self, word: str, text: str) -> GameResult | None:
        """A guess ends the game; any other utterance with the word loses it."""
        right = self.judge.guess(text, word)
        if right is not None:
            return GUESSED if right else WRONG_GUESS
        return UTTERED if self.judge.mentions(text, word) else None


GAMES = {"taboo": Taboo, "twenty_questions": GameRules, "guess_my_city": GameRules}


def rules_of(game: str, judge: str) -> GameRules:
    """The rules of the game of this name, with the judge of this name in JUDGES."""
    return GAMES[game](JUDGES[judge]())


def decided_state(game: GameRules, position: GameState) -> tuple[GameState, GameResult | None]:
    """The state after the first utterance that ended the game, and its result.

    returns: the whole position and None where the game goes on
    """
    for count in range(1, len(position.utterances) + 1):
        state = replace(position, utterances=position.utterances[:count])
        if result := game.outcome(state):
            return state, result
    return position, None
