"""What a listener that knows only associations makes of a game: how likely each word is the one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cory.config.game import ScriptedConfig
from cory.games.associations import Associations
from cory.games.inflection import tokens
from cory.games.state import GameState

# odds that an answer agrees with the associations: another player may see things otherwise
AGREES = 9.0


@dataclass(frozen=True)
class Heard:
    """What has been said, as far as it tells about the word."""

    hints: list[int]  # columns that the role that knows the word has named
    answers: list[tuple[list[int], bool]]  # columns that were asked about, and the answer
    ruled_out: list[int]  # rows of words that were said and did not end the game
    asked: list[int]  # columns of the last question, where it has not been answered


class Listener:
    """Takes hints to be independent of each other, given the word."""

    def __init__(self, config: ScriptedConfig, associations: Associations, knows: str) -> None:
        self.config = config
        self.associations = associations
        self.knows = knows
        # (W, H) bool
        self.goes_with = (associations.met >= config.least_sentences) & (
            associations.lift >= config.least_lift
        )

    def hear(self, position: GameState) -> Heard:
        """What the utterances so far say."""
        hints: list[int] = []
        answers: list[tuple[list[int], bool]] = []
        ruled_out: list[int] = []
        asked: list[int] = []
        for said in position.utterances:
            rows, columns = self.associations.read(said.text)
            ruled_out += rows
            if said.role != self.knows:
                asked = columns
                continue
            hints += columns
            answer = self.answer(said.text)
            if asked and answer is not None:
                answers.append((asked, answer))
            asked = []
        return Heard(list(dict.fromkeys(hints)), answers, ruled_out, asked)

    def answer(self, text: str) -> bool | None:
        """Whether a text begins with yes or with no; None: with neither."""
        first = tokens(text)[:1]
        no, yes = (tokens(answer)[:1] for answer in self.config.answers)
        return first == yes if first in (no, yes) else None

    def evidence(self, heard: Heard, besides: Sequence[int] = ()) -> np.ndarray:
        """(W,) log of the belief in each word, up to a constant; besides: hints still to come."""
        hints = [*heard.hints, *besides]
        sums = self.config.trust * self.associations.lift[:, hints].sum(axis=1)
        for asked, yes in heard.answers:
            sums = sums + np.log(AGREES) * (self.goes_with[:, asked].any(axis=1) == yes)
        named = self.associations.read(" ".join(self.associations.hints[c] for c in besides))[0]
        sums[[*heard.ruled_out, *named]] = -np.inf
        return np.asarray(sums)


def belief(evidence: np.ndarray) -> np.ndarray:
    """Shares that sum to one along the first axis; all alike where every word is ruled out."""
    highest = evidence.max(axis=0)
    odds = np.exp(evidence - np.where(np.isfinite(highest), highest, 0.0))
    odds = np.where(np.isfinite(highest), odds, 1.0)
    return np.asarray(odds / odds.sum(axis=0))
