"""Episodes that are played again with one utterance replaced: difference rewards.

The credit of utterance i is R - R_i, R the sum of all scores of its episode, R_i that of the replay
in which something else stands for i: an empty reply, the wonderful life utility of Wolpert and
Tumer (2001); or another sample of its policy, a sample of COMA's advantage (Foerster et al., 2018).
What was said to the same context is said again, and the rest sampled with the episode's own random
numbers. So R_i does not depend on i: the expected gradient is that of the sum, what is taken off is
noise.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from cory.episode import RECORDED, Asked, Episode, Turn
from cory.models.actor import Silent

Place = tuple[str, int]  # of an utterance in its episode: role, and how often it had spoken before


@dataclass(frozen=True)
class Replay:
    """How one episode is played again. Its play must do the same when it hears the same."""

    number: int  # of the episode in its roll-out
    said: dict[Place, Turn]
    place: Place | None = None  # of the utterance that is replaced; None: of none
    muted: bool = False  # what takes its place is an empty reply, and not another sample

    def reply(self, agent: str, asked: Asked) -> Turn | None:
        """What an agent says to what it is asked; None: it is sampled."""
        place = asked.role, asked.turn
        if place == self.place:
            if self.muted:
                return Silent(agent).turns([asked], 0, None)[0]
            asked.another = ("another",)
            return None
        known = self.said.get(place)
        if known is None or (known.agent, known.asked) != (agent, asked.context):
            return None
        # without what rewards and the credit rule have found of it
        plain = replace(known, score=None, right=None, bonus=0.0, flawed=False, credit=None)
        return replace(plain, parts={}, extra={}, asked_in=RECORDED)


def replays_of(
    episode: Episode, number: int, learners: Collection[str], muted: bool
) -> Iterator[tuple[Turn, Replay]]:
    """Each utterance of those that learn, and the replay in which something else stands for it.

    number: of the episode; muted: as of `Replay`
    """
    spoken: Counter[str] = Counter()
    places: dict[Place, Turn] = {}
    for turn in episode.turns:
        places[turn.role, spoken[turn.role]] = turn
        spoken[turn.role] += 1
    for place, turn in places.items():
        if turn.agent in learners:
            yield turn, Replay(number, places, place, muted)
