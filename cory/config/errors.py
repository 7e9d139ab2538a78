"""Refusals: lines that name key, value and rule; and the names that were meant by misspelt ones."""

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf
from pydantic import ValidationError

from cory.config.base import typed

SECRET = ("base_url", "key_variable")  # who mistakes these settings has put a key there
# what settings are called in TRL: the name here
OF_TRL = {
    "beta": "algorithm.kl_coef",
    "bf16": "model.compute_precision",
    "epsilon": "algorithm.clip_range",
    "cliprange": "algorithm.clip_range",
    "cliprange_value": "algorithm.value_clip_range",
    "epsilon_high": "algorithm.clip_range_high",
    "eval_steps": "evaluate_every",
    "gradient_accumulation_steps": "algorithm.minibatch_size",
    "init_kl_coef": "algorithm.kl_coef",
    "lam": "algorithm.gae_lambda",
    "lora_r": "model.adapter.rank",
    "lora_alpha": "model.adapter.alpha",
    "loss_type": "algorithm.loss_average",
    "lr": "algorithm.learning_rate",
    "lr_scheduler_type": "algorithm.schedule",
    "max_completion_length": "algorithm.sampling.max_response_tokens",
    "max_new_tokens": "algorithm.sampling.max_response_tokens",
    "max_prompt_length": "task.max_prompt_tokens",
    "max_steps": "algorithm.iterations",
    "model_name_or_path": "model.path",
    "num_generations": "algorithm.samples_per_prompt",
    "num_iterations": "algorithm.epochs",
    "num_ppo_epochs": "algorithm.epochs",
    "optim": "algorithm.optimizer",
    "output_dir": "run_dir",
    "per_device_eval_batch_size": "hardware.rollout_batch_size",
    "per_device_train_batch_size": "hardware.microbatch_size",
    "report_to": "wandb.mode",
    "reward_funcs": "reward.function",
    "save_steps": "checkpoint_every",
    "scale_rewards": "algorithm.divide_by_std",
    "vf_coef": "algorithm.value_coef",
    "warmup_ratio": "algorithm.warmup",
}


class ConfigError(ValueError):
    """A setting that cannot be: a line each that names the key, the value and the rule."""


def require(condition: bool, message: str) -> None:
    """Raise ConfigError with `message` unless `condition` holds."""
    if not condition:
        raise ConfigError(message)


def nearest(name: str, known: Sequence[str]) -> str:
    """`; did you mean x?` when a known name is close, else nothing."""
    near = difflib.get_close_matches(name, [k for k in known if k != name], n=1)
    return f"; did you mean {near[0]}?" if near else ""


def lines_of(error: ValidationError, values: Mapping[str, Any]) -> list[str]:
    """A line for each mistake, as `algorithm.epochs=0: Input should be greater than or equal to 1`.

    values: what was refused, with the names that may have been meant
    """
    mistakes = list(_mistakes(error))
    extra = {key for key, mistake in mistakes if mistake["type"] == "extra_forbidden"}
    known = [path for path in flat(values) if path not in extra]
    return [_line(key, mistake, known) for key, mistake in mistakes]


def _mistakes(error: ValidationError, group: str = "") -> Iterator[tuple[str, Any]]:
    """Each mistake with its setting, also those of a group whose model its name has said.

    group: dotted name of what was refused
    """
    for mistake in error.errors(include_url=False):
        key = group + ".".join(map(str, mistake["loc"]))
        cause = mistake.get("ctx", {}).get("error")
        if isinstance(cause, ValidationError):
            yield from _mistakes(cause, f"{key}.")
        else:
            yield key, mistake


def _line(key: str, mistake: Any, known: Sequence[str]) -> str:
    if mistake["type"] == "extra_forbidden":
        return f"{key} is not a setting{meant(key, known)}"
    if mistake["type"] == "missing":
        return f"{key}: no value given"
    return line(key, mistake["input"], mistake["msg"].removeprefix("Value error, "))


def line(key: str, value: Any, rule: str) -> str:
    """The refusal of a value, without the value where that is a secret, or a group."""
    hidden = key.rpartition(".")[2] in SECRET or isinstance(value, Mapping)
    return f"{key}: {rule}" if hidden else f"{key}={typed(value)}: {rule}"


def meant(key: str, known: Collection[str]) -> str:
    """`; did you mean group.x?` where a setting has a like name, stands in a group, or is TRL's.

    known: the dotted names of all settings
    """
    group, _, leaf = key.rpartition(".")
    if OF_TRL.get(leaf) in known:
        return f"; did you mean {OF_TRL[leaf]}?"
    whole = [path for path in known if path.endswith(f".{key}")]
    for paths in ([path for path in known if path.rpartition(".")[0] == group], whole, known):
        ends = {path.rpartition(".")[2]: path for path in reversed(list(paths))}
        for end in difflib.get_close_matches(leaf, ends, n=1):
            return f"; did you mean {ends[end]}?"
    return ""


def flat(values: Mapping[str, Any] | DictConfig) -> dict[str, Any]:
    """All settings and groups of settings by their dotted names, those of fewer names first."""
    plain: Any = OmegaConf.to_container(values) if isinstance(values, DictConfig) else values
    found = {str(name): value for name, value in plain.items() if name != "hydra"}
    for name, value in list(found.items()):
        if isinstance(value, Mapping):
            found |= {f"{name}.{path}": own for path, own in flat(value).items()}
    return dict(sorted(found.items(), key=lambda item: (item[0].count("."), item[0])))
