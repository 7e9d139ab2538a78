"""A Bayesian listener: the belief in each target word, from associations and the utterances."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cory.config.game import ScriptedConfig
from cory.games.associations import Associations
from cory.games.inflection import tokens
from cory.games.state import GameState

# odds that an answer agrees with the associations: other players may have different ones
AGREES = 9.0


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
