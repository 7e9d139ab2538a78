"""The evaluation of agents before any training, which the last evaluation is compared with."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache

from cory import distributed
from cory.algorithms import Algorithm
from cory.config import Config, GameConfig, is_own, judges
from cory.episode import Prompt
from cory.evaluation.evaluate import BeforeEach
from cory.evaluation.prompt_scores import BEFORE
from cory.evaluation.responses import EvalRequest
from cory.evaluation.shared_evaluations import SharedEvaluations, key_of
from cory.models.fingerprint import weights_fingerprint
from cory.models.places import resolve
from cory.runs.partial_results import PartialResults, file_of
from cory.runs.run_dir import EVALUATION
from cory.tasks import Task

BEFORE_ANY = -1  # its iteration in records; the first one is 0
# settings of algorithms that only training reads
TRAINING_ONLY = {
    *("iterations", "iterations_per_epoch", "prompts_per_iteration", "samples_per_prompt"),
    *("minibatch_size", "epochs", "learning_rate", "schedule", "warmup", "final_share"),
    *("optimizer", "weight_decay", "max_grad_norm", "advantages", "divide_by_std"),
    *("group_baseline", "ratio", "loss_average", "loss_average_turns", "clip_range"),
    *("clip_range_high", "value_clip_range", "value_coef", "gamma", "gae_lambda"),
    "value_learning_rate",
    *("whiten_advantages", "kl_estimator", "kl_in", "kl_loss", "kl_coef", "kl_controller"),
    *("kl_target", "kl_horizon", "score_scaling", "score_clip", "max_mean_ratio", "stop"),
    *("swap_every", "collective_reward", "credit", "official_swap", "horizon", "share"),
    *("turn_discount", "alpha", "beta", "official_shaping", "bonus_from", "guards"),
    *("alternation", "keep_share", "critic_share", "critic_loss", "critic_epochs"),
    *("critic_learning_rate", "labels"),
    *("later_learning_rate", "decay", "normaliser", "threshold", "kl_in_advantage"),
    *("log_probability", "average", "role_weights", "instructions_coef", "collect_only"),
}


def wanted(config: Config) -> bool:
    """Whether agents are evaluated before the training: where there is one."""
    algorithm = config.algorithm
    trains = algorithm.iterations > 0 and not getattr(algorithm, "collect_only", False)
    return config.evaluation.before and trains


class Untrained:
    """The evaluation of a run's agents as they are before its first iteration."""

    def __init__(
        self, algorithm: Algorithm, config: Config, task: Task, sources: Mapping[str, str]
    ) -> None:
        """sources: hashes of the user's own code that scores responses, by the function in it"""
        prompts = task.held_out(config.evaluation.prompts, config.evaluation.split)
        self.algorithm = algorithm
        self.config = config
        self.request = EvalRequest(
            config.evaluation, config.seed, BEFORE_ANY, final=False, untrained=True
        )
        # a run that is killed before its first checkpoint finds its responses there
        folder = Path(config.run_dir) / EVALUATION
        self.place = file_of(folder, BEFORE_ANY)
        store = config.untrained_store
        self.store = SharedEvaluations(
            Path(store) if store is not None and may_be_shared(config) else None
        )
        self.key = distributed.from_first(
            key_of(decisive(config, prompts) | of_sources(sources))
            if distributed.rank() == 0
            else ""
        )

    def measure(self, before_each: BeforeEach) -> list[dict[str, Any]]:
        """Evaluate, into `request.scores`; the lines for samples.jsonl."""
        weights = weights_fingerprint(self.algorithm.agents)
        key = key_of({"settings": self.key, "weights": weights})
        if distributed.rank() == 0:
            self.store.fetch(key, self.place)
        distributed.wait_for_all()
        results = PartialResults(self.place.parent, key)
        self.algorithm.evaluate(self.request, results, before_each)
        lines = [line | {"kind": BEFORE} for line in results.lines]
        results.close()
        if distributed.rank() == 0:
            self.store.offer(key, self.place)
        return lines

    def put_away(self) -> None:
        """Remove the responses once they are in the records that a checkpoint knows."""
        if distributed.rank() == 0 and self.place.exists():
            self.place.unlink()
            if not any(self.place.parent.iterdir()):
                self.place.parent.rmdir()


def of_sources(sources: Mapping[str, str]) -> dict[str, Any]:
    """What a key says of the user's own code; nothing where there is none."""
    return {"sources": dict(sources)} if sources else {}


def may_be_shared(config: Config) -> bool:
    """Whether the settings say all about the responses and their scores.

    They do not where a function of the user's, an endpoint or another package's code plays a part.
    """
    algorithm = config.algorithm
    own = judges(config.reward).values()
    named = {"task": config.task.name, "algorithm": algorithm.name, "reward": config.reward.name}
    if isinstance(config.task, GameConfig):
        named["game"] = config.task.game
    return not (
        algorithm.endpoint_asked() is not None
        or any(hasattr(judge, "function") or hasattr(judge, "endpoint") for judge in own)
        or not all(is_own(kind, name) for kind, name in named.items())
        or not all(is_own("reward", judge.name) for judge in own)
    )


def decisive(config: Config, prompts: Sequence[Prompt]) -> dict[str, Any]:
    """What decides what untrained agents say, but for their weights, and what it is worth."""
    whole = asdict(config)
    groups = ("model", "partner", "task", "reward", "evaluation", "hardware", "seed", "init_from")
    algorithm = {
        key: value for key, value in whole["algorithm"].items() if key not in TRAINING_ONLY
    }
    models = {
        key: place_of(str(model.path), f"{key}.path")
        for key, model in {
            "model": config.model,
            "partner": config.partner,
            **judges(config.reward),
        }.items()
        if getattr(model, "path", None) is not None
    }
    asked = json.dumps([(p.id, p.text, p.answer, p.messages) for p in prompts], default=dict)
    return {group: whole[group] for group in groups} | {
        "algorithm": algorithm,
        "models": models,
        # not their texts, of which one might name a file
        "prompts": hashlib.sha256(asked.encode()).hexdigest(),
    }


def place_of(path: str, key: str) -> str:
    """The folder of a model; of one from the hub its place in the cache, which names the commit."""
    place = resolve(path, key)
    cached = None if Path(place).is_dir() else try_to_load_from_cache(place, "config.json")
    return cached if isinstance(cached, str) else place
