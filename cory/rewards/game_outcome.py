"""The reward of a game: 1 for winners, -1 for losers, 0 for both in a tie."""

from collections.abc import Sequence
from typing import Any

from cory.config import ConfigError, GameOutcomeConfig
from cory.games.rules import BROKE_RULES, GameResult, GameRules
from cory.rewards import Reward, Row
from cory.tasks.game import GameTask


class GameOutcome(Reward):
    """Rewards each role by the result of the game (Cheng et al., 3.1 and App. B).

    Games are no episodes: it is asked for the result's worth, not for scores of turns.
    """

    def __init__(self, config: GameOutcomeConfig, task: GameTask, device: Any, run: Any) -> None:
        self.config = config
        self.game: GameRules = task.game

    def scores(self, rows: Sequence[Row]) -> list[float]:
        """ConfigError: it scores games."""
        raise ConfigError("reward=game_outcome scores word games alone; choose another reward")

    def settled(self, outcome: GameResult) -> GameResult:
        """The result by `reward.broken_rules`: the role that broke the rules loses, or no role."""
        if outcome.reason != BROKE_RULES.reason or self.config.broken_rules == "ignored":
            return outcome
        # only the role that knows the word can break the rules: by saying it
        others = tuple(role for role in self.game.roles if role != self.game.knows)
        return GameResult(others, outcome.reason, valid=True)

    def worth(self, outcome: GameResult, role: str) -> float:
        """R of a role: 1, -1, or 0 without winners."""
        outcome = self.settled(outcome)
        if not outcome.winners:
            return 0.0
        return 1.0 if role in outcome.winners else -1.0
