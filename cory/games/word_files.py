"""Files of words that games are about; read without the dictionaries of word forms."""

import json
from pathlib import Path

from cory.config import ConfigError, require


def read_words(path: Path, key: str) -> list[str]:
    """The different words of a .txt file, one a line, or of a .json list, in their order.

    key: the setting that `path` comes from
    """
    require(path.is_file(), f"{key}={path}: there is no such file")
    require(path.suffix in (".txt", ".json"), f"{key}={path} must end in .txt or .json")
    try:
        text = path.read_text(encoding="utf-8")
        words = json.loads(text) if path.suffix == ".json" else text.splitlines()
    except ValueError as error:
        raise ConfigError(f"{key}={path}: cannot be read: {error}") from None
    require(
        isinstance(words, list) and all(isinstance(word, str) for word in words),
        f"{key}={path} must hold a list of words",
    )
    return list(dict.fromkeys(word.strip() for word in words if word.strip()))
