"""Rule-based players of word games, and the associations they know.

Words are associated that share sentences more often than by chance. A Bayesian listener: the belief
in each target word, from associations and what was said.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice

import numpy as np

from cory.config.task import ScriptedConfig
from cory.games.rules import GameRules, GameState
from cory.games.words import LETTERS, inflected, plain_text, sentences, tokens

# pseudo-count: sentences with a word, added to the data, in which each hint occurs as often as by
# chance; so that a few coincidences of a rare word do not look like an association
SMOOTHING = 5.0
# odds that an answer agrees with the associations: other players may have different ones
AGREES = 9.0
MAX_HINTS = 60  # best hints that are compared with each other
MAX_QUESTIONS = 5  # best questions that one is drawn from
# how much farther from an even chance of a yes these may be than the best question
QUESTION_MARGIN = 0.05

Draw = np.random.Generator


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

    excluded: words that are never hints
    """
    parts = map(tokens, words)
    joined = {" ".join(part): "".join(part) for part in parts if len(part) > 1}
    corpus = sentences(_join(text.lower(), joined) for text in texts)
    common = Counter(word for sentence in corpus for word in sentence)
    hints = sorted(
        (word for word in common if len(word) > 2 and word not in excluded),
        key=lambda word: (-common[word], word),
    )[:hint_words]
    rows = _rows(words)
    columns = {hint: column for column, hint in enumerate(hints)}
    # sentences with a target word and a hint, with a target word, a hint
    met = np.zeros((len(words), len(columns)), dtype=np.int64)
    with_word, with_hint = np.zeros(len(words)), np.zeros(len(columns))
    for sentence in corpus:
        distinct = set(sentence)
        of_words = list({rows[word] for word in distinct if word in rows})
        of_hints = [columns[word] for word in distinct if word in columns]
        with_hint[of_hints] += 1
        with_word[of_words] += 1
        met[np.ix_(of_words, of_hints)] += 1
    by_chance = with_hint / max(len(corpus), 1)
    share = (met + SMOOTHING * by_chance) / (with_word[:, None] + SMOOTHING)
    lift = np.log(share / by_chance).astype(np.float32)
    return Associations(
        tuple(words), tuple(hints), lift, met.astype(np.int32), rows, columns, joined
    )


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
        rows.setdefault("".join(tokens(word)), row)
    for row, word in enumerate(words):
        for form in sorted(inflected(word)):
            rows.setdefault("".join(form), row)
    return rows


@dataclass
class Heard:
    """The evidence about the target word in the utterances so far."""

    hints: list[int]  # columns of hints given by the role that knows the word, each once
    answers: list[tuple[list[int], bool]]  # columns of a question, and its answer
    ruled_out: list[int]  # rows of words that were said without ending the game
    asked: list[int]  # columns of the last question, if it is not answered yet


