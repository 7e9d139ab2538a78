"""Settings of debates: who takes part, who learns, what is shown."""

from __future__ import annotations

from dataclasses import dataclass

from cory.config.algorithm import AlgorithmFacts
from cory.config.checks import require, require_at_least, require_choice, require_fields

SHARINGS = ("shared", "per_agent", "per_turn", "per_turn_agent")


@dataclass
class DebatePrompts:
    """What a debater with a chat model is shown after the first turn.

    The first turn's prompt is the task's own; for models that do not chat, the later ones, too.
    """

    follow_up: str  # {others}, {query}, {own_feedback}
    follow_up_alone: str  # where nobody else speaks: {query}, {own_feedback}
    other: str  # one answer inside {others}: {number}, {response}, {feedback}
    separator: str  # between two of them
    own_feedback: str  # with verifier_feedback: {score}, {grade}
    feedback: str  # with verifier_feedback, after another's answer: {number}, {score}, {grade}
    grades: list[str]  # a score in words, from worst to best
    grade_bounds: list[float]  # scores at which the next better grade begins

    def __post_init__(self) -> None:
        key = "algorithm.prompts"
        require_fields(f"{key}.follow_up", self.follow_up, ("others", "query"), ("own_feedback",))
        fields = ("query",), ("own_feedback",)
        require_fields(f"{key}.follow_up_alone", self.follow_up_alone, *fields)
        require_fields(f"{key}.other", self.other, ("response",), ("number", "feedback"))
        for name in ("own_feedback", "feedback"):
            allowed = ("grade", "number") if name == "feedback" else ("grade",)
            require_fields(f"{key}.{name}", getattr(self, name), ("score",), allowed)
        require(
            len(self.grades) == len(self.grade_bounds) + 1
            and sorted(self.grade_bounds) == self.grade_bounds,
            f"{key}.grade_bounds must rise and be one fewer than {key}.grades "
            f"({len(self.grades)}), got {self.grade_bounds}",
        )


@dataclass
class DebateConfig(AlgorithmFacts):
    """Settings of debates, beside those of how debaters learn."""

    holds_debates = True

    agents: int  # A, debaters
    turns: int  # T
    param_sharing: str  # shared | per_agent | per_turn | per_turn_agent: which turns share a policy
    train_turns: list[int] | None  # from 1; the others are spoken by the frozen start; None: all
    evaluation_agents: int  # A while evaluating; debater i plays as agent i mod agents
    evaluation_turns: int  # T while evaluating; later turns are played by the last one's policy
    vote_ties: str  # expected | random | lexicographic
    consensus: float | None  # share of equal answers after which a debate ends; None: never
    verifier_feedback: bool  # debaters see the reward's scores of the last turn
    prompts: DebatePrompts

    def check_debaters(self) -> None:
        """Refuse numbers of agents and turns, and names, that cannot be."""
        for key in ("agents", "turns", "evaluation_agents", "evaluation_turns"):
            require_at_least(f"algorithm.{key}", getattr(self, key), 1)
        require_choice("algorithm.param_sharing", self.param_sharing, SHARINGS)
        ties = ("expected", "random", "lexicographic")
        require_choice("algorithm.vote_ties", self.vote_ties, ties)
        require(
            self.consensus is None or 1 < self.consensus * self.agents <= self.agents,
            f"algorithm.consensus must be at most 1 and above 1/agents, a share that a single "
            f"answer of {self.agents} reaches, got {self.consensus}",
        )
        chosen = self.train_turns
        require(
            chosen is None
            or (
                bool(chosen)
                and chosen == sorted(set(chosen))
                and chosen[0] >= 1
                and chosen[-1] <= self.turns
            ),
            f"algorithm.train_turns must name turns from 1 to algorithm.turns ({self.turns}), each "
            f"once and in order, got {chosen}; null trains all",
        )

    @property
    def trained(self) -> list[int]:
        """The turns whose speakers learn, from 1."""
        return self.train_turns or list(range(1, self.turns + 1))

    def policy(self, turn: int, agent: int) -> str:
        """The policy that plays a debater at a turn; both from 0."""
        agent %= self.agents
        turn = min(turn, self.turns - 1) + 1
        return {
            "shared": "agent_0",
            "per_agent": f"agent_{agent}",
            "per_turn": f"turn_{turn}",
            "per_turn_agent": f"agent_{agent}_turn_{turn}",
        }[self.param_sharing]

    def policies(self) -> dict[str, int]:
        """The policies that learn, each with the lowest number of an agent that it plays."""
        found: dict[str, int] = {}
        for agent in range(self.agents):
            for turn in self.trained:
                found.setdefault(self.policy(turn - 1, agent), agent)
        return found

    def policy_count(self) -> int:
        return len(self.policies())
