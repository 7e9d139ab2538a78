"""Settings of debates: agents, turns, which policies are trained, prompts; `algorithm=maporl`."""

import math
from dataclasses import dataclass

from cory.config.algorithm import AlgorithmFacts, PPOConfig
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
    """Settings that every algorithm with debates has."""

    holds_debates = True

    agents: int  # A, debaters
    turns: int  # T
    param_sharing: str  # shared | per_agent | per_turn | per_turn_agent: which turns share a policy
    train_turns: list[int] | None  # from 1; the others are spoken by the frozen start; None: all
    evaluation_agents: int  # A while evaluating; debater i plays as agent i mod agents
    evaluation_turns: int  # T while evaluating; later turns are played by the last one's policy
    vote_ties: str  # expected | random | lexicographic
    unreadable_votes: str  # dropped | counted: answers that cannot be read, in a vote
    consensus: float | None  # share of equal answers after which a debate ends; None: never
    verifier_feedback: bool  # debaters see the reward's scores of the last turn
    prompts: DebatePrompts

    def check_debaters(self) -> None:
        """Check the numbers of agents and turns, and the choices."""
        for key in ("agents", "turns", "evaluation_agents", "evaluation_turns"):
            require_at_least(f"algorithm.{key}", getattr(self, key), 1)
        require_choice("algorithm.param_sharing", self.param_sharing, SHARINGS)
        ties = ("expected", "random", "lexicographic")
        require_choice("algorithm.vote_ties", self.vote_ties, ties)
        rules = ("dropped", "counted")
        require_choice("algorithm.unreadable_votes", self.unreadable_votes, rules)
        for key, turns in (("agents", self.turns), ("evaluation_agents", self.evaluation_turns)):
            count = getattr(self, key)
            require(
                # a debate of one turn has none to leave out
                self.consensus is None or turns == 1 or 1 < self.consensus * count <= count,
                f"algorithm.consensus must be at most 1 and above 1/{key}, a share that a single "
                f"answer of {count} reaches, got {self.consensus}",
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
        """The turns that are trained, counted from 1."""
        return self.train_turns or list(range(1, self.turns + 1))

    def policy(self, turn: int, agent: int) -> str:
        """The policy that plays an agent at a turn; both are counted from 0."""
        agent %= self.agents
        turn = min(turn, self.turns - 1) + 1
        return {
            "shared": "agent_0",
            "per_agent": f"agent_{agent}",
            "per_turn": f"turn_{turn}",
            "per_turn_agent": f"agent_{agent}_turn_{turn}",
        }[self.param_sharing]

    def policies(self) -> dict[str, int]:
        """The trained policies: name -> the first agent that the policy plays."""
        found: dict[str, int] = {}
        for agent in range(self.agents):
            for turn in self.trained:
                found.setdefault(self.policy(turn - 1, agent), agent)
        return found

    def policy_count(self) -> int:
        return len(self.policies())


@dataclass
class GuardConfig:
    """Which answers get a penalty in place of their score; None turns a guard off."""

    penalty: float  # takes the score's place
    scope: str  # own: in the credit of that turn only | propagate: in earlier turns' sums, too
    min_tokens: int | None  # shorter answers
    max_repeats: int | None  # a run of tokens said more often than this in a row
    repeat_length: int  # longest run that is looked for, tokens
    boxed: bool  # answers without \\boxed{...}

    def __post_init__(self) -> None:
        key = "algorithm.guards"
        require_choice(f"{key}.scope", self.scope, ("own", "propagate"))
        require_at_least(f"{key}.repeat_length", self.repeat_length, 1)
        for name in ("min_tokens", "max_repeats"):
            if getattr(self, name) is not None:
                require_at_least(f"{key}.{name}", getattr(self, name), 1)


@dataclass
class AlternationConfig:
    """Training one turn at a time: the last one, the one before it, and so on, in a circle."""

    first: int  # iterations of the last turn at the beginning
    every: int  # iterations of each turn after that

    def __post_init__(self) -> None:
        require_at_least("algorithm.alternation.first", self.first, 0)
        require_at_least("algorithm.alternation.every", self.every, 1)


@dataclass
class MaporlConfig(PPOConfig, DebateConfig):
    """Settings of `algorithm=maporl`."""

    alternation: AlternationConfig | None  # None: all of these learn in every iteration
    horizon: str  # discounted_sum | last | current: scores that a turn is credited with
    share: str  # all: averaged over the debaters | individual: own scores only
    turn_discount: float  # gamma of Definition 1, per turn
    alpha: list[float]  # incentives alpha_0, alpha_1 of Table 1
    beta: list[float]  # incentives beta_0, beta_1 of Table 2
    official_shaping: bool  # signs and places as in the released code
    bonus_from: str  # ground_truth | verifier: which answers count as right for the incentives
    guards: GuardConfig

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_debaters()
        require_choice("algorithm.horizon", self.horizon, ("discounted_sum", "last", "current"))
        require_choice("algorithm.share", self.share, ("all", "individual"))
        require_choice("algorithm.bonus_from", self.bonus_from, ("ground_truth", "verifier"))
        require(
            0 <= self.turn_discount <= 1,
            f"algorithm.turn_discount must lie in [0, 1], got {self.turn_discount}",
        )
        for key in ("alpha", "beta"):
            value = getattr(self, key)
            require(
                len(value) == 2,
                f"algorithm.{key} must hold two incentives, {key}_0 and {key}_1, got {value}",
            )
            require(all(map(math.isfinite, value)), f"algorithm.{key} must be finite, got {value}")
        least, most = self.guards.min_tokens, self.sampling.max_response_tokens
        require(
            self.iterations == 0 or least is None or least <= most,
            f"algorithm.guards.min_tokens ({least}) exceeds "
            f"algorithm.sampling.max_response_tokens ({most}): every answer would be penalised",
        )
        require(
            self.alternation is None or self.param_sharing in ("per_turn", "per_turn_agent"),
            f"algorithm.alternation needs turns with policies of their own; "
            f"algorithm.param_sharing={self.param_sharing} shares them",
        )

    @property
    def shapes(self) -> bool:
        """Whether any incentive shapes the reward."""
        return any([*self.alpha, *self.beta])

    def turns_per_policy(self) -> int:
        places = self.agents * len(self.trained) // len(self.policies())
        return self.prompts_per_iteration * places
