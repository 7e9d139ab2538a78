"""Verifiers and Multiagent Finetuning on tiny random models, built as worker.py builds them."""

from dataclasses import asdict
from typing import Any

from cory.config import Config, ExactMatchConfig
from cory.rewards.exact_match import ExactMatch
from cory.runtime.worker import build_components
from cory.trainers.sanity_checks import byte_sum
from cory.trainers.supervised import CollectedExamples, SupervisedTrainer
from tests.support.building import built

# beside the settings of the `questions` fixture
VERIFIER = [
    *("experiment=maporl/verifier_gsm8k", "hardware=cpu", "model=tiny", "evaluation.k=[1]"),
    *("algorithm.prompts_per_iteration=4", "algorithm.answers_per_question=6"),
    *("algorithm.keep_per_label=2", "algorithm.iterations=2", "algorithm.learning_rate=3e-3"),
]
SFT = [
    *("experiment=maporl/gsm8k_sft", "hardware=cpu", "model=tiny", "evaluation.team=true"),
    *("algorithm.keep_share=0.5", "algorithm.minibatch_size=4", "algorithm.learning_rate=3e-3"),
    "algorithm.evaluation_turns=2",
]
NAMES = ["generation_0", "generation_1", "generation_2", "critic_0", "critic_1", "critic_2"]
MAFT = [
    *("experiment=maft/phi3_arithmetic_maft", "hardware=cpu", "model=tiny"),
    "samples_kept=10",  # all of an iteration
    *("evaluation.samples=1", "evaluation.k=[1]", "algorithm.summary=false"),
    *("algorithm.vote_ties=lexicographic", "algorithm.prompts_per_iteration=10"),
    *("algorithm.minibatch_size=4", "algorithm.learning_rate=3e-3"),
    *("algorithm.critic_learning_rate=1e-3", "algorithm.later_learning_rate=2e-3"),
    *("algorithm.sampling.top_k=0", "algorithm.sampling.top_p=1.0"),
]


class Holds:
    """A task whose responses are right where they hold a letter of `letters`."""

    def __init__(self, task: Any, letters: str) -> None:
        self.task, self.letters = task, letters

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def is_right(self, response: str, answer: str) -> bool:
        return any(letter in response for letter in self.letters)


class Vowels(Holds):
    """A task whose answers a random model can give: the first of `letters` in a response."""

    def read(self, response: str) -> str | None:
        return next((letter for letter in response if letter in self.letters), None)

    def is_right(self, response: str, answer: str) -> bool:
        return self.read(response) in ("e", "a")


def build_verifier(config: Config, letters: str = "aeiou") -> SupervisedTrainer:
    """The trainer of `config`, with answers that a random model can give."""
    components = build_components(config)
    task: Any = Holds(components.task, letters)
    reward = ExactMatch(ExactMatchConfig(name="exact_match"), task, None, None)
    trainer = built(config, components, task=task, reward=reward)
    assert isinstance(trainer, SupervisedTrainer)
    return trainer


def build_agents(config: Config, **others: Any) -> SupervisedTrainer:
    """The same for Multiagent Finetuning, with these components in place of its own."""
    components = build_components(config)
    trainer = built(config, components, task=Vowels(components.task, "aeiou"), **others)
    assert isinstance(trainer, SupervisedTrainer)
    return trainer


def sums(trainer: SupervisedTrainer) -> dict[str, list[int]]:
    """Of each policy, a number for the bytes of each of its weights."""
    return {
        name: [byte_sum(p.detach()) for p in policy.engine.trainable.values()]
        for name, policy in trainer.agents.items()
    }


def debates_of(collected: CollectedExamples) -> list[dict[str, Any]]:
    """The debates that examples were collected from, as plain values."""
    return [asdict(episode) for episode in collected.episodes]
