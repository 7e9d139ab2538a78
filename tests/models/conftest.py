"""A model of this room, loaded once."""

from __future__ import annotations

import pytest
from transformers import PreTrainedModel

from cory.models.loading import load_language_model


@pytest.fixture(scope="session")
def model(tiny_model: str) -> PreTrainedModel:
    """The tiny random GPT-2, only to sample from."""
    return load_language_model(tiny_model, "model.path", keep_dropout=False)
