"""What all settings are: pydantic models whose types hold the bounds, with rules between fields.

No field has a default value: values stand in conf/, with what they mean.
"""

import re
from collections.abc import Iterator, Sequence
from string import Formatter
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from typing_extensions import Self

# settings, perhaps of a group inside, each with the rule that it breaks
Conflicts = Iterator[tuple[str, str]]
LONGEST = 60  # characters of a value in a line


class Settings(BaseModel):
    """A group of settings. ValidationError where one has no value, a wrong one, or is unknown."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,  # "true" is no number, and 1.5 no whole one
        allow_inf_nan=False,
        defer_build=True,  # a command needs few of the groups
    )

    def conflicts(self) -> Conflicts:
        """What does not go together: settings of this group, and rules that they break."""
        yield from ()

    def replace(self, **changes: Any) -> Self:
        """The same settings but for these."""
        return type(self).model_validate({**dict(self), **changes})


def typed(value: Any) -> str:
    """A value as on the command line, where it is not too long; of a group its option, if any."""
    if isinstance(value, list):
        text = f"[{','.join(map(typed, value))}]"
    elif value is None:
        text = "null"
    elif isinstance(value, Settings):
        text = str(getattr(value, "name", "{...}"))
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def chosen(kind: str) -> BeforeValidator:
    """In a group's type: which model parses it is said by its `name`.

    kind: task | reward | algorithm
    """

    def parse(values: Any) -> Any:
        from cory.config.experiment import option  # noqa: PLC0415  names the models

        if isinstance(values, Settings):
            return values
        if not isinstance(values, dict) or "name" not in values:
            raise ValueError(f"must be the settings of a {kind}, with its name")
        return option(kind, values["name"]).settings.model_validate(values)

    return BeforeValidator(parse)


def matching(pattern: str, rule: str) -> AfterValidator:
    """In the type of a text: the whole of it matches a regular expression; rule: in words."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(rule)
        return text

    return AfterValidator(check)


def function_or(*names: str) -> AfterValidator:
    """In the type of a text: one of these names, or that of a function of the user's."""
    known = f"must be one of {', '.join(names)}, or " if names else "must be "
    rule = f"{known}<file>.py:<function> or <module>:<function>"
    return matching("|".join([*names, r".+:[^\W\d]\w*"]), rule)


def _from_whole_number(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _rising(values: list[float]) -> list[float]:
    if sorted(values) != values:
        raise ValueError("must rise")
    return values


Text = Annotated[str, BeforeValidator(_from_whole_number)]  # 2024 may be typed without quotes
Words = Annotated[Text, Field(min_length=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]
ShareBelowOne = Annotated[float, Field(ge=0, lt=1)]
Between0And1 = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Number = Annotated[int, Field(ge=0)]
RISING = AfterValidator(_rising)  # of a list of numbers
TWO = Field(min_length=2, max_length=2)


def with_fields(*needed: str, allowed: Sequence[str] | None = ()) -> AfterValidator:
    """In the type of a text: which {fields} it must have, and which it may have.

    allowed: None: any, as names of columns
    """

    def check(text: str) -> str:
        found = fields_of(text)
        if missing := [field for field in needed if field not in found]:
            raise ValueError(f"must contain {{{missing[0]}}}")
        known = found if allowed is None else [*needed, *allowed]
        for field in found:
            if field not in known or not field.isidentifier():
                raise ValueError(f"must not contain {{{field}}}; double braces that are meant")
        return text

    return AfterValidator(check)


def fields_of(text: str) -> list[str]:
    """The names in a template, each once; ValueError where it is none."""
    found = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
    return list(dict.fromkeys(found))