class Script:
    """What scripted players say: `hint` who knows the word, `ask` who does not.

    Naive Bayes: hints are taken as independent of each other, given the word.
    """

    def __init__(self, config: ScriptedConfig, associations: Associations, game: GameRules) -> None:
        self.config = config
        self.associations = associations
        self.game = game
        # (W, H) bool: whether a hint is associated with a word
        self.goes_with = (associations.met >= config.least_sentences) & (
            associations.lift >= config.least_lift
        )
        self.replies = [tokens(answer)[:1] for answer in config.answers]  # how no and yes begin
        # columns of hints that are target words themselves
        self.target_hints = [
            column for hint, column in associations.columns.items() if hint in associations.rows
        ]

    def hear(self, position: GameState) -> Heard:
        heard = Heard([], [], [], [])
        for utterance in position.utterances:
            rows, columns = self.associations.read(utterance.text)
            heard.ruled_out += rows
            if utterance.role != self.game.knows:
                heard.asked = columns
                continue
            heard.hints += [column for column in columns if column not in heard.hints]
            first = tokens(utterance.text)[:1]
            if heard.asked and first in self.replies:
                heard.answers.append((heard.asked, first == self.replies[True]))
            heard.asked = []
        return heard

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

    def hint(self, position: GameState, draw: Draw) -> str:
        """The next hints, and yes or no to the last question by the associations.

        Mostly hints with the highest belief in the word. With guile: with the highest belief in it
        among those after which another word is believed in more, so that a wrong guess is near, or
        a question that says the word. The hints alone where every sentence breaks the rules.
        """
        config, heard = self.config, self.hear(position)
        row = self.associations.words.index(position.word)
        usable = self.usable(position, row, heard)
        misleads = bool(draw.random() < config.guile)
        chosen: list[int] = []
        while usable and len(chosen) < config.hints_per_turn:
            evidence = self.evidence(heard, chosen)
            chosen.append(usable.pop(self._best(evidence, usable, row, misleads)))
        yes = bool(self.goes_with[row, heard.asked].any())
        hints = config.separator.join(self.associations.hints[column] for column in chosen)
        texts = [text.format(hints=hints, answer=config.answers[yes]) for text in config.hint]
        legal = [text for text in texts if self.game.legal(position, text)]
        return str(draw.choice(legal or [hints]))

    def usable(self, position: GameState, row: int, heard: Heard) -> list[int]:
        """The best new legal hints, best first; unassociated ones only after all others."""
        order = np.argsort(-self.associations.lift[row], kind="stable")
        associated = self.goes_with[row, order]
        for part in (order[associated], order[~associated]):
            new = (column for column in part.tolist() if column not in heard.hints)
            names = self.associations.hints
            legal = (column for column in new if self.game.legal(position, names[column]))
            if hints := list(islice(legal, MAX_HINTS)):
                return hints
        return []

    def _best(self, evidence: np.ndarray, usable: list[int], row: int, misleads: bool) -> int:
        """Position among the usable hints of the one to name next."""
        lift = self.associations.lift[:, usable]
        after = belief(evidence[:, None] + self.config.trust * lift)  # (W, hints)
        hidden = after.argmax(axis=0) != row
        if misleads and hidden.any():
            return int(np.where(hidden, after[row], -1.0).argmax())
        return int(after[row].argmax())

    def ask(self, position: GameState, draw: Draw) -> str:
        """A guess, once the highest belief in a target word is enough, or a question."""
        config, heard = self.config, self.hear(position)
        believed = belief(self.evidence(heard))
        last = len(position.utterances) // 2 + 1 == position.max_turns
        top = int(believed.argmax())
        if believed[top] >= (config.last_confidence if last else config.confidence):
            return str(draw.choice(config.guess)).format(word=self.associations.words[top])
        if config.questions == "suspects":
            words = self._suspects(believed, draw)
        else:
            words = self._halves(believed, heard, draw)
        return str(draw.choice(config.ask)).format(words=config.separator.join(words))

    def _suspects(self, believed: np.ndarray, draw: Draw) -> list[str]:
        """Words drawn by the belief in them, but for the first: saying it may lose the game."""
        weights = believed.copy()
        weights[weights.argmax()] = 0.0
        count = min(self.config.words_per_question, int((weights > 0).sum()))
        if not count:
            return [self.associations.hints[0]]
        rows = draw.choice(len(weights), count, replace=False, p=weights / weights.sum())
        return [self.associations.words[row] for row in rows]

    def _halves(self, believed: np.ndarray, heard: Heard, draw: Draw) -> list[str]:
        """Hints with about an even chance of being associated with the word."""
        distance = np.abs(believed @ self.goes_with - 0.5)
        distance[[*heard.hints, *(column for asked, _ in heard.answers for column in asked)]] = 1.0
        distance[self.target_hints] = 1.0
        best = np.argsort(distance, kind="stable")[:MAX_QUESTIONS]
        best = best[distance[best] <= distance[best[0]] + QUESTION_MARGIN]
        count = min(self.config.words_per_question, len(best))
        columns = draw.choice(best, count, replace=False)
        return [self.associations.hints[column] for column in columns]


def belief(evidence: np.ndarray) -> np.ndarray:
    """Softmax over the first axis; uniform where every word is ruled out (-inf)."""
    evidence = np.where(np.isfinite(evidence.max(axis=0)), evidence, 0.0)
    odds = np.exp(evidence - evidence.max(axis=0))
    return np.asarray(odds / odds.sum(axis=0))
