"""What all settings are: pydantic models whose types hold the bounds, with rules between fields.

No field has a default value: values stand in conf/, with what they mean. And refusals: lines that
name key, value and rule, and the names that were meant by misspelt ones.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from string import Formatter
from typing import Annotated, Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from typing_extensions import Self

# settings, perhaps of a group inside, each with the rule that it breaks
Conflicts = Iterator[tuple[str, str]]
LONGEST = 60  # characters of a value in a line
EXAMPLES = {  # of what must be typed
    "algorithm.play": "my_team.py:play",
    "algorithm.agents": "[planner,solver]",
    "reward.function": "my_reward.py:score",
    "task.path": "my_prompts.jsonl",
    "task.generators": "'{chain_sum: {}}'",
    "model.path": "Qwen/Qwen3-0.6B",
    "hardware.rendezvous": "<first machine>:29500",
}


class Settings(BaseModel):
    """A group of settings. ValidationError where one has no value, a wrong one, or is unknown."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,  # "true" is no number, and 1.5 no whole one
        allow_inf_nan=False,
        defer_build=True,  # a command needs few of the groups
    )

    def conflicts(self) -> Conflicts:
        """What does not go together: settings of this group, and rules that they break."""
        yield from ()

    def replace(self, **changes: Any) -> Self:
        """The same settings but for these."""
        return type(self).model_validate({**dict(self), **changes})


def typed(value: Any) -> str:
    """A value as on the command line, where it is not too long; of a group its option, if any."""
    if isinstance(value, list):
        text = f"[{','.join(map(typed, value))}]"
    elif value is None:
        text = "null"
    elif isinstance(value, Settings):
        text = str(getattr(value, "name", "{...}"))
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def chosen(kind: str) -> BeforeValidator:
    """In the type of a task, reward or algorithm: which model parses it is said by its `name`."""

    def parse(values: Any) -> Any:
        from cory.config.experiment import option  # noqa: PLC0415  names the models

        if isinstance(values, Settings):
            return values
        if not isinstance(values, dict) or "name" not in values:
            raise ValueError(f"must be the settings of a {kind}, with its name")
        return option(kind, values["name"]).settings.model_validate(values)

    return BeforeValidator(parse)


def matching(pattern: str, rule: str) -> AfterValidator:
    """In the type of a text: the whole of it matches a regular expression; rule: in words."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(rule)
        return text

    return AfterValidator(check)


def function_or(*names: str) -> AfterValidator:
    """In the type of a text: one of these names, or that of a function of the user's."""
    known = f"must be one of {', '.join(names)}, or " if names else "must be "
    rule = f"{known}<file>.py:<function> or <module>:<function>"
    return matching("|".join([*names, r".+:[^\W\d]\w*"]), rule)


def _rising(values: list[float]) -> list[float]:
    if sorted(values) != values:
        raise ValueError("must rise")
    return values


# 2024 may be typed without quotes
Text = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
Words = Annotated[Text, Field(min_length=1)]
FunctionName = Annotated[Text, function_or()]  # the name of a function of the user's
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]
ShareBelowOne = Annotated[float, Field(ge=0, lt=1)]
Between0And1 = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Number = Annotated[int, Field(ge=0)]
RISING = AfterValidator(_rising)  # of a list of numbers
TWO = Field(min_length=2, max_length=2)


def with_fields(*needed: str, allowed: Sequence[str] | None = ()) -> AfterValidator:
    """In the type of a text: which {fields} it must have, and which it may have.

    allowed: None: any, as names of columns
    """

    def check(text: str) -> str:
        found = fields_of(text)
        if missing := [field for field in needed if field not in found]:
            raise ValueError(f"must contain {{{missing[0]}}}")
        known = found if allowed is None else [*needed, *allowed]
        for field in found:
            if field not in known or not field.isidentifier():
                raise ValueError(f"must not contain {{{field}}}; double braces that are meant")
        return text

    return AfterValidator(check)


def fields_of(text: str) -> list[str]:
    """The names in a template, each once; ValueError where it is none."""
    found = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
    return list(dict.fromkeys(found))


