"""Associations of words: those that share sentences more often than by chance.

And a Bayesian listener: the belief in each target word, from them and what was said.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from cory.config.task import ScriptedConfig
from cory.games.inflection import inflected, plain_text, tokens
from cory.games.state import GameState

SENTENCE_END = re.compile(r"[.!?]+\s")
LETTERS = re.compile(r"[a-z]+")
# pseudo-count: sentences with a word, added to the data, in which each hint occurs as often as by
# chance; so that a few coincidences of a rare word do not look like an association
SMOOTHING = 5.0
# odds that an answer agrees with the associations: other players may have different ones
AGREES = 9.0


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
    met = np.zeros((words, len(columns)), dtype=np.int64)
    for sentence in corpus:
        distinct = set(sentence)
        targets = list({rows[word] for word in distinct if word in rows})
        hints = [columns[word] for word in distinct if word in columns]
        with_hint[hints] += 1
        with_word[targets] += 1
        met[np.ix_(targets, hints)] += 1
    return met, with_word, with_hint


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


@dataclass(frozen=True)
class Heard:
    """The evidence about the target word in the utterances so far."""

    hints: list[int]  # columns of hints given by the role that knows the word
    answers: list[tuple[list[int], bool]]  # columns of a question, and its answer
    ruled_out: list[int]  # rows of words that were said without ending the game
    asked: list[int]  # columns of the last question, if it is not answered yet


class Listener:
    """Naive Bayes: assumes that hints are independent of each other, given the word."""

    def __init__(self, config: ScriptedConfig, associations: Associations, knows: str) -> None:
        self.config = config
        self.associations = associations
        self.knows = knows
        # (W, H) bool: whether a hint is associated with a word
        self.goes_with = (associations.met >= config.least_sentences) & (
            associations.lift >= config.least_lift
        )

    def hear(self, position: GameState) -> Heard:
        """The evidence in the utterances so far."""
        hints: list[int] = []
        answers: list[tuple[list[int], bool]] = []
        ruled_out: list[int] = []
        asked: list[int] = []
        for utterance in position.utterances:
            rows, columns = self.associations.read(utterance.text)
            ruled_out += rows
            if utterance.role != self.knows:
                asked = columns
                continue
            hints += columns
            answer = self.answer(utterance.text)
            if asked and answer is not None:
                answers.append((asked, answer))
            asked = []
        return Heard(list(dict.fromkeys(hints)), answers, ruled_out, asked)

    def answer(self, text: str) -> bool | None:
        """True for a text that begins with yes, False for no, None for neither."""
        first = tokens(text)[:1]
        no, yes = (tokens(answer)[:1] for answer in self.config.answers)
        return first == yes if first in (no, yes) else None

    def evidence(self, heard: Heard, planned: Sequence[int] = ()) -> np.ndarray:
        """(W,) log of the belief in each word, up to a constant.

        planned: columns of hints that are going to be given
        """
        hints = [*heard.hints, *planned]
        sums = self.config.trust * self.associations.lift[:, hints].sum(axis=1)
        for asked, yes in heard.answers:
            sums = sums + np.log(AGREES) * (self.goes_with[:, asked].any(axis=1) == yes)
        named = self.associations.read(" ".join(self.associations.hints[c] for c in planned))[0]
        sums[[*heard.ruled_out, *named]] = -np.inf
        return np.asarray(sums)


def belief(evidence: np.ndarray) -> np.ndarray:
    """Softmax over the first axis; uniform where every word is ruled out (-inf)."""
    highest = evidence.max(axis=0)
    odds = np.exp(evidence - np.where(np.isfinite(highest), highest, 0.0))
    odds = np.where(np.isfinite(highest), odds, 1.0)
    return np.asarray(odds / odds.sum(axis=0))
