"""Episodes as coroutines: each prompt has a `play`, and what plays ask together is one batch.

Whoever can go on asks first; then all that an agent is asked, and all with adapters on one base, is
one call of a model, in the order of the episodes. A play may also await something else, as a tool:
it joins a later batch. What a server samples is sent at once, and no episode waits for another.
Plays run in the first process; the others take part in the batches.
"""

import asyncio
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NoReturn

import numpy as np

from cory import distributed
from cory.config import ConfigError, SamplingConfig
from cory.episode import Asked, Context, Episode, Prompt, Turn, absent_turn, turns_of
from cory.models.actor import Actor
from cory.models.policy import Policy
from cory.models.server import ServerGone
from cory.rewards import Reward
from cory.rollout.replay import Replay
from cory.runs.signals import Stopped, stopping
from cory.seeding import Key, uniforms

# turns of the loop in which nobody asks, after which all wait: what is asked within
# `asyncio.gather`, or by a coroutine that another one awaits, comes a few turns later
QUIET = 8
LOOK_S = 0.001  # between two looks while all plays wait for something outside
WAIT_S = 540.0  # for that, at most: other processes wait for the first one for ten minutes
# what the first process raises, and the others with it: the message's kind -> class
RAISED = {"gone": ServerGone, "refused": ConfigError, "stopped": Stopped}


class TooLong(ConfigError):
    """What an agent was shown does not fit its model's context; raised to the play that asked."""


@dataclass
class Utterance:
    agent: str
    asked: Asked
    turn: asyncio.Future[Turn]
    known: Turn | None = None  # in a replay: what was said


@dataclass
class Scoring:
    """Turns of an episode that its agents want scored before they go on."""

    episode: int
    prompt: Prompt
    turns: list[Turn]
    done: asyncio.Future[None]


Waiting = list[Utterance | Scoring]  # what the plays wait for


@dataclass
class Speaker:
    """An agent, as the play of one episode knows it."""

    name: str
    cast: "Cast"

    async def say(self, context: Context, role: str, round: int = 0, aside: bool = False) -> Turn:
        """The agent's turn about a context, which becomes part of the episode unless `aside`.

        Raises TooLong where the context does not fit, as far as only the model's server knows.
        """
        cast = self.cast
        asked = Asked(context, role, round, cast.prompt.id, cast.episode, cast.spoken[role])
        cast.spoken[role] += 1
        number, heard = next(cast.numbers), len(cast.said)
        known = None if cast.replay is None else cast.replay.reply(self.name, asked)
        try:
            said = await self._answer(asked, known)
        except TooLong:  # nothing was said: what is asked instead has the same numbers
            cast.spoken[role] -= 1
            raise
        if known is None:
            said.asked_in = heard
        if not aside:
            cast.said[number] = said
        return said

    async def _answer(self, asked: Asked, known: Turn | None) -> Turn:
        """Its turn: in the next batch, or from a server, which is asked at once.

        known: in a replay, what it has said; also that comes with the batch, lest branches of a
            play overtake each other
        """
        cast = self.cast
        actor, of = cast.actors[self.name], cast.of
        if known or not (isinstance(actor, Policy) and actor.served):
            turn: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
            cast.waiting.append(Utterance(self.name, asked, turn, known))
            return await turn
        limit = of.give_numbers(self.name, asked)
        of.under_way += 1
        try:
            return await actor.served.turn(actor, asked, limit, of.sampling)
        finally:
            of.under_way -= 1

    def fits(self, context: Context, limit: int) -> bool:
        """Whether a context leaves it room for a response of `limit` tokens, as far as is known."""
        return self.cast.actors[self.name].fits(context, limit)

    def absent(self, role: str, round: int = 0) -> None:
        """Its turn becomes part of the episode, which is over already."""
        self.cast.add(absent_turn(self.name, role, round))


class Cast(defaultdict[str, Speaker]):
    """The agents of one episode by name; whoever a play names is there."""

    def __init__(self, place: int, prompt: Prompt, waiting: Waiting, of: "RollOut") -> None:
        """place: of the episode among those of the roll-out `of`."""
        super().__init__()
        self.replay = of.replays[place] if of.replays else None
        self.episode = of.first + place if self.replay is None else self.replay.number
        self.prompt, self.waiting = prompt, waiting
        self.actors, self.iteration, self.key = of.actors, of.iteration, (*of.key, self.episode)
        self.of = of
        self.numbers, self.said = count(), dict[int, Turn]()  # in the order of asking
        self.spoken: Counter[str] = Counter()  # how often, by role

    def __missing__(self, name: str) -> Speaker:
        self[name] = speaker = Speaker(name, self)
        return speaker

    @property
    def turns(self) -> list[Turn]:
        return [self.said[number] for number in sorted(self.said)]

    def add(self, *turns: Turn) -> None:
        self.said.update(zip(self.numbers, turns, strict=False))

    async def score(self, turns: Sequence[Turn]) -> None:
        """Have the reward fill `turn.score`, of those turns that are not absent."""
        done = asyncio.get_running_loop().create_future()
        self.waiting.append(Scoring(self.episode, self.prompt, list(turns), done))
        await done


