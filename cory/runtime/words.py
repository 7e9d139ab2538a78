"""The words of the command line: those of the command itself, and those that settings get."""

import json
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from cory.config.names import key_of

# environment variable: the typed words as JSON, for launchers whose jobs are processes of their own
TYPED = "CORY_TYPED"
OWN_FOLDER = ("--config-dir", "-cd")
NAME = "hydra.job.name"


def keep_typed(words: Sequence[str]) -> None:
    """Remember the words of the command, for its jobs."""
    os.environ[TYPED] = json.dumps(list(words))


def typed() -> list[str]:
    """The words of the command that this job belongs to."""
    return list(json.loads(os.environ[TYPED])) if TYPED in os.environ else sys.argv[1:]


def is_setting(word: str) -> bool:
    """Whether a word is a setting of runs: no option of the command, and none of Hydra's own."""
    return not word.startswith("-") and not key_of(word).startswith("hydra")


def own_folder(words: Sequence[str]) -> Path | None:
    """The folder that --config-dir names on the command line."""
    for word, following in pairwise([*words, ""]):
        option, equals, value = word.partition("=")
        if option in OWN_FOLDER:
            return Path(value if equals else following)
    return None


def in_one_word(words: Sequence[str]) -> list[str]:
    """The words of the command line, `--config-dir FOLDER` as `--config-dir=FOLDER`."""
    pairs = pairwise(["", *words, ""])
    joined = [
        f"{word}={after}" if word in OWN_FOLDER else word
        for (before, word), (_, after) in pairwise(pairs)
        if before not in OWN_FOLDER
    ]
    return joined


def own_words() -> list[str]:
    """The option that names a folder of the user's own options, wherever the command is typed."""
    own = own_folder(typed())
    return [] if own is None else [f"--config-dir={own.expanduser().absolute()}"]


def typed_words() -> list[str]:
    """The overrides of a run: `${oc.env:NAME}` stays a text, as in the settings.

    Of a run in conf/sweeps also the word that names it.
    """
    overrides = HydraConfig.get().overrides
    named = [word for word in overrides.hydra if key_of(word) == NAME]
    return [*unresolved(overrides.task), *named[-1:]]


def unresolved(words: Any) -> list[str]:
    """Words as they were typed; items of Hydra's own list would be resolved."""
    plain: Any = OmegaConf.to_container(words, resolve=False)
    return [str(word) for word in plain]


def asked_words() -> list[str]:
    """Of a run's words those that were typed; not all runs read what their sweep lists."""
    keys = {key_of(word) for word in typed()}
    return [word for word in typed_words() if key_of(word) in keys]


def alternatives(words: Sequence[str]) -> dict[str, list[str]]:
    """Key -> words, one for each value that a word lists; none for an interval of values."""
    found: dict[str, list[str]] = {}
    for word in OverridesParser.create().parse_overrides(list(words)):
        key = word.get_key_element()
        if not word.is_sweep_override():
            found[key] = [word.input_line or ""]
        elif word.is_discrete_sweep():
            found[key] = [f"{key}={value}" for value in word.sweep_string_iterator()]
        else:
            found[key] = []
    return found
