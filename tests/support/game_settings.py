"""Settings of word games, as conf/ has them, with changes."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from cory.config import GameConfig
from tests.support.composing import compose_config

NAMES = ("taboo", "twenty_questions", "guess_my_city")


@cache
def composed(name: str) -> Any:
    return compose_config(f"task={name}").task


def settings_of(name: str = "taboo", **changes: object) -> GameConfig:
    """The settings of task=`name`; a change's key has two underscores for a dot."""
    cfg = copy.deepcopy(composed(name))
    for key, value in changes.items():
        OmegaConf.update(cfg, key.replace("__", "."), value, merge=False)
    return GameConfig.model_validate(OmegaConf.to_container(cfg))


def tokenizer(text: str, **_: object) -> dict[str, list[str]]:
    return {"input_ids": text.split()}