Play = Callable[[Prompt, Cast], Awaitable[None]]


def single_turn(agent: str) -> Play:
    async def play(prompt: Prompt, cast: Cast) -> None:
        await cast[agent].say(prompt.opening, "solo")

    return play


@dataclass
class RollOut:
    """Makes episodes of plays; every process calls it."""

    actors: Mapping[str, Actor]
    limit: int  # tokens of a response, at most
    sampling: SamplingConfig | None  # None: greedily
    key: Key  # of all random numbers; no other roll-out has it
    first: int = 0  # number of the first episode among all that have this key
    reward: Reward | None = None  # where agents are shown scores
    iteration: int = 0  # iterations done before it, for plays that change with them
    # called in every process before each batch; what it raises ends the roll-out
    before_each: Callable[[], None] = lambda: None
    limits: Mapping[str, int] = field(default_factory=dict)  # of actors with one of their own
    replays: Sequence[Replay] = ()  # one per prompt, where episodes are played again
    under_way: int = field(default=0, init=False)  # requests to servers

    @classmethod
    def of(
        cls,
        actors: Mapping[str, Actor],
        sampling: SamplingConfig,
        key: Key,
        stream: np.random.Generator | None = None,
        greedy: bool = False,
        **more: Any,
    ) -> "RollOut":
        """A roll-out with the limits of the settings, also of actors with a range of their own.

        stream: draws each uniformly from its range; None: the largest of it
        more: other fields
        """

        def limit_of(one: SamplingConfig) -> int:
            least, most = one.min_response_tokens, one.max_response_tokens
            return int(stream.integers(least, most + 1)) if stream else most

        limit, limits = limit_of(sampling), {}
        for name, actor in actors.items():
            own = getattr(actor, "sampling", None)
            if own and own.lengths != sampling.lengths:
                limits[name] = limit_of(own)
        return cls(actors, limit, None if greedy else sampling, key, limits=limits, **more)

    def __call__(self, play: Play, prompts: Sequence[Prompt]) -> list[Episode]:
        """An episode per prompt, all side by side; the first exception of a play ends them all."""
        policies = [actor for actor in self.actors.values() if isinstance(actor, Policy)]
        for policy in policies:
            if policy.served:
                policy.served.publish(policy)
        if distributed.rank() == 0:
            episodes = distributed.run_coroutine(self._lead(play, prompts))
        else:
            episodes = self._follow()
        for policy in policies:
            if policy.served:
                policy.served.check(policy, turns_of(episodes, policy.name), self.sampling)
        return episodes

    async def _lead(self, play: Play, prompts: Sequence[Prompt]) -> list[Episode]:
        """As `__call__`, in the first process."""
        async with AsyncExitStack() as connections:
            try:
                for actor in self.actors.values():
                    if isinstance(actor, Policy) and actor.served:
                        await connections.enter_async_context(actor.served.server.connected())
            except ConfigError as error:
                _fail(error)
            return await self._all(play, prompts)

    async def _all(self, play: Play, prompts: Sequence[Prompt]) -> list[Episode]:
        waiting: Waiting = []
        casts = [Cast(place, prompt, waiting, self) for place, prompt in enumerate(prompts)]
        tasks = [asyncio.ensure_future(play(cast.prompt, cast)) for cast in casts]
        moved = beaten = time.monotonic()
        ended = 0
        try:
            while not all(task.done() for task in tasks):
                await _all_wait(waiting)
                _raise_of(tasks)
                now_ended = sum(task.done() for task in tasks)
                now = time.monotonic()
                if waiting or now_ended > ended:
                    moved, ended = now, now_ended
                elif stopping():  # nothing of this roll-out is used
                    _fail(Stopped("left while episodes were waiting; they begin again"))
                elif now - moved > WAIT_S and not self.under_way:
                    waits = next(c for c, task in zip(casts, tasks, strict=True) if not task.done())
                    _fail(ConfigError(f"prompt {waits.prompt.id}: its play waits for {WAIT_S:g} s"))
                if now - beaten > distributed.BEAT_S:  # the other processes wait for a message
                    distributed.from_first(("wait", None))
                    beaten = now
                utterances = [one for one in waiting if isinstance(one, Utterance)]
                scorings = [one for one in waiting if isinstance(one, Scoring)]
                waiting.clear()
                if utterances:
                    self._answer(utterances)
                if scorings:
                    self._score(scorings)
            _raise_of(tasks)
        finally:
            for task in tasks:
                task.cancel()
        episodes = [Episode(cast.prompt, cast.turns) for cast in casts]
        distributed.from_first(("over", episodes))
        return episodes

    def _follow(self) -> list[Episode]:
        """Take part in the batches of the first process; the episodes that it made."""
        message: tuple[str, Any] = ("", None)
        while True:
            kind, told = distributed.from_first(message)
            if kind == "over":
                made: list[Episode] = told
                return made
            if kind in RAISED:
                raise RAISED[kind](told)
            if kind == "failed":
                raise RuntimeError(f"the first process failed:\n{told}")
            if kind == "speak":
                self._speak(told)
            elif kind == "score":
                assert self.reward is not None
                self.reward.score(told)

    def _answer(self, utterances: list[Utterance]) -> None:
        """Have agents say what they are asked in a batch; those of an episode hear in its order."""
        ordered = sorted(utterances, key=lambda one: one.asked.episode)
        batch: dict[str, list[Asked]] = defaultdict(list)
        for one in ordered:
            if one.known is None:
                batch[one.agent].append(one.asked)
        said: dict[str, Iterator[Turn | None]] = {}
        if batch:
            distributed.from_first(("speak", dict(batch)))
            said = {agent: iter(turns) for agent, turns in self._speak(batch).items()}
        for one in ordered:
            turn = one.known or next(said[one.agent])
            if turn is None:
                one.turn.set_exception(
                    TooLong(
                        f"{one.agent}: the server refuses prompt {one.asked.prompt} as too long, "
                        f"also in its shortest wording; with a smaller max_tokens it may fit"
                    )
                )
                continue
            one.turn.set_result(turn)

    def _speak(self, batch: dict[str, list[Asked]]) -> dict[str, Sequence[Turn | None]]:
        """The turns of what agents are asked together; None: its context is too long."""
        self.before_each()
        limits = {
            agent: max(self.give_numbers(agent, one) for one in asked)
            for agent, asked in batch.items()
        }
        return turns_together(self.actors, batch, limits, self.sampling)

    def give_numbers(self, agent: str, asked: Asked) -> int:
        """Give what an agent is asked its key and random numbers; the limit of its response."""
        limit = self.limits.get(agent, self.limit)
        key = (*self.key, asked.episode, asked.role, asked.turn, *asked.another)
        asked.key = "/".join(map(str, key))
        if self.sampling is not None:
            asked.uniforms = uniforms(key, limit)
        return limit

    def _score(self, scorings: list[Scoring]) -> None:
        assert self.reward is not None
        ordered = sorted(scorings, key=lambda one: one.episode)
        episodes = [Episode(one.prompt, one.turns) for one in ordered]
        distributed.from_first(("score", episodes))
        self.reward.score(episodes)
        for one in ordered:
            one.done.set_result(None)


