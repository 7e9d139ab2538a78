"""What tests of teams share."""

from pathlib import Path

import pytest

from cory.config import Config
from tests.support.composing import ConfigOf


@pytest.fixture
def team(config_of: ConfigOf, tmp_path: Path) -> ConfigOf:
    """Settings of a team whose file has this text: `team(text, *overrides)`."""

    def made(text: str, *overrides: str) -> Config:
        file = tmp_path / f"team_{abs(hash(text))}.py"
        file.write_text(text)
        words = ["algorithm=team", f"algorithm.play={file}:play", "algorithm.agents=[one,two]"]
        return config_of(*words, *overrides)

    return made
