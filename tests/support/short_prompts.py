"""Settings of CORY with prompts of 4 tokens and responses of 6, to reckon with by hand."""

from __future__ import annotations

from cory.config import Config
from tests.support.building import SMALL
from tests.support.composing import parsed


def short_prompts(*words: str) -> Config:
    return parsed(*SMALL, *words)