def turns_together(
    actors: Mapping[str, Actor],
    batch: Mapping[str, Sequence[Asked]],
    limits: Mapping[str, int],
    sampling: SamplingConfig | None,
) -> dict[str, Sequence[Turn | None]]:
    """The turns of each agent, as of `Actor.turns`, from as few passes as they take."""
    alike: dict[Hashable, dict[str, Policy]] = defaultdict(dict)
    for agent in batch:
        one = actors[agent]
        if isinstance(one, Policy) and one.base and not (one.served or one.samples_with_dropout):
            alike[id(one.base), limits[agent], str(one.own_sampling(sampling))][agent] = one
    turns: dict[str, Sequence[Turn | None]] = {}
    for group in alike.values():
        (first, *_), rows = group.values(), [len(batch[agent]) for agent in group]
        size = first.responses_at_once * distributed.count()
        if -(-sum(rows) // size) < sum(-(-own // size) for own in rows):
            limit = limits[next(iter(group))]
            shown = [policy.shown(batch[agent], limit) for agent, policy in group.items()]
            said = iter(
                first.sampled(
                    [one for agent in group for one in batch[agent]],
                    [ids for _, own in shown for ids in own],
                    limit,
                    first.own_sampling(sampling),
                    [policy.adapter for agent, policy in group.items() for _ in batch[agent]],
                )
            )
            for (agent, policy), texts in zip(group.items(), shown, strict=True):
                each = zip(batch[agent], *texts, strict=True)
                turns[agent] = [policy.turn(*own, next(said)) for own in each]
    return {
        agent: turns.get(agent) or actors[agent].turns(asked, limits[agent], sampling)
        for agent, asked in batch.items()
    }


def _raise_of(tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        error = task.exception() if task.done() else None
        if error is not None:
            _fail(error)


def _fail(error: BaseException) -> NoReturn:
    kind = next((name for name, of in RAISED.items() if isinstance(error, of)), "failed")
    told = "".join(traceback.format_exception(error)) if kind == "failed" else str(error)
    distributed.from_first((kind, told))
    raise error


async def _all_wait(waiting: Waiting) -> None:
    """Return when every play has asked, has ended, or waits for something outside."""
    quiet = 0
    while quiet < QUIET:
        before = len(waiting)
        await asyncio.sleep(0)
        quiet = quiet + 1 if len(waiting) == before else 0
    if not waiting:
        await asyncio.sleep(LOOK_S)
