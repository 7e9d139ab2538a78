"""Settings of word games, as conf/ has them, with changes."""

import copy

from omegaconf import OmegaConf

from cory.config import GameConfig
from tests.support.composing import composed

NAMES = ("taboo", "twenty_questions", "guess_my_city")


def settings_of(name: str = "taboo", **changes: object) -> GameConfig:
    """The settings of task=`name`; a change's key has two underscores for a dot."""
    cfg = copy.deepcopy(composed(f"task={name}").task)
    for key, value in changes.items():
        OmegaConf.update(cfg, key.replace("__", "."), value, merge=False)
    return GameConfig.model_validate(OmegaConf.to_container(cfg, resolve=True))


def tokenizer(text: str, **_: object) -> dict[str, list[str]]:
    return {"input_ids": text.split()}
