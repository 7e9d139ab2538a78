"""Players that follow a script: one gives hints, the other asks and guesses; and careless ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from cory.config.checks import require
from cory.config.game import ScriptedConfig
from cory.games import GameRules
from cory.games.associations import Associations
from cory.games.listener import Heard, Listener, belief
from cory.games.state import GameState

Draw = np.random.Generator

CONSIDERED = 60  # of the best hints, which are weighed against each other
QUESTIONS = 5  # of the best, one is drawn
AS_GOOD = 0.05  # ... that come as near to an even chance of a yes as the best does


class RuleBasedPlayer(Protocol):
    """Somebody who can speak next; nothing inherits from it."""

    def say(self, position: GameState, draw: np.random.Generator) -> str:
        """What it says."""
        ...


class Script:
    """What scripted players share: their sentences, and what they know of words."""

    def __init__(self, config: ScriptedConfig, associations: Associations, game: GameRules) -> None:
        self.config = config
        self.associations = associations
        self.game = game
        self.listener = Listener(config, associations, game.knows)
        self._legal: dict[tuple[str, int], bool] = {}
        # columns of hints that are words of the list
        self.named = [
            column for hint, column in associations.columns.items() if hint in associations.rows
        ]

    def row(self, word: str) -> int:
        """The row of a target word."""
        words = self.associations.words
        require(word in words, f"word '{word}': scripted players know only the task's own words")
        return words.index(word)

    def usable(self, position: GameState, heard: Heard) -> list[int]:
        """New hints for the word, best first: those that go with it; any, once these run out."""
        row = self.row(position.word)
        order = np.argsort(-self.associations.lift[row], kind="stable")
        good = self.listener.goes_with[row, order]
        for part in (order[good], order[~good]):
            new = (column for column in part.tolist() if column not in heard.hints)
            found = [column for column in new if self._may_name(position, column)]
            if found:
                return found
        return []

    def _may_name(self, position: GameState, column: int) -> bool:
        """Whether the hint is no form of the word; asked again and again, so it is kept."""
        key = (position.word, column)
        if key not in self._legal:
            self._legal[key] = self.game.legal(position, self.associations.hints[column])
        return self._legal[key]

    def hint(self, position: GameState, columns: Sequence[int], yes: bool, draw: Draw) -> str:
        """A sentence with these hints, or the hints alone where every sentence has the word."""
        hints = self.config.separator.join(self.associations.hints[column] for column in columns)
        answer = self.config.answers[yes]
        said = [text.format(hints=hints, answer=answer) for text in self.config.hint]
        return _one([text for text in said if self.game.legal(position, text)] or [hints], draw)

    def question(self, words: Sequence[str], draw: Draw) -> str:
        """A question about these words."""
        return _one(self.config.ask, draw).format(words=self.config.separator.join(words))

    def guess(self, row: int, draw: Draw) -> str:
        """A guess."""
        return _one(self.config.guess, draw).format(word=self.associations.words[row])


class Hinter:
    """Knows the word, and names words that go with it by what they make a listener believe.

    Mostly that is: in the word. With guile it is: in the word as much as can be, and in another
    one more. A wrong guess is then near, or a question about the word, which is a slip.
    """

    def __init__(self, script: Script) -> None:
        self.script = script

    def say(self, position: GameState, draw: Draw) -> str:
        """The next hints, and whether the last question was about words that go with the word."""
        script, config = self.script, self.script.config
        heard = script.listener.hear(position)
        row = script.row(position.word)
        usable = script.usable(position, heard)[:CONSIDERED]
        misleads = bool(draw.random() < config.guile)
        chosen: list[int] = []
        while usable and len(chosen) < config.hints_per_turn:
            evidence = script.listener.evidence(heard, chosen)
            chosen.append(usable.pop(self._best(evidence, usable, row, misleads)))
        yes = bool(script.listener.goes_with[row, heard.asked].any())
        return script.hint(position, chosen, yes, draw)

    def _best(self, evidence: np.ndarray, usable: list[int], row: int, misleads: bool) -> int:
        """Which of the usable hints to name next."""
        lift = self.script.associations.lift[:, usable]
        after = belief(evidence[:, None] + self.script.config.trust * lift)  # (W, hints)
        hidden = after.argmax(axis=0) != row
        if misleads and hidden.any():
            return int(np.where(hidden, after[row], -1.0).argmax())
        return int(after[row].argmax())


class RandomHinter:
    """Names words that go with the word in any order, and says yes or no at random."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def say(self, position: GameState, draw: Draw) -> str:
        """The next hints."""
        script = self.script
        usable = script.usable(position, script.listener.hear(position))
        count = min(script.config.hints_per_turn, len(usable))
        chosen = draw.choice(usable, count, replace=False).tolist() if count else []
        return script.hint(position, chosen, bool(draw.random() < 0.5), draw)


class Guesser:
    """Weighs all words of the list by what it heard; guesses one when it believes in it enough."""

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
        """Words drawn by its belief in them, but for the one it would guess: to say it may lose."""
        left = believed.copy()
        left[left.argmax()] = 0.0
        count = min(self.script.config.words_per_question, int((left > 0).sum()))
        if not count:
            return [self.script.associations.hints[0]]
        rows = draw.choice(len(left), count, replace=False, p=left / left.sum())
        return [self.script.associations.words[row] for row in rows]

    def _halves(self, believed: np.ndarray, heard: Heard, draw: Draw) -> list[str]:
        """Hints, each of which goes with the word about as likely as not."""
        script = self.script
        odds = np.abs(believed @ script.listener.goes_with - 0.5)
        odds[[*heard.hints, *(column for asked, _ in heard.answers for column in asked)]] = 1.0
        odds[script.named] = 1.0
        best = np.argsort(odds, kind="stable")[:QUESTIONS]
        best = best[odds[best] <= odds[best[0]] + AS_GOOD]
        count = min(script.config.words_per_question, len(best))
        columns = draw.choice(best, count, replace=False)
        return [script.associations.hints[column] for column in columns]


class RandomGuesser:
    """Asks about any words of the list, and guesses any word in the last turn."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def say(self, position: GameState, draw: Draw) -> str:
        """A question, or at last a guess."""
        script = self.script
        words = script.associations.words
        if position.turn + 1 == position.max_turns:
            return script.guess(int(draw.integers(len(words))), draw)
        count = min(script.config.words_per_question, len(words))
        rows = draw.choice(len(words), count, replace=False)
        return script.question([words[row] for row in rows], draw)


def _one(sentences: Sequence[str], draw: Draw) -> str:
    return sentences[int(draw.integers(len(sentences)))]
