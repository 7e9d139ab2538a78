"""Models of this room, loaded or written once."""

from __future__ import annotations

import pytest
from transformers import PreTrainedModel

from cory.models.loading import load_language_model
from tests.support.llama import save_llama


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a random Llama with a chat template; nobody writes into it."""
    return save_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def model(tiny_model: str) -> PreTrainedModel:
    """The tiny random GPT-2, only to sample from."""
    return load_language_model(tiny_model, "model.path", keep_dropout=False)
