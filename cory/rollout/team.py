"""Functions of the user's: a team's episode, `async def play(prompt, team)`, and credit rules."""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from cory import distributed
from cory.config import ConfigError, TeamConfig, nearest, require
from cory.episode import Context, Episode, Prompt, Turn, are_messages
from cory.rewards.python_function import as_number
from cory.rollout.scheduler import Cast, Play, TooLong
from cory.user_function import RAISED, UserFunction, load_function, told

CreditRule = Callable[[list[Episode]], None]  # fills turn.credit of every turn
RETURNS = "a number for each agent, or a list with one for each of its utterances, or nothing"


class Team:
    """The agents of one episode: `team.solver`, or `team["solver"]`; iterating gives them all.

    `iteration`: iterations of training before this one; 0 for the agents of a finished run.
    """

    def __init__(self, cast: Cast, config: TeamConfig) -> None:
        self.iteration = cast.iteration
        self._agents = {name: Agent(name, cast, config) for name in config.agents}

    def __getattr__(self, name: str) -> "Agent":
        known = list(self.__dict__.get("_agents", ()))
        if name not in known:
            raise AttributeError(f"{name} is not one of algorithm.agents, {', '.join(known)}")
        return self._agents[name]

    def __getitem__(self, name: str) -> "Agent":
        return self.__getattr__(name)

    def __iter__(self) -> Iterator["Agent"]:
        return iter(self._agents.values())


class Agent:
    def __init__(self, name: str, cast: Cast, config: TeamConfig) -> None:
        self.name = name
        self.turns: list[Turn] = []  # what it has said so far
        self._cast, self._config = cast, config

    async def say(self, shown: Context, role: str | None = None) -> Turn:
        """What the agent replies to a text, or to messages of a chat; nothing else is shown to it.

        role: what the agent is at the moment, where agents exchange roles; None: its name
        returns: its `text`, `ids`, `logprob`, and `cut_off`: whether it was stopped by
            `algorithm.sampling.max_response_tokens`
        TooLong where `shown` leaves no room for a reply; a play may catch it and show less.
        """
        config, cast = self._config, self._cast
        speaker, limit = cast[config.policy_of(self.name)], config.sampling.max_response_tokens
        hint = "; is an await missing?" if inspect.iscoroutine(shown) else ""
        said = bool(shown.strip()) if isinstance(shown, str) else are_messages(shown)
        require(said, f"{self.name} can be shown a text or messages, got {shown!r}{hint}")
        most = config.max_utterances
        require(
            sum(cast.spoken.values()) < most,
            f"the play asks for more than algorithm.max_utterances={most} utterances in an episode",
        )
        if not speaker.fits(shown, limit):
            raise TooLong(
                f"{self.name} is shown more than leaves room for a reply in its model's context: "
                f"algorithm.sampling.max_response_tokens={limit}, or its own"
            )
        if not isinstance(shown, str):  # the play may go on writing to its list
            shown = [dict(message) for message in shown]
        turn = await speaker.say(shown, role or self.name, len(self.turns))
        turn.member = self.name
        self.turns.append(turn)
        return turn


def team_play(config: TeamConfig) -> Play:
    """The user's function as the play of an episode.

    ConfigError where it is no coroutine; and, once it plays, where it raises, breaks a rule, never
    speaks, or returns what is no reward: each with the file and its line.
    """
    function = load_function("algorithm.play", config.play)
    require(
        inspect.iscoroutinefunction(function.call),
        f"{function.said}: must be a coroutine: async def {function.call.__name__}(prompt, team)",
    )

    async def play(prompt: Prompt, cast: Cast) -> None:
        team = Team(cast, config)
        again = ", played again for algorithm.credit" if cast.replay else ""
        where = f"{function.said}, prompt {prompt.id}{again}"
        try:
            returned = await function.call(prompt, team)
        except RAISED as error:  # whatever a user's function raises
            raise ConfigError(f"{where}: {told(error, function.file)}") from error
        try:
            require(bool(cast.turns), "no agent has spoken")
            pay(returned, {agent.name: agent.turns for agent in team}, config.fixed_agents)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None

    return play


def pay(returned: Any, turns: Mapping[str, list[Turn]], fixed: Collection[str]) -> None:
    """Make what a play has returned the scores of its utterances.

    An agent's one number is that of its last utterance, and those before it have 0; a number alone
    is that of every agent. Where nothing is returned, scores are left None. ConfigError for
    anything else.

    turns: of each agent
    fixed: agents that do not learn, which may go without
    """
    if returned is None:
        return
    spoken = {name: own for name, own in turns.items() if own}
    if not isinstance(returned, Mapping):
        require(as_number(returned) is not None, f"must return {RETURNS}; got {returned!r}")
        returned = dict.fromkeys(spoken, returned)
    known = list(turns)
    for name in returned:
        require(name in known, f"returns a reward of {name}, no agent{nearest(str(name), known)}")
    for name, own in spoken.items():
        value = returned.get(name, 0.0 if name in fixed else None)
        require(value is not None, f"returns no reward of {name}, which spoke")
        values = value if isinstance(value, list) else [*[0.0] * (len(own) - 1), value]
        require(
            len(values) == len(own),
            f"returns {len(values)} rewards of {name}, which spoke {len(own)} times",
        )
        for turn, one in zip(own, values, strict=True):
            turn.score = as_number(one)
            require(turn.score is not None, f"returns {one!r} as a reward of {name}: no number")


def credit_rule(value: str, rules: Mapping[str, CreditRule]) -> CreditRule:
    """The rule that `algorithm.credit` names: one of these, or the user's function.

    The function takes the utterances of an episode, in their order, each with `agent`, `role`,
    `text` and `score`, and returns a number for each.
    """
    if value in rules:
        return rules[value]
    function = load_function("algorithm.credit", value)

    def assign(episodes: list[Episode]) -> None:
        # by one process: what it draws is the same in all
        credits = distributed.first_works(lambda: [credits_of(function, e) for e in episodes])
        for episode, values in zip(episodes, credits, strict=True):
            for turn, credit in zip(episode.turns, values, strict=True):
                turn.credit = credit

    return assign


def credits_of(function: UserFunction, episode: Episode) -> list[float]:
    """What the user's function returns for an episode; ConfigError unless it is what it must be."""
    said = f"{function.said}, prompt {episode.prompt.id}"
    try:
        returned = function.call(episode.turns)
    except RAISED as error:  # whatever a user's function raises
        raise ConfigError(f"{said}: {told(error, function.file)}") from error
    turns = len(episode.turns)
    values = returned if isinstance(returned, list) else []
    numbers = [number for value in values if (number := as_number(value)) is not None]
    require(
        len(numbers) == len(values) == turns,
        f"{said}: must return a list of {turns} numbers, one per utterance; got {returned!r}",
    )
    return numbers
