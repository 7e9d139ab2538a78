"""Values in conf/ that changed after runs had begun with another one: `${begun_with:value}`.

A new run has the value; a run directory keeps the one that it began with, so that the same command
still finishes it. A value that was typed is compared as it is.
"""

import re
from typing import Any

from omegaconf import DictConfig, OmegaConf

from cory.config.added import ADDED

RESOLVER = "begun_with"
WRITTEN = re.compile(r"\$\{" + RESOLVER + r":[^}]*\}")


def keep_begun(cfg: DictConfig, stored: Any) -> None:
    """Give every setting that conf/ writes this way the value that a run has begun with.

    A run that has begun before the setting came keeps the value of then.

    stored: a group of config.yaml of that run; it may lack the setting
    """
    if not isinstance(stored, DictConfig):
        return
    for key in cfg:
        inner = cfg._get_node(key)
        if isinstance(inner, DictConfig) and not inner._is_none():
            keep_begun(inner, stored.get(key))
        elif WRITTEN.fullmatch(str(inner and inner._value())):
            if key in stored:
                cfg[key] = stored[key]
            elif key in ADDED and ADDED[key][0] in stored:
                cfg[key] = ADDED[key][1]


def _value(value: Any) -> Any:
    return value


OmegaConf.register_new_resolver(RESOLVER, _value, replace=True)
