"""Settings of `algorithm=verifier` and `sft`: supervised learning from collected examples."""

from dataclasses import dataclass

from cory.config.algorithm import AlgorithmFacts, OptimiserConfig, SamplingConfig
from cory.config.checks import (
    MOST_ROUNDS,
    require,
    require_at_least,
    require_choice,
    require_count,
    require_fields,
)
from cory.config.debate import DebateConfig


@dataclass
class SupervisedConfig(OptimiserConfig, AlgorithmFacts):
    """Settings that both share: each iteration collects examples and learns from them."""

    name: str
    iterations: int  # collecting + update, this many times; 0: only evaluate
    prompts_per_iteration: int  # over all processes
    minibatch_size: int  # examples per optimiser step, over all processes
    epochs: int  # passes over one iteration's examples
    sampling: SamplingConfig

    def __post_init__(self) -> None:
        require_count("algorithm.iterations", self.iterations, 0, MOST_ROUNDS)
        require_count("algorithm.epochs", self.epochs, 1, MOST_ROUNDS)
        for key in ("prompts_per_iteration", "minibatch_size"):
            require_at_least(f"algorithm.{key}", getattr(self, key), 1)
        self.check_optimiser()

    def turns_per_policy(self) -> int:
        """One full minibatch; the number of examples is known only after collecting."""
        return self.minibatch_size

    def rows_sampled(self) -> int:
        return self.prompts_per_iteration


@dataclass
class RequestsConfig:
    """Prompts for more answers of a label, where a question has too few of them (chat models)."""

    wrong_common: str  # a wrong answer to {query}, where `enough` are known, one of them {answer}
    wrong_rare: str  # ... where there are fewer
    wrong_none: str  # ... where there is none, and {answer} is a right one
    enough: float  # share of the wanted number
    paraphrase: str  # {answer} to {query} once more, in the style of {style}

    def __post_init__(self) -> None:
        key = "algorithm.request_texts"
        for name in ("wrong_common", "wrong_rare", "wrong_none"):
            require_fields(f"{key}.{name}", getattr(self, name), ("query",), ("answer",))
        require_fields(f"{key}.paraphrase", self.paraphrase, ("query", "answer", "style"))
        require(0 <= self.enough <= 1, f"{key}.enough must lie in [0, 1], got {self.enough}")


@dataclass
class VerifierConfig(SupervisedConfig):
    """Settings of `algorithm=verifier`."""

    answers_per_question: int  # sampled from the frozen model
    temperatures: list[float]  # one is drawn in each iteration from between these two
    top_p: float  # while collecting; evaluation takes `sampling` as it is
    balance: bool  # as many right as wrong answers of each question
    keep_per_label: int  # at most so many of each; without balance, at most twice as many in all
    requests: bool  # ask for the answers that are missing (chat models)
    request_texts: RequestsConfig
    max_tokens: int  # question and answer; longer ones are left out
    average: str  # tokens | responses: what counts alike in the loss of a minibatch
    likelihood_coef: float  # of an answer's log-probability in the verdict on it

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("algorithm.likelihood_coef", self.likelihood_coef, 0)
        require_choice("algorithm.average", self.average, ("tokens", "responses"))
        for key in ("answers_per_question", "keep_per_label", "max_tokens"):
            require_at_least(f"algorithm.{key}", getattr(self, key), 1)
        bounds = self.temperatures
        require(
            len(bounds) == 2 and 0 < bounds[0] <= bounds[1],
            f"algorithm.temperatures must hold two temperatures above 0, the lower one first, got "
            f"{bounds}",
        )
        require(0 < self.top_p <= 1, f"algorithm.top_p must lie in (0, 1], got {self.top_p}")
        require(
            self.balance or not self.requests,
            "algorithm.requests=true needs algorithm.balance=true: nothing is missing otherwise",
        )

    def rows_sampled(self) -> int:
        return self.prompts_per_iteration * self.answers_per_question

    def has_value_head(self) -> bool:
        return True  # it judges answers


@dataclass
class SFTConfig(SupervisedConfig, DebateConfig):
    """Settings of `algorithm=sft`."""

    keep_share: float  # of an iteration's debates, those with the highest scores

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_debaters()
        require(
            0 < self.keep_share <= 1,
            f"algorithm.keep_share must lie in (0, 1], got {self.keep_share}",
        )
