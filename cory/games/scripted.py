"""Rule-based players of word games: a hinter and a guesser, and the associations they know.

Words are associated that share sentences more often than by chance. A Bayesian listener: the belief
in each target word, from associations and what was said.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cory.config import require
from cory.config.task import ScriptedConfig
from cory.games import GameRules
from cory.games.rules import GameState
from cory.games.words import LETTERS, inflected, plain_text, sentences, tokens

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


Draw = np.random.Generator

MAX_HINTS = 60  # best hints that are compared with each other
MAX_QUESTIONS = 5  # best questions that one is drawn from
# how much farther from an even chance of a yes these may be than the best question
QUESTION_MARGIN = 0.05


class RuleBasedPlayer(Protocol):
    """A player without a language model; a protocol, nothing inherits from it."""

    def say(self, position: GameState, draw: np.random.Generator) -> str:
        """The player's next utterance."""
        ...


class Script:
    """The sentences and word associations that scripted players share."""

    def __init__(self, config: ScriptedConfig, associations: Associations, game: GameRules) -> None:
        self.config = config
        self.associations = associations
        self.game = game
        self.listener = Listener(config, associations, game.knows)
        self._legal: dict[tuple[str, int], bool] = {}
        # columns of hints that are target words themselves
        self.target_hints = [
            column for hint, column in associations.columns.items() if hint in associations.rows
        ]

    def row(self, word: str) -> int:
        """The row of a target word; ConfigError for another word."""
        words = self.associations.words
        require(word in words, f"word '{word}': scripted players know only the task's own words")
        return words.index(word)

    def usable(self, position: GameState, heard: Heard) -> list[int]:
        """New legal hints for the word, best first; unassociated ones only after all others."""
        row = self.row(position.word)
        order = np.argsort(-self.associations.lift[row], kind="stable")
        associated = self.listener.goes_with[row, order]
        for part in (order[associated], order[~associated]):
            new = (column for column in part.tolist() if column not in heard.hints)
            hints = [column for column in new if self._may_name(position, column)]
            if hints:
                return hints
        return []

    def _may_name(self, position: GameState, column: int) -> bool:
        """Whether the hint is no form of the word; cached, since it is asked again and again."""
        key = (position.word, column)
        if key not in self._legal:
            self._legal[key] = self.game.legal(position, self.associations.hints[column])
        return self._legal[key]

    def hint(self, position: GameState, columns: Sequence[int], yes: bool, draw: Draw) -> str:
        """A sentence with these hints, or the hints alone where every sentence breaks the rules."""
        hints = self.config.separator.join(self.associations.hints[column] for column in columns)
        answer = self.config.answers[yes]
        texts = [text.format(hints=hints, answer=answer) for text in self.config.hint]
        return _one([text for text in texts if self.game.legal(position, text)] or [hints], draw)

    def question(self, words: Sequence[str], draw: Draw) -> str:
        """A question about these words."""
        return _one(self.config.ask, draw).format(words=self.config.separator.join(words))

    def guess(self, row: int, draw: Draw) -> str:
        """A guess of the target word in this row."""
        return _one(self.config.guess, draw).format(word=self.associations.words[row])


class Hinter:
    """Knows the word, and chooses hints by the belief that they give a listener.

    Mostly the hint with the highest belief in the word. With guile: the highest belief in the word
    among hints after which another word is believed in more, so that a wrong guess is near, or a
    question that says the word.
    """

    def __init__(self, script: Script) -> None:
        self.script = script

    def say(self, position: GameState, draw: Draw) -> str:
        """The next hints, and yes or no to the last question by the associations."""
        script, config = self.script, self.script.config
        heard = script.listener.hear(position)
        row = script.row(position.word)
        usable = script.usable(position, heard)[:MAX_HINTS]
        misleads = bool(draw.random() < config.guile)
        chosen: list[int] = []
        while usable and len(chosen) < config.hints_per_turn:
            evidence = script.listener.evidence(heard, chosen)
            chosen.append(usable.pop(self._best(evidence, usable, row, misleads)))
        yes = bool(script.listener.goes_with[row, heard.asked].any())
        return script.hint(position, chosen, yes, draw)

    def _best(self, evidence: np.ndarray, usable: list[int], row: int, misleads: bool) -> int:
        """Position among the usable hints of the one to name next."""
        lift = self.script.associations.lift[:, usable]
        after = belief(evidence[:, None] + self.script.config.trust * lift)  # (W, hints)
        hidden = after.argmax(axis=0) != row
        if misleads and hidden.any():
            return int(np.where(hidden, after[row], -1.0).argmax())
        return int(after[row].argmax())


class Guesser:
    """Computes its belief in each target word; guesses once the highest belief is enough."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def say(self, position: GameState, draw: Draw) -> str:
        """A guess, or a question."""
        script, config = self.script, self.script.config
        heard = script.listener.hear(position)
        believed = belief(script.listener.evidence(heard))
        last = position.turn + 1 == position.max_turns
        top = int(believed.argmax())
        if believed[top] >= (config.last_confidence if last else config.confidence):
            return script.guess(top, draw)
        if config.questions == "suspects":
            return script.question(self._suspects(believed, draw), draw)
        return script.question(self._halves(believed, heard, draw), draw)

    def _suspects(self, believed: np.ndarray, draw: Draw) -> list[str]:
        """Words drawn by the belief in them, but for the first: saying it may lose the game."""
        weights = believed.copy()
        weights[weights.argmax()] = 0.0
        count = min(self.script.config.words_per_question, int((weights > 0).sum()))
        if not count:
            return [self.script.associations.hints[0]]
        rows = draw.choice(len(weights), count, replace=False, p=weights / weights.sum())
        return [self.script.associations.words[row] for row in rows]

    def _halves(self, believed: np.ndarray, heard: Heard, draw: Draw) -> list[str]:
        """Hints with about an even chance of being associated with the word."""
        script = self.script
        distance = np.abs(believed @ script.listener.goes_with - 0.5)
        distance[[*heard.hints, *(column for asked, _ in heard.answers for column in asked)]] = 1.0
        distance[script.target_hints] = 1.0
        best = np.argsort(distance, kind="stable")[:MAX_QUESTIONS]
        best = best[distance[best] <= distance[best[0]] + QUESTION_MARGIN]
        count = min(script.config.words_per_question, len(best))
        columns = draw.choice(best, count, replace=False)
        return [script.associations.hints[column] for column in columns]


def _one(sentences: Sequence[str], draw: Draw) -> str:
    return sentences[int(draw.integers(len(sentences)))]
