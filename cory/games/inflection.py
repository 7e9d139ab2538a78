"""Words of a text, and the inflected forms of a word."""

import re
import unicodedata
from functools import cache

from lemminflect import getAllInflections, getAllInflectionsOOV, getAllLemmas, getInflection

# typographic quotation marks, primes and dashes, as they are typed
MARKS = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"')
    | dict.fromkeys("\u2013\u2014", "-")
)
# letters and digits, and parts joined by an apostrophe
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
# endings that leave the word before them the same: cat's, cat'll
ENDING = re.compile(r"'(?:s|ll|d|re|ve|m)$")


def plain_text(text: str) -> str:
    """The text in lower case, without accents, with ASCII quotation marks and dashes."""
    split = unicodedata.normalize("NFKD", text.translate(MARKS))
    return "".join(c for c in split if not unicodedata.combining(c)).casefold()


def tokens(text: str) -> tuple[str, ...]:
    """The words of a text in plain form; a hyphen or an underscore separates two."""
    return tuple(ENDING.sub("", word) for word in WORD.findall(plain_text(text)))


@cache
def inflected(word: str) -> frozenset[tuple[str, ...]]:
    """Every inflected form of a word, as tuples of plain words.

    All inflections of all lemmas that the word may belong to: go, goes, going and gone for `went`.
    A word that is not in the dictionary is inflected by rule; of several words the last is
    inflected.
    """
    *before, last = tokens(word)
    lemmas = {lemma for group in getAllLemmas(last).values() for lemma in group}
    tables = [getAllInflections(lemma) for lemma in lemmas]
    if not lemmas:
        tables = [getAllInflectionsOOV(last, kind) for kind in ("NOUN", "VERB")]
    forms = {form for table in tables for group in table.values() for form in group}
    return frozenset((*before, *tokens(form)) for form in {last, *lemmas, *forms})


def plural(word: str) -> str:
    """The plural of the word as a noun."""
    return str(getInflection(word, "NNS")[0])
