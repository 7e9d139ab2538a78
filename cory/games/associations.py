"""Associations of words: those that share sentences more often than by chance."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from cory.games.inflection import inflected, plain_text, tokens

SENTENCE_END = re.compile(r"[.!?]+\s")
LETTERS = re.compile(r"[a-z]+")
# pseudo-count: sentences with a word, added to the data, in which each hint occurs as often as by
# chance; so that a few coincidences of a rare word do not look like an association
SMOOTHING = 5.0


@dataclass(frozen=True)
class Associations:
    """Association of W target words with H hint words."""

    words: tuple[str, ...]
    hints: tuple[str, ...]
    # (W, H) float32: log of P(hint in a sentence | word in it) over P(hint in a sentence)
    lift: np.ndarray
    met: np.ndarray  # (W, H) int32: sentences with both
    rows: Mapping[str, int]  # target word, in any form -> its row
    columns: Mapping[str, int]  # hint -> its column
    joined: Mapping[str, str]  # target of several words -> the same, written as one word

    def read(self, text: str) -> tuple[list[int], list[int]]:
        """Rows of the target words and columns of the hints in a text, each once."""
        words = dict.fromkeys(LETTERS.findall(_join(plain_text(text), self.joined)))
        rows = dict.fromkeys(self.rows[token] for token in words if token in self.rows)
        return list(rows), [self.columns[token] for token in words if token in self.columns]


def sentences(texts: Iterable[str]) -> list[list[str]]:
    """The words of each sentence, in lower case; any other character than a letter separates."""
    parts = (part for text in texts for part in SENTENCE_END.split(text.lower()))
    return [LETTERS.findall(part) for part in parts]


def associate(
    texts: Iterable[str], words: Sequence[str], hint_words: int, excluded: Set[str]
) -> Associations:
    """The associations of target words with the commonest words of the texts, the hints.

    words: the target words
    hint_words: number of hints
    excluded: words that are never hints
    """
    joined = {" ".join(tokens(word)): _key(word) for word in words if len(tokens(word)) > 1}
    corpus = sentences(_join(text.lower(), joined) for text in texts)
    common = Counter(word for sentence in corpus for word in sentence)
    hints = sorted(
        (word for word in common if len(word) > 2 and word not in excluded),
        key=lambda word: (-common[word], word),
    )[:hint_words]
    rows = _rows(words)
    columns = {hint: column for column, hint in enumerate(hints)}
    met, with_word, with_hint = _count(corpus, rows, columns, len(words))
    by_chance = with_hint / max(len(corpus), 1)
    share = (met + SMOOTHING * by_chance) / (with_word[:, None] + SMOOTHING)
    lift = np.log(share / by_chance).astype(np.float32)
    return Associations(
        tuple(words), tuple(hints), lift, met.astype(np.int32), rows, columns, joined
    )


def _count(
    corpus: list[list[str]], rows: Mapping[str, int], columns: Mapping[str, int], words: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sentences with a target word and a hint (W, H), with a target word (W,), a hint (H,)."""
    with_word, with_hint = np.zeros(words), np.zeros(len(columns))
    pairs = [np.empty(0, dtype=np.int64)]
    for sentence in corpus:
        distinct = set(sentence)
        targets = np.array(list({rows[word] for word in distinct if word in rows}), dtype=np.int64)
        hints = np.array([columns[word] for word in distinct if word in columns], dtype=np.int64)
        with_hint[hints] += 1
        if targets.size:
            with_word[targets] += 1
            pairs.append((targets[:, None] * len(columns) + hints).ravel())
    met = np.bincount(np.concatenate(pairs), minlength=words * len(columns))
    return met.reshape(words, len(columns)), with_word, with_hint


def _key(word: str) -> str:
    """A target as it is counted: several words are written as one."""
    return "".join(tokens(word))


def _join(text: str, joined: Mapping[str, str]) -> str:
    """A text in which targets of several words are written as one."""
    if joined:
        text = text.replace("-", " ")
    for phrase, key in joined.items():
        text = text.replace(phrase, key)
    return text


def _rows(words: Sequence[str]) -> dict[str, int]:
    """Row of the target that a token is a form of; of two targets the commoner one."""
    rows: dict[str, int] = {}
    for row, word in enumerate(words):
        rows.setdefault(_key(word), row)
    for row, word in enumerate(words):
        for form in sorted(inflected(word)):
            rows.setdefault("".join(form), row)
    return rows
