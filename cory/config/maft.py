"""Settings of `algorithm=maft`: the debate, which answers are trained on, and how."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from cory.config.algorithm import SupervisedConfig
from cory.config.base import Conflict, Count, Positive, Settings, Share, Text, with_fields
from cory.config.debate import Ties, Unreadable
from cory.config.model import EndpointConfig, Weights


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

    needs = {"kl_to_base": "scorer"}  # whose distributions are compared


class MaftConfig(SupervisedConfig):
    """Settings of `algorithm=maft`; `learning_rate` and `epochs` are those of generation agents."""

    holds_debates: ClassVar[bool] = True
    new_each_training: ClassVar[bool] = True

    agents: Count  # N
    turns: Count  # M: the first is a generation agent's, later ones are a critic agent's
    policies: Literal["specialised", "generation", "single"]
    select: Literal["own", "agreeing", "correct"]  # eq. 1 | all that equal the label | STaR
    labels: Literal["vote", "answer"]
    summary: bool
    critic_share: Share  # w: how much of a critic's data are answers that were corrected
    critic_loss: Literal["last_turn", "all_turns"]
    start: Literal["previous", "base"]
    critic_epochs: Count
    critic_learning_rate: Positive
    later_learning_rate: Positive | None  # of both kinds after the first iteration; None: as in it
    evaluation_agents: Count  # N while evaluating; agent i is played by the policy of i mod agents
    evaluation_turns: Count  # M while evaluating
    vote_ties: Ties
    unreadable_votes: Unreadable
    identities: bool
    prompts: MaftPrompts
    endpoint: EndpointConfig | None  # a chat model in place of the model; None: the model itself
    diversity: DiversityConfig

    needs = {
        "select=correct": "agents=1 turns=1 labels=vote",  # one agent, told the task's answers
        "endpoint": "iterations=0 policies=single",  # its model speaks for all, and learns nothing
        # it has no weights here
        "diversity.kl_to_base": "endpoint=null",
        "diversity.nll_others": "endpoint=null",
    }

    def conflicts(self) -> Iterator[Conflict]:
        yield from super().conflicts()
        if self.policies == "specialised" and self.turns == 1 and self.iterations > 0:
            yield "turns", "must be at least 2 with algorithm.policies=specialised, for critics"

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

    def is_critic(self, policy: str) -> bool:
        """Whether a policy is a critic agent."""
        return policy.startswith("critic")

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
