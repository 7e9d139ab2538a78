"""Multiagent Finetuning on tiny random models, built as worker.py builds it."""

from dataclasses import asdict, replace
from typing import Any

from cory.config import Config, builder
from cory.runtime.worker import build_components
from cory.trainers.sanity_checks import byte_sum
from cory.trainers.supervised import CollectedExamples, SupervisedTrainer

NAMES = ["generation_0", "generation_1", "generation_2", "critic_0", "critic_1", "critic_2"]
# beside the settings of the `questions` fixture
MAFT = [
    *("experiment=maft/phi3_arithmetic_maft", "hardware=cpu", "model=tiny"),
    "samples_kept=10",  # all of an iteration
    *("evaluation.samples=1", "evaluation.k=[1]", "algorithm.summary=false"),
    *("algorithm.vote_ties=lexicographic", "algorithm.prompts_per_iteration=10"),
    *("algorithm.minibatch_size=4", "algorithm.learning_rate=3e-3"),
    *("algorithm.critic_learning_rate=1e-3", "algorithm.later_learning_rate=2e-3"),
    *("algorithm.sampling.top_k=0", "algorithm.sampling.top_p=1.0"),
]


class Vowels:
    """A task whose answers a random model can give: the first vowel of a response."""

    def __init__(self, task: Any) -> None:
        self.task = task
        self.vowels = "aeiou"  # those that can be read

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def read(self, response: str) -> str | None:
        return next((letter for letter in response if letter in self.vowels), None)

    def is_right(self, response: str, answer: str) -> bool:
        return self.read(response) in ("e", "a")


def build_agents(config: Config, reward: Any = None) -> SupervisedTrainer:
    """The trainer of `config`, with answers that a random model can give."""
    components = build_components(config)
    components = replace(components, reward=reward or components.reward)
    task: Any = Vowels(components.task)
    trainer = builder("algorithm", "maft")(config.algorithm, replace(components, task=task))
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
