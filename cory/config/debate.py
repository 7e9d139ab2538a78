"""Settings of debates, and of `algorithm=maporl`, `debate_sft`, `verifier` and `maft`."""

from typing import Annotated, ClassVar, Literal

from cory.config.algorithm import AlgorithmConfig, PPOConfig, SupervisedConfig
from cory.config.base import (
    RISING,
    TWO,
    Conflicts,
    Count,
    NotNegative,
    Positive,
    PositiveShare,
    Settings,
    Share,
    Text,
    with_fields,
)
from cory.config.model import EndpointConfig, Weights

Pair = Annotated[list[float], TWO]
Range = Annotated[list[Positive], TWO, RISING]
OF_REFERENCE = "_reference"  # after the name of an agent: the model that it started from
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

    def conflicts(self) -> Conflicts:
        if len(self.grades) != len(self.grade_bounds) + 1:
            yield "grade_bounds", f"must be one fewer than grades ({len(self.grades)})"


class RoundsConfig(AlgorithmConfig):
    """Settings of every algorithm whose agents answer in rounds, and then vote."""

    holds_debates: ClassVar[bool] = True

    agents: Count  # A of MAPoRL, N of MAFT
    turns: Count  # T of MAPoRL; M of MAFT, a first of generation agents, then critics'
    evaluation_agents: Count  # while evaluating; agent i is played as agent i mod agents
    evaluation_turns: Count  # while evaluating; later turns are played by the last one's policy
    vote_ties: Literal["expected", "random", "lexicographic"]
    unreadable_votes: Literal["dropped", "counted"]

    def rows_sampled(self) -> int:
        # adapters of several agents are sampled together
        return max(self.turns_per_policy(), self.agents * self.prompts_per_iteration)


class DebateConfig(RoundsConfig):
    """Settings that `maporl` and `debate_sft` share."""

    param_sharing: Literal["shared", "per_agent", "per_turn", "per_turn_agent"]
    train_turns: list[int] | None  # from 1; the others are spoken by the frozen start; None: all
    consensus: PositiveShare | None  # share of equal answers that ends a debate; None: never
    verifier_feedback: bool
    prompts: DebatePrompts

    def conflicts(self) -> Conflicts:
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

    def member_of(self, name: str) -> str:
        """Of an agent with a policy for each of its turns, the agent; references are as it is."""
        return name.removesuffix(OF_REFERENCE).partition("_turn_")[0]


class GuardConfig(Settings):
    """Which answers get a penalty in place of their score; None turns a guard off."""

    penalty: float
    scope: Literal["own", "propagate"]
    min_tokens: Count | None
    max_repeats: Count | None
    repeat_length: Count
    boxed: bool


class MaporlConfig(PPOConfig, DebateConfig):
    horizon: Literal["discounted_sum", "last", "current"]
    share: Literal["all", "individual"]
    turn_discount: Share  # gamma of Definition 1, per turn
    alpha: Pair  # incentives alpha_0, alpha_1 of Table 1
    beta: Pair  # incentives beta_0, beta_1 of Table 2
    official_shaping: bool
    guards: GuardConfig

    def conflicts(self) -> Conflicts:
        yield from super().conflicts()
        most = self.sampling.max_response_tokens
        if (self.guards.min_tokens or 0) > most:
            yield "guards.min_tokens", f"must not exceed sampling.max_response_tokens={most}"

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

    def rows_sampled(self) -> int:
        return self.prompts_per_iteration * self.answers_per_question

    def has_value_head(self) -> bool:
        return True  # it judges answers


class DebateSFTConfig(SupervisedConfig, DebateConfig):
    keep_share: PositiveShare  # of an iteration's debates, those with the highest scores


class SFTConfig(SupervisedConfig):
    max_tokens: Count | None  # of prompt and answer; None: the model's context

    def reads_reference(self) -> bool:
        return False


class MaftPrompts(Settings):
    """Prompts of agents with a chat model after the first turn; the first prompt is the task's.

    Models that do not chat get the task's own form for answers of others.
    """

    chats_only: bool
    follow_up: Annotated[Text, with_fields("others", allowed=["query"])]
    follow_up_summary: Annotated[Text, with_fields("summary", allowed=["query"])]
    follow_up_alone: Annotated[Text, with_fields(allowed=["query"])]
    other: Annotated[Text, with_fields("response", allowed=["number"])]
    separator: Text
    summarise: Annotated[Text, with_fields("others", allowed=["query"])]
    hint: Annotated[Text, with_fields("query", "answer")]
    generation_id: Annotated[Text, with_fields("number")]
    critic_id: Annotated[Text, with_fields("number")]


class DiversityConfig(Settings):
    """Measures of diversity beyond agreement with the vote, and the models that compute them."""

    encoder: Text | None  # whose embeddings of responses are compared; None: none are
    scorer: Text | None  # whose next-token distributions are compared; None: none are
    kl_to_base: bool  # ... also with those of what the model said before any training
    nll_others: bool  # how likely each agent's model finds what the others said last
    precision: Weights  # of encoder and scorer
    batch_size: Count  # texts per pass of encoder and scorer
    max_tokens: Count  # what they read at most of a text; the scorer reads the question with it

    @property
    def reads(self) -> bool:
        """Whether any of them is measured."""
        return bool(self.encoder or self.scorer or self.nll_others)


class MaftConfig(SupervisedConfig, RoundsConfig):
    """Settings of `algorithm=maft`; `learning_rate` and `epochs` are those of generation agents."""

    new_each_training: ClassVar[bool] = True

    policies: Literal["specialised", "generation", "single"]
    select: Literal["own", "agreeing", "correct"]  # eq. 1 | all that equal the label | STaR
    labels: Literal["vote", "answer", "reward"]
    summary: bool
    critic_share: Share  # w: how much of a critic's data are answers that were corrected
    critic_loss: Literal["last_turn", "all_turns"]
    start: Literal["previous", "base"]
    critic_epochs: Count
    critic_learning_rate: Positive
    later_learning_rate: Positive | None  # of both kinds after the first iteration; None: as in it
    identities: bool
    prompts: MaftPrompts
    endpoint: EndpointConfig | None  # a chat model in place of the model; None: the model itself
    diversity: DiversityConfig

    def conflicts(self) -> Conflicts:
        yield from super().conflicts()
        if self.policies == "specialised" and self.turns == 1 and self.iterations > 0:
            yield "turns", "must be at least 2 with algorithm.policies=specialised, for critics"
        if self.endpoint is not None and (self.iterations > 0 or self.policies != "single"):
            # its model speaks for all, and learns nothing
            yield "endpoint", "needs algorithm.iterations=0 and algorithm.policies=single"

    def policy(self, turn: int, agent: int) -> str:
        """The policy that plays an agent at a turn; both are counted from 0."""
        if self.policies == "single":
            return "single"
        critic = turn > 0 and self.policies == "specialised"
        return f"{'critic' if critic else 'generation'}_{agent % self.agents}"

    def names(self) -> list[str]:
        """All policies: those of generation agents, then those of critic agents."""
        turns = (0, 1) if self.policies == "specialised" else (0,)
        found = [self.policy(turn, agent) for turn in turns for agent in range(self.agents)]
        return list(dict.fromkeys(found))

    def trains_on(self) -> bool:
        return self.start == "previous" and self.iterations > 1

    def speaks_remotely(self) -> bool:
        return self.endpoint is not None
