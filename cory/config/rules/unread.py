"""Settings that a run does not read, since another setting turns off what they are about."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cory.config.algorithm import GAE
from cory.config.experiment import Config
from cory.config.maft import AGREEING, CORRECT, OWN, SPECIALISED
from cory.config.options import is_own


@dataclass(frozen=True)
class Needs:
    """What a setting is read with."""

    key: str
    values: tuple[Any, ...]  # of which `key` must have one; empty: any but null


_GAE = Needs("algorithm.advantages", (GAE,))  # without it there is no value head
_DATA = Needs("task.source", ("hub", "path"))
_ROWS = Needs("task.source", ("hub", "path", "generated"))  # slices of generated problems, too
_GENERATED = Needs("task.source", ("generated",))
_ADAPTERS = ("adapters", "adapter_copies")
_MIRRORED = Needs("wandb.mode", ("offline", "online"))
_TRANSFER = Needs("algorithm.knowledge_transfer", (True,))
_INSTRUCTIONS = Needs("algorithm.instructions.source", ("hub", "path"))
_OF_A_FILE = ("path", "split", "instruction_column", "input_column", "output_column")
_FEEDBACK = Needs("algorithm.verifier_feedback", (True,))

# a setting, or a group of them -> what it is read with, where the run has both
READ_WITH: Mapping[str, Needs] = {
    **dict.fromkeys(("algorithm.gae_lambda", "algorithm.whiten_advantages"), _GAE),
    **dict.fromkeys(("algorithm.value_coef", "algorithm.value_clip_range"), _GAE),
    **dict.fromkeys(("model.value_init", "model.value_detached", "model.value_dropout"), _GAE),
    "algorithm.gamma": Needs("algorithm.advantages", (GAE, "batch")),
    "algorithm.divide_by_std": Needs("algorithm.advantages", ("group",)),
    "algorithm.kl_target": Needs("algorithm.kl_controller", ("adaptive",)),
    "algorithm.kl_horizon": Needs("algorithm.kl_controller", ("adaptive",)),
    "algorithm.turn_discount": Needs("algorithm.horizon", ("discounted_sum",)),
    "algorithm.official_swap": Needs("algorithm.swap_every", ()),
    "algorithm.guards.repeat_length": Needs("algorithm.guards.max_repeats", ()),
    "algorithm.prompts.own_feedback": _FEEDBACK,
    "algorithm.prompts.feedback": _FEEDBACK,
    "algorithm.prompts.grades": _FEEDBACK,
    "algorithm.prompts.grade_bounds": _FEEDBACK,
    "algorithm.critic_epochs": Needs("algorithm.policies", (SPECIALISED,)),
    "algorithm.critic_learning_rate": Needs("algorithm.policies", (SPECIALISED,)),
    "algorithm.critic_share": Needs("algorithm.select", (OWN,)),
    "algorithm.critic_loss": Needs("algorithm.select", (OWN,)),
    "algorithm.labels": Needs("algorithm.select", (OWN, AGREEING)),
    "algorithm.prompts.hint": Needs("algorithm.select", (CORRECT,)),
    "algorithm.prompts.summarise": Needs("algorithm.summary", (True,)),
    "algorithm.prompts.follow_up_summary": Needs("algorithm.summary", (True,)),
    "algorithm.prompts.generation_id": Needs("algorithm.identities", (True,)),
    "algorithm.prompts.critic_id": Needs("algorithm.identities", (True,)),
    "algorithm.request_texts": Needs("algorithm.requests", (True,)),
    **dict.fromkeys(("partner.value_init", "partner.value_detached"), _GAE),
    "partner.value_dropout": _GAE,
    **{f"algorithm.instructions.{key}": _INSTRUCTIONS for key in _OF_A_FILE},
    "model.adapter": Needs("model.sharing", _ADAPTERS),
    "partner.adapter": Needs("partner.sharing", _ADAPTERS),
    "model.double_quantisation": Needs("model.quantisation", ("nf4",)),
    "partner.double_quantisation": Needs("partner.quantisation", ("nf4",)),
    "reward.double_quantisation": Needs("reward.quantisation", ("nf4",)),
    "task.path": _DATA,
    "task.text_column": _DATA,
    "task.question_column": _DATA,
    "task.answer_column": _DATA,
    "task.train_split": _ROWS,
    "task.test_split": _ROWS,
    "task.subset": Needs("task.source", ("hub",)),
    "task.kinds": _GENERATED,
    "task.train_problems": _GENERATED,
    "task.test_problems": _GENERATED,
    "task.seconds": Needs("task.answers", ("formula",)),
    "task.observer_template": _TRANSFER,
    "task.answer_template": _TRANSFER,
    "task.answer_separator": _TRANSFER,
    "task.texts.styles": Needs("algorithm.varied_prompts", (True,)),
    "task.words": Needs("task.source", ("list",)),
    "task.nouns": Needs("task.source", ("package",)),
    **dict.fromkeys(("wandb.project", "wandb.entity", "wandb.name", "wandb.group"), _MIRRORED),
    **dict.fromkeys(("wandb.tags", "wandb.notes"), _MIRRORED),
    **dict.fromkeys(("wandb.init_timeout", "wandb.finish_timeout"), _MIRRORED),
    "keep_best_mode": Needs("keep_best", ()),
}


def unread(config: Config, keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Of these settings, those that the run does not read, each with the reason in words.

    Algorithms, tasks and rewards of a user's own package may read what ours do not: nothing is said
    of any setting where the algorithm is, nor of those of such a task or reward.
    """
    kinds = ("algorithm", "task", "reward")
    ours = {kind: is_own(kind, getattr(config, kind).name) for kind in kinds}
    for key in keys:
        row = next((row for row in READ_WITH if key == row or key.startswith(f"{row}.")), None)
        if row is None or not (ours["algorithm"] and ours.get(key.partition(".")[0], True)):
            continue
        needs = READ_WITH[row]
        has, value = _value(config, needs.key)
        if not _value(config, row)[0]:
            continue
        if not has:
            if needs == _GAE and not config.algorithm.has_value_head():
                yield key, f"algorithm={config.algorithm.name} has no value head"
        elif value is None if not needs.values else value not in needs.values:
            wanted = " or ".join(map(_typed, needs.values)) or "something"
            yield key, f"it needs {needs.key}={wanted}, which is {_typed(value)}"


def _typed(value: object) -> str:
    """A value as on the command line."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(config: Config, key: str) -> tuple[bool, Any]:
    """Whether a run has a setting, and its value."""
    found: Any = config
    for name in key.split("."):
        if not hasattr(found, name):
            return False, None
        found = getattr(found, name)
    return True, found
