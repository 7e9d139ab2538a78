"""Judges of word games: whether a text says a word, and whether it makes a guess of Taboo."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import dropwhile

from cory.games.inflection import inflected, plain_text, plural, tokens


class WordsJudge:
    """Compares whole words in all their inflected forms; punctuation does not matter.

    A guess is `I know the word`, then `it is` and the like or an exclamation mark or colon, then
    the guessed word. The first guess counts; it must begin with the word, not counting articles and
    the like.
    """

    def mentions(self, text: str, word: str) -> bool:
        """Whether the text says the word in any of its forms."""
        words = tokens(text)
        return any(_contains(words, form) for form in inflected(word))

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


def _contains(words: tuple[str, ...], form: tuple[str, ...]) -> bool:
    width = len(form)
    return any(words[i : i + width] == form for i in range(len(words) - width + 1))


class OfficialJudge:
    """The judge of the released code: finds a form anywhere in the text, `cat` in `category`.

    A guess is the phrase as printed in the rules; up to eight characters may stand between `it`
    and the word.
    """

    def mentions(self, text: str, word: str) -> bool:
        """As `WordsJudge`."""
        lower = text.lower()
        return any(form in lower for form in official_forms(word))

    def guess(self, text: str, word: str) -> bool | None:
        """As `WordsJudge`."""
        lower = text.lower()
        if re.search(PHRASE, lower) is None:
            return None
        return any(re.search(PHRASE + re.escape(form), lower) for form in official_forms(word))


PHRASE = r"i know the word! it.{1,8}"


@cache
def official_forms(word: str) -> tuple[str, ...]:
    """The word, its plural and two suffixes; each also in the three kinds of quotation marks."""
    bare = word.lower()
    forms = (bare, bare + "ing", bare + "ed", plural(bare))
    return tuple(f"{mark}{form}{mark}" for mark in ("", '"', "'", "`") for form in forms)


Judge = WordsJudge | OfficialJudge
JUDGES: Mapping[str, Callable[[], Judge]] = {"words": WordsJudge, "official": OfficialJudge}
