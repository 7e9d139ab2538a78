"""Settings of debates, and of `algorithm=maporl`, `sft` and `verifier`."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from cory.config.algorithm import AlgorithmConfig, PPOConfig, SupervisedConfig
from cory.config.base import (
    RISING,
    TWO,
    Conflict,
    Count,
    NotNegative,
    Number,
    Positive,
    PositiveShare,
    Settings,
    Share,
    Text,
    with_fields,
)

Ties = Literal["expected", "random", "lexicographic"]
Unreadable = Literal["dropped", "counted"]
Pair = Annotated[list[float], TWO]
Range = Annotated[list[Positive], TWO, RISING]
Wrong = Annotated[Text, with_fields("query", allowed=["answer"])]


class DebatePrompts(Settings):
    """What a debater with a chat model is shown after the first turn.

    The first turn's prompt is the task's own; for models that do not chat, the later ones, too.
    """

    follow_up: Annotated[Text, with_fields("others", "query", allowed=["own_feedback"])]
    follow_up_alone: Annotated[Text, with_fields("query", allowed=["own_feedback"])]
    other: Annotated[Text, with_fields("response", allowed=["number", "feedback"])]
    separator: Text
    own_feedback: Annotated[Text, with_fields("score", allowed=["grade"])]
    feedback: Annotated[Text, with_fields("score", allowed=["grade", "number"])]
    grades: list[Text]
    grade_bounds: Annotated[list[float], RISING]

    def conflicts(self) -> Iterator[Conflict]:
        if len(self.grades) != len(self.grade_bounds) + 1:
            yield "grade_bounds", f"must be one fewer than grades ({len(self.grades)})"


class DebateConfig(AlgorithmConfig):
    """Settings that every algorithm with debates has."""

    holds_debates: ClassVar[bool] = True

    agents: Count  # A, debaters
    turns: Count  # T
    param_sharing: Literal["shared", "per_agent", "per_turn", "per_turn_agent"]
    train_turns: list[int] | None  # from 1; the others are spoken by the frozen start; None: all
    evaluation_agents: Count  # A while evaluating; debater i plays as agent i mod agents
    evaluation_turns: Count  # T while evaluating; later turns are played by the last one's policy
    vote_ties: Ties
    unreadable_votes: Unreadable
    consensus: PositiveShare | None  # share of equal answers that ends a debate; None: never
    verifier_feedback: bool
    prompts: DebatePrompts

    def conflicts(self) -> Iterator[Conflict]:
        yield from super().conflicts()
        for key, turns in (("agents", self.turns), ("evaluation_agents", self.evaluation_turns)):
            count = getattr(self, key)
            # a debate of one turn has none to leave out
            if self.consensus is not None and turns > 1 and self.consensus * count <= 1:
                yield "consensus", f"must be above 1/{key}, which a single answer of {count} is"
        chosen, turns = self.train_turns, self.turns
        if chosen is not None and chosen != [n for n in range(1, turns + 1) if n in chosen]:
            yield "train_turns", f"must name turns from 1 to turns={turns}, each once and in order"
        if chosen == []:
            yield "train_turns", "must name a turn; null trains all"

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

    def names(self) -> list[str]:
        return list(self.policies())

    def policy_count(self) -> int:
        return len(self.policies())


class GuardConfig(Settings):
    """Which answers get a penalty in place of their score; None turns a guard off."""

    penalty: float
    scope: Literal["own", "propagate"]
    min_tokens: Count | None
    max_repeats: Count | None
    repeat_length: Count
    boxed: bool


class AlternationConfig(Settings):
    """Training one turn at a time: the last one, the one before it, and so on, in a circle."""

    first: Number  # iterations of the last turn at the beginning
    every: Count  # iterations of each turn after that


class MaporlConfig(PPOConfig, DebateConfig):
    """Settings of `algorithm=maporl`."""

    alternation: AlternationConfig | None  # None: all turns learn in every iteration
    horizon: Literal["discounted_sum", "last", "current"]
    share: Literal["all", "individual"]
    turn_discount: Share  # gamma of Definition 1, per turn
    alpha: Pair  # incentives alpha_0, alpha_1 of Table 1
    beta: Pair  # incentives beta_0, beta_1 of Table 2
    official_shaping: bool
    bonus_from: Literal["ground_truth", "verifier"]
    guards: GuardConfig

    needs = {"alternation": "param_sharing=per_turn|per_turn_agent"}  # each turn learns alone

    def conflicts(self) -> Iterator[Conflict]:
        yield from super().conflicts()
        least, most = self.guards.min_tokens, self.sampling.max_response_tokens
        if self.iterations > 0 and least is not None and least > most:
            rule = f"exceeds algorithm.sampling.max_response_tokens={most}: all would be penalised"
            yield "guards.min_tokens", rule

    @property
    def shapes(self) -> bool:
        """Whether any incentive shapes the reward."""
        return any([*self.alpha, *self.beta])

    def turns_per_policy(self) -> int:
        places = self.agents * len(self.trained) // len(self.policies())
        return self.prompts_per_iteration * places


class RequestsConfig(Settings):
    """Prompts for more answers of a label, where a question has too few of them (chat models)."""

    wrong_common: Wrong
    wrong_rare: Wrong
    wrong_none: Wrong
    enough: Share
    paraphrase: Annotated[Text, with_fields("query", "answer", "style")]


class VerifierConfig(SupervisedConfig):
    """Settings of `algorithm=verifier`."""

    answers_per_question: Count
    temperatures: Range  # one is drawn in each iteration from between these two
    top_p: PositiveShare  # while collecting; evaluation takes `sampling` as it is
    balance: bool
    keep_per_label: Count
    requests: bool
    request_texts: RequestsConfig
    max_tokens: Count
    average: Literal["tokens", "responses"]
    likelihood_coef: NotNegative

    needs = {"requests": "balance=true"}  # nothing is missing otherwise

    def rows_sampled(self) -> int:
        return self.prompts_per_iteration * self.answers_per_question

    def has_value_head(self) -> bool:
        return True  # it judges answers


class SFTConfig(SupervisedConfig, DebateConfig):
    """Settings of `algorithm=sft`."""

    keep_share: PositiveShare  # of an iteration's debates, those with the highest scores
