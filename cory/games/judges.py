"""Whether a text says a word, and whether it makes the guess that Adversarial Taboo knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Protocol

from cory.games.inflection import inflected, plain_text, plural, tokens


class Judge(Protocol):
    """Reads utterances; nothing inherits from it."""

    def mentions(self, text: str, word: str) -> bool:
        """Whether the text says the word in any of its forms."""
        ...

    def guess(self, text: str, word: str) -> bool | None:
        """Whether the text's guess is right; None: it makes none."""
        ...


class WordsJudge:
    """Whole words, in all their inflected forms, whatever marks stand around them.

    A guess is `I know the word`, then `it is` and the like or an exclamation mark or colon, then
    what is guessed. The first guess counts. A guess in quotation marks must be the word and no
    more; any other must begin with it, articles and the like aside.
    """

    def mentions(self, text: str, word: str) -> bool:
        said = tokens(text)
        return any(_contains(said, form) for form in inflected(word))

    def guess(self, text: str, word: str) -> bool | None:
        found = DECLARED.search(plain_text(text))
        if found is None:
            return None
        guessed = FILLER.sub("", found["guess"])
        quoted = QUOTED.match(guessed)
        said = tokens(quoted["inner"] if quoted else guessed)
        if quoted:
            return said in inflected(word)
        return any(said[: len(form)] == form for form in inflected(word))


# texts are lower-cased and their quotation marks plain before these see them
DECLARED = re.compile(
    r"\bi know the word"
    r"(?:\W*?\b(?:(?:it|that)(?: is|'s| must be)|its|is)\b|\s*[!:])"
    r"\W*?(?P<guess>[\"'`]?\w.*)",
    re.DOTALL,
)
FILLER = re.compile(
    r"^(?:(?:a|an|the|word|called|simply|just|definitely|of course|is|it|my|guess)\b[ :,]*)+"
)
QUOTED = re.compile(r"([\"'`]+)(?P<inner>.*?)\1", re.DOTALL)


def _contains(said: tuple[str, ...], form: tuple[str, ...]) -> bool:
    width = len(form)
    return any(said[i : i + width] == form for i in range(len(said) - width + 1))


class OfficialJudge:
    """As the released code judges: a form anywhere in the lower-cased text, `cat` in `category`.

    A guess is the phrase as the rules print it; up to eight characters may stand between `it` and
    the word.
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
    forms = (bare, bare + "ing", bare + "ed", plural(bare))
    return tuple(f"{mark}{form}{mark}" for mark in ("", '"', "'", "`") for form in forms)


JUDGES: Mapping[str, Callable[[], Judge]] = {"words": WordsJudge, "official": OfficialJudge}
