"""Refusals: one line that names the key, the value and the rule."""

import difflib
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from string import Formatter
from typing import Any

SAMPLES = {"number": 1, "max_turns": 1}  # values of fields in templates; those of others are texts
MOST_ROUNDS = 1_000_000  # iterations of a run, passes over data: above it is a slip


class ConfigError(ValueError):
    """A setting that cannot be: one line that names the key, the value and the rule."""


def require(condition: bool, message: str) -> None:
    """Raise ConfigError with `message` unless `condition` holds."""
    if not condition:
        raise ConfigError(message)


def require_choice(key: str, value: object, choices: tuple[object, ...]) -> None:
    require(value in choices, f"{key} must be one of {', '.join(map(str, choices))}, got {value}")


def require_at_least(key: str, value: float, least: float) -> None:
    require(least <= value < math.inf, f"{key} must be at least {least}, got {value}")


def require_count(key: str, value: int, least: int, most: int) -> None:
    """A number of rounds of work; above `most` it is a slip, and would never end."""
    require_at_least(key, value, least)
    require(value <= most, f"{key} must be at most {most}, got {value}")


def require_positive(key: str, value: float) -> None:
    require(0 < value < math.inf, f"{key} must be above 0 and finite, got {value}")


def fields_of(template: str) -> list[str]:
    """The names in a template, each once, `answer` of {answer}, {answer!s} and {answer:.20}.

    Those inside a format count, too, `width` of {answer:>{width}}. ValueError where it is none.
    """
    found: dict[str, None] = {}
    for _, field, form, _ in Formatter().parse(template):
        if field is not None:
            found |= dict.fromkeys([field, *fields_of(form or "")])
    return list(found)


class AnyValue:
    """Stands for a value of a column, whose type is not known before the data are read."""

    def __format__(self, form: str) -> str:
        return "1"  # which may be a width, too


def require_fields(
    key: str, template: str, needed: tuple[str, ...], allowed: tuple[str, ...] | None = ()
) -> None:
    """Every one of `needed` as {field} in the template, and no others but `allowed`.

    allowed: None: any others that can be the name of a column
    It is formatted once, as it will be: a text has no {query:d}.
    """
    try:
        found = fields_of(template)
    except ValueError as error:
        raise ConfigError(f"{key}='{template}': {error}") from None
    for field in needed:
        require(field in found, f"{key} must contain {{{field}}}, got '{template}'")
    columns = {name for name in found if name and not name.isdigit() and not {*".["} & {*name}}
    other = sorted({*found} - (columns if allowed is None else {*needed, *allowed}))
    require(not other, f"{key} must not contain {{{''.join(other[:1])}}}, got '{template}'")
    values = {
        name: AnyValue() if allowed is None and name not in needed else SAMPLES.get(name, "text")
        for name in found
    }
    try:
        template.format(**values)
    except (ValueError, OverflowError, MemoryError) as error:  # MemoryError: of a width
        raise ConfigError(f"{key}='{template}': {str(error) or 'too wide'}") from None


@contextmanager
def renamed(group: str, place: str, settings: Any) -> Iterator[None]:
    """Refusals about the settings of `group` name them by the place where they stand instead.

    settings: the dataclass of the group, or one of its instances
    """
    try:
        yield
    except ConfigError as error:
        keys = "|".join(field.name for field in fields(settings))
        own = re.sub(rf"\b{group}\.(?=({keys})\b)", f"{place}.", str(error))
        raise ConfigError(own) from error.__cause__


def exact_div(a: int, b: int, a_key: str, b_key: str) -> int:
    """a / b; ConfigError where it leaves a remainder."""
    require(a % b == 0, f"{a_key} ({a}) must be a multiple of {b_key} ({b})")
    return a // b


def nearest(name: str, known: Sequence[str]) -> str:
    """`; did you mean x?` when a known name is close, else nothing."""
    near = difflib.get_close_matches(name, [k for k in known if k != name], n=1)
    return f"; did you mean {near[0]}?" if near else ""
