"""Whether the environment variables behind a run's settings hold what they held at its start.

`config.yaml` keeps `${oc.env:NAME}` as text, so that a comparison of texts would let a run go on
with another learning rate or file. `environment.json` keeps a salted hash of each value: enough to
compare, not to read.
"""

import hashlib
import json
import secrets
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from cory.config import ConfigError
from cory.runs.stored_settings import ENVIRONMENT, comparable_settings

FILE = "environment.json"
# scrypt's parameters: 16 MiB and some 50 ms a value, so that short secrets are slow to guess
COST = {"n": 2**14, "r": 8, "p": 1}
BEGINNING = '{\n "salt": '  # of the file


def values_of(cfg: DictConfig) -> dict[str, str]:
    """Settings by dotted keys that an environment variable decides, with what they are now."""
    kept = {k: v for k, v in comparable_settings(cfg).items() if f"${{{ENVIRONMENT}:" in str(v)}
    found = {key: OmegaConf.select(cfg, key) for key in kept}
    return {
        key: str(
            OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
        )
        for key, value in found.items()
    }


def hashes_of(cfg: DictConfig) -> str | None:
    """The contents of `environment.json`; None where no variable decides a setting."""
    values = values_of(cfg)
    if not values:
        return None
    salt = secrets.token_hex(16)
    hashes = {key: _hash(value, salt) for key, value in values.items()}
    return json.dumps({"salt": salt, "scrypt": hashes}, indent=1) + "\n"


def changed_value(run_dir: Path, cfg: DictConfig) -> str | None:
    """The first setting whose variable holds something else than at the start; None: none does."""
    values = values_of(cfg)
    path = run_dir / FILE
    if not values or not path.exists():
        return None
    try:
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        salt, hashes = str(stored["salt"]), dict(stored["scrypt"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{path} cannot be read; delete it to trust the variables") from error
    for key, value in values.items():
        if hashes.get(key) != _hash(value, salt):
            return key
    return None


def _hash(value: str, salt: str) -> str:
    return hashlib.scrypt(value.encode(), salt=salt.encode(), **COST).hex()
