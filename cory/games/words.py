"""Words of a text, their inflected forms, and which words games are about."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from lemminflect import getAllInflections, getAllInflectionsOOV, getAllLemmas

# typographic quotation marks, primes and dashes, as they are typed
MARKS = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"')
    | dict.fromkeys("\u2013\u2014", "-")
)
SENTENCE_END = re.compile(r"[.!?]+\s")
LETTERS = re.compile(r"[a-z]+")
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


def sentences(texts: Iterable[str]) -> list[list[str]]:
    """The words of each sentence, in lower case; any other character than a letter separates."""
    parts = (part for text in texts for part in SENTENCE_END.split(text.lower()))
    return [LETTERS.findall(part) for part in parts]


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


def common_words(texts: Iterable[str], nouns: bool) -> Iterator[str]:
    """The words, or nouns alone, that the texts have more than once, commonest first."""
    common = Counter(word for sentence in sentences(texts) for word in sentence)
    ranked = sorted(common, key=lambda word: (-common[word], word))
    if nouns:
        ranked = [word for word in ranked if word in getAllLemmas(word, "NOUN").get("NOUN", ())]
    return (word for word in ranked if common[word] > 1)


def playable(words: Iterable[str], stop_words: Sequence[str], min_letters: int) -> Iterator[str]:
    """The words that are no stop words and have at least `min_letters` letters."""
    stop = {word.lower() for word in stop_words}
    return (
        word
        for word in words
        if word.lower() not in stop and sum(map(str.isalpha, word)) >= min_letters and tokens(word)
    )


def one_form_each(words: Iterable[str]) -> Iterator[str]:
    """The words without other forms of earlier ones."""
    seen: set[tuple[str, ...]] = set()
    for word in words:
        forms = inflected(word)
        if not forms & seen:
            yield word
        seen |= forms


def without_forms_of(words: Iterable[str], others: Iterable[str]) -> Iterator[str]:
    """The words that share no form with any of the others."""
    forms = {form for other in others for form in inflected(other)}
    return (word for word in words if not inflected(word) & forms)
