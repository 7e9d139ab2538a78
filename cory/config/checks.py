"""Refusals: one line that names the key, the value and the rule."""

import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class ConfigError(ValueError):
    """A setting that cannot be: a line each that names the key, the value and the rule."""


def require(condition: bool, message: str) -> None:
    """Raise ConfigError with `message` unless `condition` holds."""
    if not condition:
        raise ConfigError(message)


@contextmanager
def renamed(group: str, place: str, settings: Any) -> Iterator[None]:
    """Refusals about the settings of `group` name them by the place where they stand instead.

    settings: of the group
    """
    try:
        yield
    except ConfigError as error:
        keys = "|".join(type(settings).model_fields)
        own = re.sub(rf"\b{group}\.(?=({keys})\b)", f"{place}.", str(error))
        raise ConfigError(own) from error.__cause__


def nearest(name: str, known: Sequence[str]) -> str:
    """`; did you mean x?` when a known name is close, else nothing."""
    near = difflib.get_close_matches(name, [k for k in known if k != name], n=1)
    return f"; did you mean {near[0]}?" if near else ""
