"""Coevolving with the Other You (Ma et al., 2024)."""

from collections.abc import Callable, Iterable, Sequence

from cory.config import REPLAYED, CoryConfig
from cory.episode import Episode, Metrics, Prompt, score_of
from cory.evaluation.evaluate import probes_of
from cory.functional.credit import mean_over_agents, own_and_later, own_score
from cory.rollout.scheduler import Cast, Play
from cory.rollout.team import CreditRule, credit_rule
from cory.trainers.components import Components
from cory.trainers.ppo import PPOTrainer
from cory.trainers.steps import Resumable

# observer_context(query, answers so far) -> the observer's prompt
ObserverContext = Callable[[str, Sequence[str]], str]

# what is also logged under the role that an agent played
BY_ROLE = (
    *("objective/score", "objective/kl", "objective/combined", "objective/entropy"),
    *("rollout/truncated_share", "rollout/thinking_tokens"),
    *("rollout/distinct_1", "rollout/distinct_2"),
)


class Roles(Resumable):
    """Which agent has which role; an exchange of roles moves no weights.

    Two agents play `pioneer` and `observer`; of more, the later ones are `observer_1`,
    `observer_2`, ... At an exchange the pioneer goes to the end of the chain.
    """

    kept = ("order",)

    def __init__(self, agents: Sequence[str]) -> None:
        self.order = list(agents)

    def speakers(self) -> list[tuple[str, str]]:
        """(agent, role) in the order of speaking."""
        observers = [f"observer_{i}" for i in range(1, len(self.order))]
        if len(observers) == 1:
            observers = ["observer"]
        return list(zip(self.order, ["pioneer", *observers], strict=True))

    def exchange(self) -> None:
        """The observer becomes pioneer (Ma et al., eq. 5); longer chains move up by one."""
        self.order = [*self.order[1:], self.order[0]]


def pioneer_observer(roles: Roles, observer_context: ObserverContext | None) -> Play:
    """The pioneer answers the query; each observer sees the query and the answers before its own.

    Ma et al., eq. 3. Without `observer_context` all see the bare query (ablation w/o KT).
    """

    async def play(prompt: Prompt, cast: Cast) -> None:
        answers: list[str] = []
        for place, (agent, role) in enumerate(roles.speakers()):
            shown = prompt.opening
            if answers and observer_context is not None:
                shown = prompt.asking(observer_context(prompt.text, answers))
            turn = await cast[agent].say(shown, role, place)
            answers.append(turn.response)

    return play


def shared_sum(episodes: Iterable[Episode]) -> None:
    """The credit of a turn is the sum of all scores of its episode (Ma et al., eq. 4)."""
    for episode in episodes:
        total = sum(score_of(turn) for turn in episode.turns)
        for turn in episode.turns:
            turn.credit = total


# what agents share an episode's scores by, but for their plain sum
SHARED: dict[str, CreditRule] = {
    "mean": mean_over_agents,
    "later": own_and_later,
    **dict.fromkeys(REPLAYED, shared_sum),  # less what replays take off
}


def build_cory(config: CoryConfig, components: Components) -> PPOTrainer:
    """A pioneer and its observers, rewarded by the sum of their scores."""
    agents = components.new_policies(config.names())
    roles = Roles(list(agents))

    def after_step(iteration: int) -> None:
        if config.swap_every is None or (iteration + 1) % config.swap_every:
            return
        roles.exchange()
        if config.official_swap:
            # the released code builds both trainers anew, and each seeds the run again
            for agent in agents.values():
                agent.engine.reset_optimizer()
                agent.start_statistics()
            components.streams.restart("length", "sampling", "shuffle")

    def describe(episodes: list[Episode], metrics: Metrics) -> Metrics:
        """The agents' metrics under the role each played, and each agent's place in the order."""
        by_role: Metrics = {}
        for place, turn in enumerate(episodes[0].turns):
            by_role[f"role/{turn.agent}"] = float(place)
            for key in BY_ROLE:
                if f"{key}/{turn.agent}" in metrics:  # not every model thinks in private
                    by_role[f"{key}/{turn.role}"] = metrics[f"{key}/{turn.agent}"]
            if place > 0:  # what seeing answers is worth, once roles have been exchanged
                gains = [score_of(e.turns[place]) - score_of(e.turns[0]) for e in episodes]
                by_role[f"transfer/gain/{turn.role}"] = sum(gains) / len(gains)
        return by_role

    transfer = components.task.observer_context if config.knowledge_transfer else None
    rules = {"all": shared_sum, **SHARED}
    credit = credit_rule(config.credit, rules) if config.collective_reward else own_score
    return PPOTrainer(
        components,
        agents,
        pioneer_observer(roles, transfer),
        credit,
        probes=probes_of(components.config, agents),
        describe=describe,
        after_step=after_step,
        carried={"roles": roles},
    )
