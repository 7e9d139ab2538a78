"""Which words go together: those that share sentences oftener than chance would have it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from cory.games.inflection import inflected, plain_text, tokens

SENTENCE_END = re.compile(r"[.!?]+\s")
LETTERS = re.compile(r"[a-z]+")
# sentences with a word in which any hint is taken to have stood as often as chance has it: what
# keeps a few chance meetings of a rare word from looking like a bond
SMOOTHING = 5.0


@dataclass(frozen=True)
class Associations:
    """W words that games are about, against H words that hints are made of."""

    words: tuple[str, ...]
    hints: tuple[str, ...]
    # (W, H) float32: log of how much likelier a sentence has the hint where it has the word
    lift: np.ndarray
    met: np.ndarray  # (W, H) int32: sentences with both
    rows: Mapping[str, int]  # word, in any form -> its row
    columns: Mapping[str, int]  # hint -> its column
    joined: Mapping[str, str]  # words of several words -> how they are counted

    def read(self, text: str) -> tuple[list[int], list[int]]:
        """Rows of the words and columns of the hints that a text has, each once."""
        said = dict.fromkeys(LETTERS.findall(_join(plain_text(text), self.joined)))
        rows = dict.fromkeys(self.rows[token] for token in said if token in self.rows)
        return list(rows), [self.columns[token] for token in said if token in self.columns]


def sentences(texts: Iterable[str]) -> list[list[str]]:
    """The words of each sentence, in lower case; what is no letter separates."""
    parts = (part for text in texts for part in SENTENCE_END.split(text.lower()))
    return [LETTERS.findall(part) for part in parts]


def associate(
    texts: Iterable[str], words: Sequence[str], hint_words: int, left_out: Set[str]
) -> Associations:
    """Counts the sentences of `texts` in which each word meets each of the commonest words.

    hint_words: how many of those; left_out: words that are no hint
    """
    joined = {" ".join(tokens(word)): _key(word) for word in words if len(tokens(word)) > 1}
    found = sentences(_join(text.lower(), joined) for text in texts)
    common = Counter(word for sentence in found for word in sentence)
    hints = sorted(
        (word for word in common if len(word) > 2 and word not in left_out),
        key=lambda word: (-common[word], word),
    )[:hint_words]
    rows = _rows(words)
    columns = {hint: column for column, hint in enumerate(hints)}
    met, with_word, with_hint = _count(found, rows, columns, len(words))
    by_chance = with_hint / max(len(found), 1)
    share = (met + SMOOTHING * by_chance) / (with_word[:, None] + SMOOTHING)
    lift = np.log(share / by_chance).astype(np.float32)
    return Associations(
        tuple(words), tuple(hints), lift, met.astype(np.int32), rows, columns, joined
    )


def _count(
    found: list[list[str]], rows: Mapping[str, int], columns: Mapping[str, int], words: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sentences with a word and a hint (W, H), with a word (W,), with a hint (H,)."""
    with_word, with_hint = np.zeros(words), np.zeros(len(columns))
    pairs = [np.empty(0, dtype=np.int64)]
    for sentence in found:
        there = set(sentence)
        own = np.array(list({rows[token] for token in there if token in rows}), dtype=np.int64)
        near = np.array([columns[token] for token in there if token in columns], dtype=np.int64)
        with_hint[near] += 1
        if own.size:
            with_word[own] += 1
            pairs.append((own[:, None] * len(columns) + near).ravel())
    met = np.bincount(np.concatenate(pairs), minlength=words * len(columns))
    return met.reshape(words, len(columns)), with_word, with_hint


def _key(word: str) -> str:
    """A word as it is counted: several words are written as one."""
    return "".join(tokens(word))


def _join(text: str, joined: Mapping[str, str]) -> str:
    """A text in which words of several words are written as one."""
    if joined:
        text = text.replace("-", " ")
    for phrase, key in joined.items():
        text = text.replace(phrase, key)
    return text


def _rows(words: Sequence[str]) -> dict[str, int]:
    """Which word a token is, as it stands or in another form; the commoner word where it is two."""
    rows: dict[str, int] = {}
    for row, word in enumerate(words):
        rows.setdefault(_key(word), row)
    for row, word in enumerate(words):
        for form in sorted(inflected(word)):
            rows.setdefault("".join(form), row)
    return rows
