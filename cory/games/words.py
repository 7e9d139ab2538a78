"""Target words: from a file or counted in texts, split into training and test words.

The functions are lazy, since inflecting a word takes time: no more words are read than needed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from lemminflect import getAllLemmas

from cory.games.associations import sentences
from cory.games.inflection import inflected, tokens

# each fifth of the commonest words is a test word: as common as the training words around it
TEST_STEP = 5


def common_words(texts: Iterable[str], nouns: bool) -> Iterator[str]:
    """The words that the texts have more than once, commonest first.

    nouns: leave out words that cannot be nouns
    """
    common = Counter(word for sentence in sentences(texts) for word in sentence)
    ranked = sorted(common, key=lambda word: (-common[word], word))
    return (word for word in ranked if common[word] > 1 and _may_be(word, nouns))


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


def evenly(words: Iterable[str], count: int | None) -> list[str]:
    """Every fifth word from the third on: `count` of them, or all for None."""
    return list(islice(islice(words, TEST_STEP // 2, None, TEST_STEP), count))


def _may_be(word: str, nouns: bool) -> bool:
    return not nouns or word in getAllLemmas(word, "NOUN").get("NOUN", ())
