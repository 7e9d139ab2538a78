"""Chat templates as they are used: with arguments of the user's, and the same date every day."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jinja2 import Environment, TemplateSyntaxError
from jinja2.meta import find_undeclared_variables

from cory.config import ConfigError, require
from cory.config.base import line
from cory.config.model import DATE_FORM, TemplateConfig

# what a template that shows today's date shows in every run, unless a setting says otherwise;
# Llama 3's templates have this one where they know no other
DATE = "26 Jul 2024"
CLOCK = {"date_string", "strftime_now"}  # by these, templates ask for the date
GIVEN = {"messages", "add_generation_prompt", *CLOCK}  # never by the user
MARKS = re.compile(r"{%-?\s*(end)?generation\s*-?%}")  # a tag of the library's, without variables
TODAY = re.compile(r"strftime_now\(\s*(['\"])(.*?)\1\s*\)")
UNFIXED = re.compile(r"strftime_now\s*\(")


@dataclass(frozen=True)
class Template:
    """A chat template, and what it is handed beside the messages."""

    text: str | None = None  # None: there is none
    arguments: dict[str, Any] = field(default_factory=dict)
    date: str | None = None  # what it shows as today's; None: it shows none


def template_of(
    tokenizer: Any | None, settings: TemplateConfig | None, said: str, key: str
) -> Template:
    """The template of a tokenizer, with these settings.

    The library hands plain values to a template, and no clock: dates are written into its text.

    tokenizer: None: of a model that does not chat; settings: None: none are made
    said: the setting that the model comes from; key: `settings`, for refusals
    ConfigError for an argument that it does not read, and where it cannot be read itself
    """
    given = {} if settings is None else dict(settings)
    chosen = {name: value for name, value in given.items() if value is not None}
    date = chosen.pop("date", None)
    text, read = (None, set[str]()) if tokenizer is None else _read(tokenizer, said)
    dated = bool(read & CLOCK)
    require(date is None or dated, f"{key}.date={date}: {said} has no chat template with a date")
    open_to = sorted(read - GIVEN)
    rule = f"{said} has no chat template that reads it, but {', '.join(open_to) or 'nothing'}"
    for name, value in chosen.items():
        require(name in open_to, line(f"{key}.{name}", value, rule))
    shown = date or DATE
    if text is not None and dated:
        day = datetime.strptime(shown, DATE_FORM)
        text = TODAY.sub(lambda found: repr(day.strftime(found[2])), text)
        require(not UNFIXED.search(text), f"{said}: the date in its chat template cannot be set")
    if "date_string" in read:
        chosen["date_string"] = shown
    return Template(text, chosen, shown if dated else None)


def _read(tokenizer: Any, said: str) -> tuple[str, set[str]]:
    """The text of a chat template and the variables that it reads."""
    try:
        text: str = tokenizer.get_chat_template()
        environment = Environment(extensions=["jinja2.ext.loopcontrols"])
        return text, find_undeclared_variables(environment.parse(MARKS.sub("", text)))
    except (ValueError, TemplateSyntaxError) as error:
        raise ConfigError(f"{said}: its chat template cannot be read: {error}") from None
