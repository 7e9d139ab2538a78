"""A reward whose scores debaters are shown: no answer is scored a second time."""

from cory.episode import Episode
from cory.rewards import Reward


class ScoredOnce:
    """Leaves turns alone that have a score.

    For rewards that score a turn by itself, whatever the others of its episode are.
    """

    def __init__(self, reward: Reward) -> None:
        self.reward = reward

    def score(self, episodes: list[Episode]) -> None:
        """As `Reward`; of an episode only the turns without a score are scored."""
        left = [
            Episode(episode.prompt, [t for t in episode.turns if t.score is None and not t.absent])
            for episode in episodes
        ]
        left = [episode for episode in left if episode.turns]
        if left:
            self.reward.score(left)
