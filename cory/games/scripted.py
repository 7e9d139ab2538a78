"""Rule-based players of word games: a hinter and a guesser."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from cory.config import require
from cory.config.task import ScriptedConfig
from cory.games import GameRules
from cory.games.associations import Associations, Heard, Listener, belief
from cory.games.state import GameState

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
