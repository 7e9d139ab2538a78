"""Settings of `algorithm=maft`: the debate, which answers are trained on, and how."""

from dataclasses import dataclass

from cory.config.checks import (
    require,
    require_at_least,
    require_choice,
    require_fields,
    require_positive,
)
from cory.config.evaluation import DiversityConfig
from cory.config.model import EndpointConfig
from cory.config.supervised import SupervisedConfig

SPECIALISED, GENERATION_ONLY, SINGLE = "specialised", "generation", "single"
OWN, AGREEING, CORRECT = "own", "agreeing", "correct"
VOTE, ANSWER = "vote", "answer"


@dataclass
class MaftPrompts:
    """Prompts of agents with a chat model after the first turn; the first prompt is the task's.

    Models that do not chat get the task's own form for answers of others.
    """

    chats_only: bool  # models that do not chat are refused: a run would not be what it is called
    follow_up: str  # the others' answers as they are: {others}, {query}
    follow_up_summary: str  # ... summed up: {summary}, {query}
    follow_up_alone: str  # where nobody else speaks: {query}
    other: str  # one answer inside {others}: {number}, {response}
    separator: str  # between two of them
    summarise: str  # asks the model as it came to sum up {others}
    hint: str  # select=correct: the right {answer} to {query}
    generation_id: str  # identities=true: before every prompt of generation agent {number}
    critic_id: str  # ... and of critic agent {number}

    def __post_init__(self) -> None:
        key = "algorithm.prompts"
        require_fields(f"{key}.follow_up", self.follow_up, ("others",), ("query",))
        require_fields(f"{key}.follow_up_summary", self.follow_up_summary, ("summary",), ("query",))
        require_fields(f"{key}.follow_up_alone", self.follow_up_alone, (), ("query",))
        require_fields(f"{key}.other", self.other, ("response",), ("number",))
        require_fields(f"{key}.summarise", self.summarise, ("others",), ("query",))
        require_fields(f"{key}.hint", self.hint, ("query", "answer"))
        for name in ("generation_id", "critic_id"):
            require_fields(f"{key}.{name}", getattr(self, name), ("number",))


@dataclass
class MaftConfig(SupervisedConfig):
    """Settings of `algorithm=maft`; `learning_rate` and `epochs` are those of generation agents."""

    holds_debates = True

    agents: int  # N
    turns: int  # M: the first is a generation agent's, later ones are a critic agent's
    policies: str  # specialised: N of each kind | generation: they speak in all turns | single: one
    select: str  # own: eq. 1 | agreeing: all answers that equal the label | correct: STaR
    labels: str  # vote | answer: what `own` and `agreeing` compare with, the vote or the task's
    summary: bool  # the others' answers are summed up by the model as it came
    critic_share: float  # w: how much of a critic's data are answers that were corrected
    critic_loss: str  # last_turn | all_turns: which of a critic's answers are learnt
    start: str  # previous | base: the model that an iteration trains
    critic_epochs: int
    critic_learning_rate: float
    later_learning_rate: float | None  # of both kinds after the first iteration; None: as in it
    evaluation_agents: int  # N while evaluating; agent i is played by the policy of i mod agents
    evaluation_turns: int  # M while evaluating
    vote_ties: str  # random | expected | lexicographic
    unreadable_votes: str  # dropped | counted: answers that cannot be read, in a vote
    identities: bool  # every prompt begins with the name of its agent
    prompts: MaftPrompts
    endpoint: EndpointConfig | None  # a chat model in place of the model; None: the model itself
    diversity: DiversityConfig

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("agents", "turns", "evaluation_agents", "evaluation_turns", "critic_epochs"):
            require_at_least(f"algorithm.{key}", getattr(self, key), 1)
        for key, choices in (
            ("policies", (SPECIALISED, GENERATION_ONLY, SINGLE)),
            ("select", (OWN, AGREEING, CORRECT)),
            ("labels", (VOTE, ANSWER)),
            ("critic_loss", ("last_turn", "all_turns")),
            ("start", ("previous", "base")),
            ("vote_ties", ("random", "expected", "lexicographic")),
            ("unreadable_votes", ("dropped", "counted")),
        ):
            require_choice(f"algorithm.{key}", getattr(self, key), choices)
        require(
            0 <= self.critic_share <= 1,
            f"algorithm.critic_share must lie in [0, 1], got {self.critic_share}",
        )
        require_positive("algorithm.critic_learning_rate", self.critic_learning_rate)
        if self.later_learning_rate is not None:
            require_positive("algorithm.later_learning_rate", self.later_learning_rate)
        require(
            self.policies != SPECIALISED or self.turns > 1 or self.iterations == 0,
            f"algorithm.policies=specialised needs algorithm.turns of at least 2: with "
            f"{self.turns} no critic agent speaks",
        )
        require(
            self.select != CORRECT or (self.agents == 1 and self.turns == 1),
            f"algorithm.select=correct asks one agent once and then with a hint: it needs "
            f"algorithm.agents=1 and algorithm.turns=1, got {self.agents} and {self.turns}",
        )
        require(
            self.select != CORRECT or self.labels == VOTE,
            "algorithm.labels=answer is for algorithm.select=own or agreeing; correct takes the "
            "task's answers by itself",
        )
        require(
            self.endpoint is None or self.iterations == 0,
            f"algorithm.endpoint: a model behind an endpoint cannot be fine-tuned here; it needs "
            f"algorithm.iterations=0, got {self.iterations}",
        )
        require(
            self.endpoint is None or self.policies == SINGLE,
            f"algorithm.endpoint speaks for every agent: it needs algorithm.policies=single, got "
            f"{self.policies}",
        )
        for name in ("kl_to_base", "nll_others"):
            require(
                self.endpoint is None or not getattr(self.diversity, name),
                f"algorithm.diversity.{name}=true needs the weights of a model; with "
                f"algorithm.endpoint there are none",
            )

    def policy(self, turn: int, agent: int) -> str:
        """The policy that plays an agent at a turn; both are counted from 0."""
        if self.policies == SINGLE:
            return SINGLE
        critic = turn > 0 and self.policies == SPECIALISED
        return f"{'critic' if critic else 'generation'}_{agent % self.agents}"

    def names(self) -> list[str]:
        """All policies: those of generation agents, then those of critic agents."""
        turns = (0, 1) if self.policies == SPECIALISED else (0,)
        found = [self.policy(turn, agent) for turn in turns for agent in range(self.agents)]
        return list(dict.fromkeys(found))

    def is_critic(self, policy: str) -> bool:
        """Whether a policy is a critic agent."""
        return policy.startswith("critic")

    def new_each_training(self) -> bool:
        return True

    def follows_run_length(self) -> bool:
        return False  # the schedule runs over one fine-tuning of one policy

    def trains_on(self) -> bool:
        return self.start == "previous" and self.iterations > 1

    def one_engine(self, sharing: str) -> bool:
        return sharing == "copies" and self.policy_count() > 1

    def policy_count(self) -> int:
        return len(self.names())

    def speaks_remotely(self) -> bool:
        return self.endpoint is not None

    def endpoint_asked(self) -> EndpointConfig | None:
        return self.endpoint
