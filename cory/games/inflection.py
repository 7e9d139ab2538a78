"""Words of a text, and the forms that a word may take in it."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from lemminflect import getAllInflections, getAllInflectionsOOV, getAllLemmas, getInflection

# by their names in Unicode, since they are hard to tell apart
SINGLE = (
    *("LEFT SINGLE QUOTATION MARK", "RIGHT SINGLE QUOTATION MARK", "SINGLE LOW-9 QUOTATION MARK"),
    *("SINGLE HIGH-REVERSED-9 QUOTATION MARK", "PRIME", "ACUTE ACCENT"),
)
DOUBLE = (
    *("LEFT DOUBLE QUOTATION MARK", "RIGHT DOUBLE QUOTATION MARK", "DOUBLE LOW-9 QUOTATION MARK"),
    *("DOUBLE HIGH-REVERSED-9 QUOTATION MARK", "DOUBLE PRIME"),
    *("LEFT-POINTING DOUBLE ANGLE QUOTATION MARK", "RIGHT-POINTING DOUBLE ANGLE QUOTATION MARK"),
)
MARKS = {
    ord(unicodedata.lookup(name)): typed
    for typed, names in (("'", SINGLE), ('"', DOUBLE), ("-", ("EN DASH", "EM DASH")))
    for name in names
}
# letters and digits, and what an apostrophe ties to them
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
# the word before these is said all the same: cat's, cat'll
ENDING = re.compile(r"'(?:s|ll|d|re|ve|m)$")


def plain_text(text: str) -> str:
    """Lower case, without accents, with the quotation marks and dashes of a typewriter."""
    split = unicodedata.normalize("NFKD", text.translate(MARKS))
    return "".join(c for c in split if not unicodedata.combining(c)).casefold()


def tokens(text: str) -> tuple[str, ...]:
    """The words of a text in plain form; a hyphen or an underscore separates two."""
    return tuple(ENDING.sub("", word) for word in WORD.findall(plain_text(text)))


@cache
def inflected(word: str) -> frozenset[tuple[str, ...]]:
    """Every form of a word, each as the words it is written in.

    These are all inflections of all that the word may be a form of: go, goes, going and gone for
    `went`. A word that the dictionary does not know is inflected by rule; of several words the
    last is inflected.
    """
    *before, last = tokens(word)
    lemmas = {lemma for found in getAllLemmas(last).values() for lemma in found}
    tables = [getAllInflections(lemma) for lemma in lemmas]
    if not lemmas:
        tables = [getAllInflectionsOOV(last, kind) for kind in ("NOUN", "VERB")]
    forms = {form for table in tables for found in table.values() for form in found}
    return frozenset((*before, *tokens(form)) for form in {last, *lemmas, *forms})


def plural(word: str) -> str:
    """The word as a noun, in the plural."""
    return str(getInflection(word, "NNS")[0])
