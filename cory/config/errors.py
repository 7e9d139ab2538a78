"""Refusals: lines that name key, value and rule; and the names that were meant by misspelt ones."""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from omegaconf import DictConfig, OmegaConf
from pydantic import ValidationError

from cory.config.base import GROUP, ConflictError, Settings, typed

Place = tuple[str | int, ...]  # names of groups, of a setting, perhaps the number of an item
SECRET = ("base_url", "key_variable")  # who mistakes these settings has put a key there
WORDS = {  # pydantic's: ours
    "Input should": "must",
    "List should": "must",
    "String should": "must",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "'": "",
}
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


@contextmanager
def renamed(group: str, place: str, settings: Any) -> Iterator[None]:
    """Refusals about the settings of `group` name them by the place where they stand instead.

    settings: of the group
    """
    try:
        yield
    except ConfigError as error:
        keys = "|".join(type(settings).model_fields)
        own = re.sub(rf"\b{group}\.(?=({keys})\b)", f"{place}.", str(error))
        raise ConfigError(own) from error.__cause__


def nearest(name: str, known: Sequence[str]) -> str:
    """`; did you mean x?` when a known name is close, else nothing."""
    near = difflib.get_close_matches(name, [k for k in known if k != name], n=1)
    return f"; did you mean {near[0]}?" if near else ""


def lines_of(error: ValidationError, values: Mapping[str, Any] | None = None) -> list[str]:
    """A line for each mistake, as `algorithm.epochs=0: must be at least 1`.

    values: what was refused, with the names that may have been meant
    """
    mistakes = list(_mistakes(error))
    extra = {_key(place) for place, mistake in mistakes if mistake["type"] == "extra_forbidden"}
    known = {path: value for path, value in flat(values or {}).items() if path not in extra}
    lines = (_line(place, mistake, known) for place, mistake in mistakes)
    return list(dict.fromkeys(line for some in lines for line in some))


def _mistakes(error: ValidationError, group: Place = ()) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Each mistake with its place, also those of a group whose model its name has said.

    group: place of what was refused
    """
    for mistake in error.errors(include_url=False):
        place = (*group, *(name for name in mistake["loc"] if name != "[key]"))
        cause = mistake.get("ctx", {}).get("error")
        if isinstance(cause, ValidationError):
            yield from _mistakes(cause, place)
        else:
            yield place, {"cause": cause, **mistake}


def _line(place: Place, mistake: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    key, kind, cause = _key(place), mistake["type"], mistake["cause"]
    if isinstance(cause, ConflictError):
        group = f"{key}." if key else ""
        for field, value, rule in cause.conflicts:
            yield line(f"{group}{field}", value, rule.replace(GROUP, group))
    elif kind == "extra_forbidden":
        yield f"{key} is not a setting{meant(key, known) or _of_option(key, known)}"
    elif kind == "missing":
        yield f"{key}: no value given"
    else:
        rule = _as_rule(mistake["msg"]) if cause is None else str(cause)
        number = next((name for name in place if isinstance(name, int)), None)
        value = mistake["input"]
        if number is not None:  # one of a list
            rule, value = f"number {number + 1} {rule}", known.get(key, value)
        yield line(key, value, rule)


def _key(place: Place) -> str:
    """The dotted name of a setting, without the number of an item of a list."""
    names = [str(name) for name in place]
    item = next((n for n, name in enumerate(place) if isinstance(name, int)), len(names))
    return ".".join(names[:item])


def _as_rule(message: str) -> str:
    """A rule in pydantic's words, as ours begin."""
    message = message.partition(" after validation")[0]
    for theirs, ours in WORDS.items():
        message = message.replace(theirs, ours)
    return message


def line(key: str, value: Any, rule: str) -> str:
    """The refusal of a value, without the value where that is a secret or a group."""
    hidden = key.rpartition(".")[2] in SECRET or isinstance(value, Mapping | Settings)
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


def _of_option(key: str, known: Mapping[str, Any]) -> str:
    """An experiment may have set it for another option, in whose place this one was typed."""
    group, dot, _ = key.partition(".")
    name = known.get(f"{group}.name")
    if not dot or group not in ("task", "algorithm", "reward") or name is None:
        return ""
    return f" of {group}={name}; where a file sets it, ~{key} leaves it out"


def flat(values: Mapping[str, Any] | DictConfig) -> dict[str, Any]:
    """All settings and groups of settings by their dotted names, those of fewer names first."""
    plain: Any = OmegaConf.to_container(values) if isinstance(values, DictConfig) else values
    found = {str(name): value for name, value in plain.items() if name != "hydra"}
    for name, value in list(found.items()):
        if isinstance(value, Mapping):
            found |= {f"{name}.{path}": own for path, own in flat(value).items()}
    return dict(sorted(found.items(), key=lambda item: (item[0].count("."), item[0])))
