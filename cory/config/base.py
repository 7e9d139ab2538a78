"""What all settings are: pydantic models whose types hold the bounds, with rules between fields.

No field has a default value: values stand in conf/, with what they mean.
"""

from collections.abc import Iterator, Mapping, Sequence
from string import Formatter
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from typing_extensions import Self

Conflict = tuple[str, str]  # a field, perhaps one of a group inside, and the rule that it breaks
GROUP = "{group}"  # in a rule: where the group of the field stands, as `algorithm.`
LONGEST = 60  # characters of a value in a line


class ConflictError(ValueError):
    """Rules that a group of settings breaks: (field, its value, rule) each."""

    def __init__(self, conflicts: Sequence[tuple[str, Any, str]]) -> None:
        said = "; ".join(f"{field}: {rule}" for field, _, rule in conflicts)
        super().__init__(said.replace(GROUP, ""))
        self.conflicts = conflicts


class Settings(BaseModel):
    """A group of settings. ValidationError where one has no value, a wrong one, or is unknown."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,  # "true" is no number, and 1.5 no whole one
        allow_inf_nan=False,
        defer_build=True,  # a command needs few of the groups
    )

    # what a field needs of others, all in the words of `holds`; the rules of one stand in its type
    needs: ClassVar[Mapping[str, str]] = {}

    def conflicts(self) -> Iterator[Conflict]:
        """What else does not go together."""
        yield from ()

    @model_validator(mode="after")
    def _check_conflicts(self) -> Self:
        tables = (vars(kind).get("needs", {}) for kind in reversed(type(self).__mro__))
        unmet = (one for needs in tables for one in unmet_needs(self, needs, GROUP))
        found = [
            (field, value_at(self, field), rule) for field, rule in (*unmet, *self.conflicts())
        ]
        if found:
            raise ConflictError(found)
        return self

    def replace(self, **changes: Any) -> Self:
        """The same settings but for these, checked again."""
        return type(self).model_validate({**dict(self), **changes})


def value_at(settings: Any, key: str) -> Any:
    """The value of a setting by its dotted name; AttributeError where there is none."""
    for name in key.split("."):
        settings = settings[name] if isinstance(settings, dict) else getattr(settings, name)
    return settings


def has(settings: Any, key: str) -> bool:
    """Whether there is a setting of a dotted name."""
    try:
        value_at(settings, key)
    except (AttributeError, KeyError):
        return False
    return True


def holds(settings: Any, word: str, without: bool = False) -> bool:
    """Whether a setting has a value of `key=value|value`, or any but null, 0, and false: `key`.

    without: what is said of settings that have no such key
    """
    key, equals, values = word.partition("=")
    if not has(settings, key):
        return without
    value = value_at(settings, key)
    return typed(value) in values.split("|") if equals else bool(value)


def unmet_needs(settings: Any, needs: Mapping[str, str], group: str = "") -> Iterator[Conflict]:
    """The settings in a table that need others, where these others are not as they must be.

    group: what the names of the others begin with
    """
    for word, needed in needs.items():
        for other in needed.split() if holds(settings, word) else ():
            if not holds(settings, other, without=True):
                value = typed(value_at(settings, other.partition("=")[0]))
                wanted = " or ".join(", ".join(other.split("|")).rsplit(", ", 1))
                yield word.partition("=")[0], f"needs {group}{wanted}, got {value}"


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


def chosen(kind: str, but: Sequence[str] = ()) -> BeforeValidator:
    """In a group's type: which model parses it is said by its `name`.

    kind: task | reward | algorithm
    but: names that it cannot have here
    """

    def parse(values: Any) -> Any:
        from cory.config.options import KINDS, option  # noqa: PLC0415  names the models

        if isinstance(values, Settings):
            return values
        if not isinstance(values, dict) or "name" not in values:
            raise ValueError(f"must be the settings of a {kind}, with its name")
        known = [name for name in sorted(KINDS[kind]) if name not in but]
        if values["name"] not in known:
            raise ConflictError([("name", values["name"], f"must be one of {', '.join(known)}")])
        return option(kind, values["name"]).settings.model_validate(values)

    return BeforeValidator(parse)


def _from_whole_number(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _rising(values: list[float]) -> list[float]:
    if sorted(values) != values:
        raise ValueError("must rise")
    return values


Text = Annotated[str, BeforeValidator(_from_whole_number)]  # 2024 may be typed without quotes
Words = Annotated[Text, AfterValidator(_not_blank)]
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
# iterations of a run, passes over data: what is above is a slip, and would never end
Rounds = Annotated[int, Field(ge=0, le=1_000_000)]
Passes = Annotated[int, Field(ge=1, le=1_000_000)]

SAMPLES = {"number": 1, "max_turns": 1}  # values of fields in templates; those of others are texts


class AnyValue:
    """Stands for a value of a column, whose type is not known before the data are read."""

    def __format__(self, form: str) -> str:
        return "1"  # which may be a width, too


def with_fields(*needed: str, allowed: Sequence[str] | None = ()) -> AfterValidator:
    """In the type of a text: which {fields} it must have, and which it may have.

    allowed: None: any that can be the name of a column
    """

    def check(text: str) -> str:
        found = fields_of(text)
        if missing := [field for field in needed if field not in found]:
            raise ValueError(f"must contain {{{missing[0]}}}")
        columns = {name for name in found if name and not name.isdigit() and not {*".["} & {*name}}
        known = columns if allowed is None else {*needed, *allowed}
        if other := sorted({*found} - known):
            raise ValueError(f"must not contain {{{other[0]}}}")
        own = {*needed, *(allowed or ())}
        values = {name: SAMPLES.get(name, "text") if name in own else AnyValue() for name in found}
        try:
            text.format(**values)  # as it will be: a text has no {query:d}
        except (OverflowError, MemoryError) as error:  # of a width
            raise ValueError(str(error) or "too wide") from None
        return text

    return AfterValidator(check)


def fields_of(text: str) -> list[str]:
    """The names in a template, each once, `answer` of {answer}, {answer!s} and {answer:.20}.

    Those inside a format count, too, `width` of {answer:>{width}}. ValueError where it is none.
    """
    found: dict[str, None] = {}
    for _, field, form, _ in Formatter().parse(text):
        if field is not None:
            found |= dict.fromkeys([field, *fields_of(form or "")])
    return list(found)
