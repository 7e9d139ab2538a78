from __future__ import annotations

from typing import Any

import pytest
from transformers import AutoTokenizer


@pytest.fixture(scope="package")
def tokenizer(tiny_model: str) -> Any:
    return AutoTokenizer.from_pretrained(tiny_model)
