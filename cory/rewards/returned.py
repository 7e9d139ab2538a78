"""No reward but what a play returns."""

from typing import Any

from cory.config import ConfigError, ReturnedConfig
from cory.episode import Episode


class Returned:
    """Stands where `algorithm.play` returns the rewards; refuses to score."""

    def __init__(self, config: ReturnedConfig, task: Any, device: Any) -> None:
        pass

    def score(self, episodes: list[Episode]) -> None:
        """ConfigError: nobody has returned any."""
        raise ConfigError("reward=returned: nothing returns rewards; choose another reward")
