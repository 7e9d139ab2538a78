"""Verifiers on tiny random models, built as worker.py builds them, without a run directory."""

from dataclasses import replace
from typing import Any

from cory.config import Config, ExactMatchConfig, builder
from cory.rewards.exact_match import ExactMatch
from cory.runtime.worker import build_components
from cory.trainers.supervised import SupervisedTrainer

# beside the settings of the `questions` fixture
VERIFIER = [
    *("experiment=maporl/verifier_gsm8k", "hardware=cpu", "model=tiny", "evaluation.k=[1]"),
    *("algorithm.prompts_per_iteration=4", "algorithm.answers_per_question=6"),
    *("algorithm.keep_per_label=2", "algorithm.iterations=2", "algorithm.learning_rate=3e-3"),
]


class Holds:
    """A task whose responses are right where they hold a letter of `letters`."""

    def __init__(self, task: Any, letters: str) -> None:
        self.task, self.letters = task, letters

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def is_right(self, response: str, answer: str) -> bool:
        return any(letter in response for letter in self.letters)


SFT = [
    *("experiment=maporl/gsm8k_sft", "hardware=cpu", "model=tiny", "evaluation.team=true"),
    *("algorithm.keep_share=0.5", "algorithm.minibatch_size=4", "algorithm.learning_rate=3e-3"),
    "algorithm.evaluation_turns=2",
]


def build_verifier(config: Config, letters: str = "aeiou") -> SupervisedTrainer:
    """The trainer of `config`, with answers that a random model can give."""
    components = build_components(config)
    task = Holds(components.task, letters)
    reward = ExactMatch(ExactMatchConfig(name="exact_match"), task, None, None)  # type: ignore[arg-type]  # judges only
    components = replace(components, task=task, reward=reward)
    trainer = builder("algorithm", config.algorithm.name)(config.algorithm, components)
    assert isinstance(trainer, SupervisedTrainer)
    return trainer
