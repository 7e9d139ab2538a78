"""What `task=`, `reward=` and `algorithm=` can name: one table for each."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from cory.config import algorithm, debate, offline, reward, task
from cory.config.base import Settings
from cory.config.errors import require


@dataclass(frozen=True)
class Option:
    """A task, reward or algorithm: its settings, and what builds it from them."""

    settings: type[Settings]
    builder: str  # module:name of a class or function, imported when a run is built


# builder: (settings, tokenizer, random stream of the order of training prompts) -> Task
TASKS: Mapping[str, Option] = {
    "imdb": Option(task.ImdbConfig, "cory.tasks.imdb:ImdbTask"),
    "gsm8k": Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    "arithmetic": Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    "tinygsm": Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    "anli": Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    "math": Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    "mmlu": Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    "prompts": Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    "taboo": Option(task.GameConfig, "cory.tasks.game:GameTask"),
    "twenty_questions": Option(task.GameConfig, "cory.tasks.game:GameTask"),
    "guess_my_city": Option(task.GameConfig, "cory.tasks.game:GameTask"),
}
# builder: (settings, task, device, run) -> Reward
REWARDS: Mapping[str, Option] = {
    "python": Option(reward.PythonRewardConfig, "cory.rewards.python_function:PythonReward"),
    "returned": Option(reward.ReturnedConfig, "cory.rewards.exact_match:Returned"),
    "classifier": Option(reward.ClassifierConfig, "cory.rewards.classifier:Classifier"),
    "sentiment": Option(reward.ClassifierConfig, "cory.rewards.classifier:Classifier"),
    "judge": Option(reward.JudgeConfig, "cory.rewards.judge:Judge"),
    "sum": Option(reward.SumConfig, "cory.rewards:WeightedSum"),
    "exact_match": Option(reward.ExactMatchConfig, "cory.rewards.exact_match:ExactMatch"),
    "verifier": Option(reward.VerifierRewardConfig, "cory.rewards.verifier:Verifier"),
    "game_outcome": Option(reward.GameOutcomeConfig, "cory.rewards.game_outcome:GameOutcome"),
}
# builder: (settings, Parts) -> Algorithm
ALGORITHMS: Mapping[str, Option] = {
    "ppo": Option(algorithm.PPOConfig, "cory.algorithms.ppo:build_ppo"),
    "grpo": Option(algorithm.PPOConfig, "cory.algorithms.ppo:build_ppo"),
    "rloo": Option(algorithm.PPOConfig, "cory.algorithms.ppo:build_ppo"),
    "cory": Option(algorithm.CoryConfig, "cory.algorithms.cory:build_cory"),
    "team": Option(algorithm.TeamConfig, "cory.algorithms.team:build_team"),
    "maporl": Option(debate.MaporlConfig, "cory.algorithms.maporl:build_maporl"),
    "verifier": Option(debate.VerifierConfig, "cory.algorithms.verifier:build_verifier"),
    "sft": Option(debate.SFTConfig, "cory.algorithms.sft:build_sft"),
    "imitation": Option(offline.ImitationConfig, "cory.algorithms.spag:build_imitation"),
    "spag": Option(offline.SpagConfig, "cory.algorithms.spag:build_spag"),
    "maft": Option(debate.MaftConfig, "cory.algorithms.maft:build_maft"),
}
# what a table is called in an error -> the table
KINDS: Mapping[str, Mapping[str, Option]] = {
    "task": TASKS,
    "reward": REWARDS,
    "algorithm": ALGORITHMS,
}


def option(kind: str, name: str) -> Option:
    """The task, reward or algorithm of this name; ConfigError where there is none."""
    known = KINDS[kind]
    require(name in known, f"{kind}.name={name}: must be one of {', '.join(sorted(known))}")
    return known[name]


def load(reference: str) -> Any:
    """The object that `module:name` refers to."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def builder(kind: str, name: str) -> Any:
    """The class or function that builds the task, reward or algorithm of this name."""
    return load(option(kind, name).builder)
