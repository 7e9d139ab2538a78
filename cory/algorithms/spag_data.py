"""Training data from finished games: which utterances are learnt, in which context and weight."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cory.config import OfflineConfig
from cory.episode import Metrics
from cory.functional.losses import role_weights
from cory.games.state import GameState
from cory.games.transcript import FinishedGame
from cory.models.tokenization import Texts
from cory.rewards.game_outcome import GameOutcome
from cory.rollout.game_store import sampled_ids
from cory.rollout.games import fitting
from cory.tasks.game import GameTask
from cory.trainers.offline import OfflineExample

STYLE = 3  # begins the keys of the random numbers for prompts' paraphrases


@dataclass(frozen=True)
class TrainingSelection:
    """Selects the utterances to learn from games."""

    config: OfflineConfig
    task: GameTask
    reward: GameOutcome
    texts: Texts
    fits: Callable[[str], bool]  # whether a context is not too long
    credit: Callable[[int], list[float]]  # turns of a role -> share of its reward, per utterance
    turn_weight: Callable[[int], float]  # turns of a role -> weight of each utterance beside that
    kl_share: Callable[[int], float]  # turns of a role -> share of each utterance's KL, beside both
    threshold: float  # a role is learnt from in games with a reward above this
    seed: int

    def examples(
        self, games: Sequence[FinishedGame], epoch: int, same_tokens: bool
    ) -> tuple[list[list[OfflineExample]], Metrics]:
        """The examples of each game, and metrics of the selection.

        same_tokens: the games' token ids are this model's
        """
        learnt = Counter(role for played in games for role in self._roles(played))
        weights = dict.fromkeys(learnt, 1.0)
        if self.config.role_weights:
            weights = role_weights(learnt)
        selected: list[list[OfflineExample]] = []
        long = 0
        for number, played in enumerate(games):
            key = (self.seed, STYLE, epoch, number)
            own = list(self._game_examples(played, key, weights, same_tokens))
            selected.append([e for e in own if len(e.response_ids) <= self.longest])
            long += len(own) - len(selected[-1])
        count = sum(map(len, selected))
        if self.config.average == "game" and count:
            share = count / sum(learnt.values())  # from a mean over utterances to one over games
            selected = [[replace(e, weight=e.weight * share) for e in own] for own in selected]
        metrics = {f"game/weight_{role}": weight for role, weight in weights.items()}
        return selected, metrics | {"game/learnt": float(count), "game/too_long": float(long)}

    @property
    def longest(self) -> int:
        """The most tokens of an utterance."""
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

    def _game_examples(
        self,
        played: FinishedGame,
        key: tuple[int, ...],
        weights: Mapping[str, float],
        same_tokens: bool,
    ) -> Iterator[OfflineExample]:
        """The winners' utterances in a game, but empty ones."""
        outcome = self.reward.settled(played.outcome)
        sampled = sampled_ids(played) if same_tokens else None
        for role in self._roles(played):
            places = [place for place, said in enumerate(played.utterances) if said.role == role]
            worth, turns = self.reward.worth(outcome, role), len(places)
            weight = weights[role] * self.turn_weight(turns)
            for place, part in zip(places, self.credit(turns), strict=True):
                text = played.utterances[place].text
                if not text:
                    continue
                state = GameState(played.word, played.max_turns, played.utterances[:place])
                own = None if sampled is None else sampled[place]
                yield OfflineExample(
                    array("i", self.texts.context_ids(self._context(state, role, (*key, place)))),
                    array("i", own or self.texts.answer_ids(text)),
                    role,
                    weight,
                    worth * part,
                    self.kl_share(turns),
                )

    def _context(self, state: GameState, role: str, key: tuple[int, ...]) -> str:
        """The role's prompt: as it was played, or a paraphrase drawn by `key`."""
        style = None
        if self.config.varied_prompts:
            style = int(np.random.SeedSequence(key).generate_state(1)[0])
        return fitting(self.task.wording, self.fits, state, role, style)
