"""Games of TextArena as a team's play: `algorithm.play=cory.rollout.textarena:play`.

`pip install ".[textarena]"`. A prompt has the columns `game`, as Nim-v0, and `seed`, which says how
it begins; its text is not shown. The agents play in their order, each paid its own result.
"""

import textarena  # type: ignore[import-not-found,unused-ignore]  # an extra

from cory.episode import Prompt
from cory.rollout.team import Team


async def play(prompt: Prompt, team: Team) -> dict[str, float]:
    """One game; what the agents see is TextArena's own text, all that was said so far included."""
    agents = list(team)
    game = textarena.make(prompt.columns["game"])
    game.reset(num_players=len(agents), seed=int(prompt.columns["seed"]))
    over = False
    while not over:
        player, seen = game.get_observation()
        move = await agents[player].say(str(seen))
        over, _ = game.step(move.text)
    results, _ = game.close()
    return {agent.name: float(results[n]) for n, agent in enumerate(agents) if agent.turns}
