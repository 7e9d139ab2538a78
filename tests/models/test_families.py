"""Chat models of the families of conf/model, tiny and random: from their prompts to export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cory.config import Config
from cory.models.bundle import ModelBundle
from tests.support.chat_models import FAMILIES, save_chat_model

# what a template puts after an answer that ends a model's turn
ENDS = {**{family: "<|im_end|>" for family in FAMILIES}, "llama3": "<|eot_id|>",
        "gemma3": "<end_of_turn>", "phi4_mini": "<|end|>", "mistral": "</s>"}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_a_turn_ends_where_the_template_ends_it(
    family: str, config_of: Callable[..., Config], tmp_path: Path
) -> None:
    path = save_chat_model(family, tmp_path)
    bundle = ModelBundle(config_of().model.replace(path=path, chat=True), torch.device("cpu"))
    ids = bundle.tokenizer.convert_tokens_to_ids([ENDS[family], *FAMILIES[family].ends])
    assert bundle.texts.end == ids[0]
    assert bundle.stops >= {*ids}