SECRET = ("base_url", "key_variable")  # who mistakes these settings has put a key there
# what settings are called in TRL: the name here
OF_TRL = {
    "beta": "algorithm.kl_coef",
    "bf16": "model.compute_precision",
    "epsilon": "algorithm.clip_range",
    "epsilon_high": "algorithm.clip_range_high",
    "eval_steps": "evaluate_every",
    "gradient_accumulation_steps": "algorithm.minibatch_size",
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
    "output_dir": "run_dir",
    "per_device_eval_batch_size": "hardware.rollout_batch_size",
    "per_device_train_batch_size": "hardware.microbatch_size",
    "report_to": "wandb.mode",
    "reward_funcs": "reward.function",
    "save_steps": "checkpoint_every",
    "scale_rewards": "algorithm.divide_by_std",
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
    refused = tuple(f"{key}." for key in extra)  # with all that is below
    known = {path: own for path, own in flat(values).items() if not f"{path}.".startswith(refused)}
    return [_line(key, mistake, known) for key, mistake in mistakes]


def _mistakes(error: ValidationError, group: str = "") -> Iterator[tuple[str, Any]]:
    """Each mistake with its setting, also those of a group whose model its name has said."""
    for mistake in error.errors(include_url=False):
        # `literal[...]` and the like: pydantic's words for one of several types
        key = group + ".".join(part for part in map(str, mistake["loc"]) if "[" not in part)
        cause = mistake.get("ctx", {}).get("error")
        if isinstance(cause, ValidationError):
            yield from _mistakes(cause, f"{key}.")
        else:
            yield key, mistake


def _line(key: str, mistake: Any, known: Mapping[str, Any]) -> str:
    if mistake["type"] == "extra_forbidden":
        return no_setting(key, known)
    if mistake["type"] == "missing":
        return f"{key}: no value given"
    return line(key, mistake["input"], mistake["msg"].removeprefix("Value error, "))


def line(key: str, value: Any, rule: str) -> str:
    """The refusal of a value, without the value where that is a secret, or a group."""
    hidden = key.rpartition(".")[2] in SECRET or isinstance(value, Mapping)
    return f"{key}: {rule}" if hidden else f"{key}={typed(value)}: {rule}"


def no_setting(key: str, known: Mapping[str, Any]) -> str:
    """That there is no such setting; and which one was meant, or else which option lacks it.

    known: the settings by their dotted names
    """
    group, _, _ = key.partition(".")
    option = known.get(f"{group}.name") if group in ("task", "reward", "algorithm") else None
    of = f" of {group}={option}" if option else ""
    return f"{key} is not a setting{meant(key, known) or of}"


def meant(key: str, known: Collection[str]) -> str:
    """`; did you mean group.x?` where a setting has a like name, stands in a group, or is TRL's."""
    group, _, leaf = key.rpartition(".")
    ours = OF_TRL.get(leaf, "")
    for path in (f"{group}.{ours.rpartition('.')[2]}", ours):  # of an agent's block its own
        if ours and path in known:
            return f"; did you mean {path}?"
    whole = [path for path in known if path.endswith(f".{key}")]
    beside = [path for path in known if path.rpartition(".")[0] == group]
    inside = [path for path in known if path.startswith(f"{group}.")]
    for paths, like in ((whole, 0.6), (beside, 0.6), (inside, 0.6), (known, 0.8)):
        ends = {path.rpartition(".")[2]: path for path in reversed(list(paths))}
        for end in difflib.get_close_matches(leaf, ends, n=1, cutoff=like):
            return f"; did you mean {ends[end]}?"
    return ""


def no_value(key: str) -> str:
    """What is said of a setting that has to be typed."""
    return f"{key} has no value: type {key}={EXAMPLES.get(key, '...')}"


def plain(cfg: DictConfig) -> dict[str, Any]:
    """The values of a composition; ConfigError where one is missing, or cannot be resolved."""
    try:
        values: Any = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ConfigError):
            cause = cause.__context__
        if cause is not None:  # a resolver of ours refused
            raise cause from None
        require(not isinstance(error, MissingMandatoryValue), no_value(str(error.full_key)))
        said = str(error).splitlines()[0]
        raise ConfigError(f"{error.full_key}: {said}" if error.full_key else said) from None
    return dict(values)


def flat(values: Mapping[str, Any] | DictConfig) -> dict[str, Any]:
    """All settings and groups of settings by their dotted names, those of fewer names first."""
    plain: Any = OmegaConf.to_container(values) if isinstance(values, DictConfig) else values
    found = {str(name): value for name, value in plain.items() if name != "hydra"}
    for name, value in list(found.items()):
        if isinstance(value, Mapping):
            found |= {f"{name}.{path}": own for path, own in flat(value).items()}
    return dict(sorted(found.items(), key=lambda item: (item[0].count("."), item[0])))
