"""What is learnt from games that are over: whose words, shown what, weighed how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cory.config import OfflineConfig
from cory.episode import Metrics
from cory.functional.offline import game_share, role_weights
from cory.games.state import GameState
from cory.games.transcript import FinishedGame
from cory.models.tokenization import Codec
from cory.rewards.game_outcome import GameOutcome
from cory.rollout.game_store import sampled_ids
from cory.rollout.self_play import fitting
from cory.tasks.game import GameTask
from cory.trainers.offline import Utterance

STYLE = 3  # begins the keys of prompts' paraphrases


@dataclass(frozen=True)
class TrainingSelection:
    """Turns games into utterances to learn."""

    config: OfflineConfig
    task: GameTask
    reward: GameOutcome
    codec: Codec
    credit: Callable[[int], list[float]]  # T of a role -> worth of each utterance, in whole games
    turn_weight: Callable[[int], float]  # T of a role -> weight of each utterance beside that
    threshold: float  # a role is learnt from in games that were worth more than this to it
    seed: int

    def of(
        self, games: Sequence[FinishedGame], epoch: int, same_tokens: bool
    ) -> tuple[list[list[Utterance]], Metrics]:
        """What is learnt from each game, and what is worth logging about the choice.

        same_tokens: the games' token ids are this model's
        """
        learnt = Counter(role for played in games for role in self._roles(played))
        weights = dict.fromkeys(learnt, 1.0)
        if self.config.role_weights:
            weights = role_weights(learnt)
        found: list[list[Utterance]] = []
        long = 0
        for number, played in enumerate(games):
            key = (self.seed, STYLE, epoch, number)
            own = list(self._said(played, key, weights, same_tokens))
            found.append([said for said in own if len(said.response_ids) <= self.longest])
            long += len(own) - len(found[-1])
        count = sum(map(len, found))
        if self.config.average == "game" and count:
            share = game_share(count, sum(learnt.values()))
            found = [[replace(said, weight=said.weight * share) for said in own] for own in found]
        metrics = {f"game/weight_{role}": weight for role, weight in weights.items()}
        return found, metrics | {"game/learnt": float(count), "game/too_long": float(long)}

    @property
    def longest(self) -> int:
        """Tokens that an utterance may have."""
        return self.config.sampling.max_response_tokens

    def _roles(self, played: FinishedGame) -> list[str]:
        """The roles that are learnt from in a game."""
        outcome = self.reward.settled(played.outcome)
        spoke = {said.role for said in played.utterances}
        return [
            role
            for role in self.task.game.roles
            if outcome.valid and role in spoke and self.reward.worth(outcome, role) > self.threshold
        ]

    def _said(
        self,
        played: FinishedGame,
        key: tuple[int, ...],
        weights: Mapping[str, float],
        same_tokens: bool,
    ) -> Iterator[Utterance]:
        """All that a game's winners said, but nothing where they said nothing."""
        outcome = self.reward.settled(played.outcome)
        sampled = sampled_ids(played) if same_tokens else None
        for role in self._roles(played):
            places = [place for place, said in enumerate(played.utterances) if said.role == role]
            worth, turns = self.reward.worth(outcome, role), len(places)
            weight = weights[role] * self.turn_weight(turns)
            for place, part in zip(places, self.credit(turns), strict=True):
                text = played.utterances[place].text
                if not text:
                    continue  # nobody is to learn to say nothing
                position = GameState(played.word, played.max_turns, played.utterances[:place])
                own = None if sampled is None else sampled[place]
                yield Utterance(
                    self.codec.context_ids(self._context(position, role, (*key, place))),
                    own or self.codec.response_ids(text),
                    role,
                    weight,
                    worth * part,
                )

    def _context(self, position: GameState, role: str, key: tuple[int, ...]) -> str:
        """What the role is shown: as it was played, or in other words drawn for it."""
        style = None
        if self.config.varied_prompts:
            style = int(np.random.SeedSequence(key).generate_state(1)[0])
        return fitting(self.task.wording, self.codec.fits, position, role, style)
