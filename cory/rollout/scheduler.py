"""Episodes as coroutines: each prompt has a `play`, and what plays ask together is one batch.

Whoever can go on asks first; then all that one agent is asked in one role is one call of `speak`,
in the order of the episodes. A play may also await something else, as a tool: it joins a later
batch.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from cory.episode import Context, Episode, Prompt, Turn
from cory.rollout.interactions import Interaction, Speak

# turns of the loop in which nobody asks, after which all wait: what is asked within
# `asyncio.gather`, or by a coroutine that another one awaits, comes a few turns later
QUIET = 8
LOOK_S = 0.001  # between two looks while all plays wait for something outside
T = TypeVar("T")


@dataclass
class Utterance:
    """What an agent is asked to say in one episode."""

    episode: int
    agent: str
    role: str
    round: int
    context: Context
    turn: asyncio.Future[Turn]


@dataclass
class Speaker:
    """An agent, as the play of one episode knows it."""

    name: str
    episode: int
    turns: list[Turn]  # of the episode
    asked: list[Utterance]  # of all episodes, not yet answered

    async def say(self, context: Context, role: str, round: int = 0) -> Turn:
        """The agent's turn about a context, which becomes part of the episode."""
        turn: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self.asked.append(Utterance(self.episode, self.name, role, round, context, turn))
        said = await turn
        self.turns.append(said)
        return said


Cast = Mapping[str, Speaker]  # the agents by name
Play = Callable[[Prompt, Cast], Awaitable[None]]


class Speakers(defaultdict[str, Speaker]):
    """Makes a speaker of whoever a play names."""

    def __init__(self, episode: int, turns: list[Turn], asked: list[Utterance]) -> None:
        super().__init__()
        self.of_episode = episode, turns, asked

    def __missing__(self, name: str) -> Speaker:
        self[name] = speaker = Speaker(name, *self.of_episode)
        return speaker


def single_turn(agent: str) -> Play:
    """One agent answers the prompt once."""

    async def play(prompt: Prompt, cast: Cast) -> None:
        await cast[agent].say(prompt.opening, "solo")

    return play


def played(play: Play) -> Interaction:
    """The interaction in which every prompt is an episode of `play`."""
    return lambda prompts, speak: run_in_loop(play_all(play, prompts, speak))


def run_in_loop(coroutine: Coroutine[None, None, T]) -> T:
    """Run a coroutine to its end; in a thread where a loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


async def play_all(play: Play, prompts: Sequence[Prompt], speak: Speak) -> list[Episode]:
    """An episode per prompt, all side by side; the first exception of a play ends them all."""
    episodes = [Episode(prompt, []) for prompt in prompts]
    asked: list[Utterance] = []
    tasks = [
        asyncio.ensure_future(play(episode.prompt, Speakers(number, episode.turns, asked)))
        for number, episode in enumerate(episodes)
    ]
    try:
        while not all(task.done() for task in tasks):
            await _all_wait(asked)
            for task in tasks:
                if task.done():
                    task.result()  # raises what the play has raised
            answer(asked, speak)
            asked.clear()
        for task in tasks:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
    return episodes


async def _all_wait(asked: Sequence[Utterance]) -> None:
    """Return when every play has asked, has ended, or waits for something outside."""
    quiet = 0
    while quiet < QUIET:
        before = len(asked)
        await asyncio.sleep(0)
        quiet = quiet + 1 if len(asked) == before else 0
    if not asked:
        await asyncio.sleep(LOOK_S)


def answer(asked: Sequence[Utterance], speak: Speak) -> None:
    """Let every agent say what it is asked: a call for each agent, role and round."""
    batches: dict[tuple[str, str, int], list[Utterance]] = {}
    for one in sorted(asked, key=lambda one: one.episode):
        batches.setdefault((one.agent, one.role, one.round), []).append(one)
    for who, batch in batches.items():
        for one, turn in zip(batch, speak(*who, [one.context for one in batch]), strict=True):
            one.turn.set_result(turn)
