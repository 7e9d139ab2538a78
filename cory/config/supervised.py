"""Settings of `algorithm=verifier` and `sft`: supervised learning from collected examples."""

from typing import Annotated, Literal

from cory.config.algorithm import AlgorithmConfig
from cory.config.base import (
    RISING,
    TWO,
    Count,
    NotNegative,
    Positive,
    PositiveShare,
    Settings,
    Share,
    Text,
    with_fields,
)
from cory.config.debate import DebateConfig

Range = Annotated[list[Positive], TWO, RISING]
Wrong = Annotated[Text, with_fields("query", allowed=["answer"])]


class SupervisedConfig(AlgorithmConfig):
    """Settings that all share: each iteration collects examples and learns from them."""

    def turns_per_policy(self) -> int:
        """One full minibatch; the number of examples is known only after collecting."""
        return self.minibatch_size

    def rows_sampled(self) -> int:
        return self.prompts_per_iteration


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
