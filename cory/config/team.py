"""Settings of `algorithm=team`: a team whose episode is a function of the user's."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from cory.config.algorithm import PPOConfig
from cory.config.base import Conflict, Count, Share, Text
from cory.config.model import EndpointConfig
from cory.config.reward import FunctionName, named_or_function

# what speaks for a fixed agent; any other value is the folder of a run
FIXED = ("start", "endpoint", "pool")
RESERVED = ("team", "base", "start")  # names in metrics, and of what speaks beside the agents

Name = Annotated[Text, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]


class TeamConfig(PPOConfig):
    """Settings of `algorithm=team`."""

    play: FunctionName  # async def play(prompt, team)
    agents: Annotated[list[Name], Field(min_length=1)]  # who speaks, as `play` calls them
    # separate: each learns alone | shared: one for all | agent -> policy
    policies: Literal["separate", "shared"] | dict[str, Name]
    fixed: dict[str, Text] | None  # agents that do not learn -> FIXED, or the folder of a run
    credit: Annotated[Text, named_or_function("own", "sum", "mean", "later", "discounted")]
    turn_discount: Share  # credit=discounted: per utterance of the agent
    pool_every: Count  # iterations between the versions of the first policy that join the pool
    max_utterances: Count  # in an episode
    endpoint: EndpointConfig | None

    def conflicts(self) -> Iterator[Conflict]:
        yield from super().conflicts()
        for name, count in Counter(self.agents).items():
            if count > 1 or name in RESERVED:
                yield "agents", f"must not name {name}" + (" twice" if count > 1 else "")
        for name in self.fixed_agents:
            if name not in self.agents:
                yield "fixed", f"names {name}, not among algorithm.agents"
        if isinstance(self.policies, dict):
            learning, given = {*self.agents} - {*self.fixed_agents}, {*self.policies}
            if learning != given:
                wrong = ", ".join(sorted(learning ^ given))
                yield "policies", f"must name the agents that learn, each once; look at {wrong}"
        if len(self.fixed_agents) == len(self.agents):
            yield "fixed", "names all agents: nobody learns"
        if "endpoint" in self.fixed_agents.values() and self.endpoint is None:
            yield "endpoint", "must be given where one speaks: +endpoint@algorithm.endpoint=openai"

    @property
    def fixed_agents(self) -> dict[str, str]:
        """Agent that does not learn -> what speaks for it."""
        return self.fixed or {}

    def policy_of(self, agent: str) -> str:
        """The policy that speaks for an agent, or the agent's own name where it is fixed."""
        if agent in self.fixed_agents:
            return agent
        if isinstance(self.policies, dict):
            return self.policies[agent]
        return agent if self.policies == "separate" else "shared"

    def names(self) -> list[str]:
        learning = [agent for agent in self.agents if agent not in self.fixed_agents]
        return list(dict.fromkeys(self.policy_of(agent) for agent in learning))

    def policy_count(self) -> int:
        return len(self.names())

    @property
    def runs(self) -> dict[str, str]:
        """Agent -> folder, of those that are agents of other runs."""
        return {name: kind for name, kind in self.fixed_agents.items() if kind not in FIXED}

    @property
    def others(self) -> dict[str, str | None]:
        """Fixed agents with a model of their own: agent -> folder of its run; None: of a pool."""
        pools = {name: None for name, kind in self.fixed_agents.items() if kind == "pool"}
        return {**self.runs, **pools}

    def endpoint_asked(self) -> EndpointConfig | None:
        return self.endpoint if "endpoint" in self.fixed_agents.values() else None

    def turns_per_policy(self) -> int:
        """One full minibatch: how much agents say is known only after the roll-out."""
        return self.minibatch_size

    def rows_sampled(self) -> int:
        return self.prompts_per_iteration
