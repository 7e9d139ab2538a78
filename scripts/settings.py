"""Write docs/settings.md: each setting with what it may be, its value in conf/, and its meaning.

    python scripts/settings.py           # writes the page
    python scripts/settings.py --check   # fails where the page is out of date

Types, bounds and choices are those of the models in cory/config; values and meanings are those of
the files in conf/, whose comments stand beside or above a setting.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml  # type: ignore[import-untyped]  # mypy's stubs are not installed

from cory.config.base import Settings
from cory.config.debate import DebatePrompts, MaftPrompts, RequestsConfig
from cory.config.experiment import ALGORITHMS, REWARDS, TASKS, Config, HardwareConfig
from cory.config.model import EndpointConfig, ModelConfig, PackedConfig
from cory.config.task import GameTexts, JudgeEndpointConfig, ProgramsConfig, ScriptedConfig

ROOT = Path(__file__).resolve().parents[1]
CONF, PAGE = ROOT / "conf", ROOT / "docs" / "settings.md"
WIDTH = 120  # characters of a line
LONGEST = 20  # ... of a value; longer ones stand in conf/ alone
# the options whose settings are listed, of each group the first ones with most of them
LISTED = {
    "algorithm": (ALGORITHMS, "ppo cory team maporl debate_sft sft verifier imitation spag maft"),
    "task": (TASKS, "prompts reasoning_gym imdb taboo"),
    "reward": (REWARDS, "python classifier judge sum verifier game_outcome"),
}
ELSEWHERE = (  # groups of settings that are not listed where they stand, as the page's head says
    ProgramsConfig,
    EndpointConfig,
    JudgeEndpointConfig,
    DebatePrompts,
    MaftPrompts,
    RequestsConfig,
    GameTexts,
    ScriptedConfig,
)
HEAD = """\
# Settings
Made by `make settings` from the models in [`cory/config/`](../cory/config) and the comments in
[`conf/`](../conf), where longer texts are. A setting that several options of a group have stands
at the first of them, with that one's value; `???` has to be given. `--cfg job` shows a run's. Of a
classifier or verifier, `precision` and its neighbours are as of a model, of players and judges
`endpoint` is as below; texts of debates and games, and programs, are in `conf/` alone.
"""
TABLE = ["| setting | may be | value | what it is |", "| --- | --- | --- | --- |"]
LINE = re.compile(r'( *)(\w+): *("(?:[^"\\]|\\.)*"|[^#]*?) *(?:# (.*))?$')
COMMENT = re.compile(r"( *)# (.*)$")
WORDS = {"integer": "whole", "boolean": "true, false", "string": "text", "object": "by name"}
OR_NULL = " or null"
CHOICES = re.compile(r"\w+( \| \w+)*")
BESIDE = 20  # spaces before a comment that goes on beside values
MOST_COLUMNS = 2  # of a data set, with a row of their own each
ELLIPSIS = " ..."
CHOICE = r" \|"  # before another choice, in a cell of a table
CLAUSE = re.compile(r"[;,.] | \(|" + re.escape(CHOICE))  # where a comment can be cut

Row = tuple[str, str, str, str]  # setting, what it may be, its value, what it is
Entries = dict[str, tuple[str, str]]  # dotted key -> its value and comment, as they stand in a file


def entries(option: str) -> Entries:
    """What a file of conf/ says, and what its `defaults` say where it says nothing.

    option: the file's path below conf/, without .yaml
    """
    group, _, name = option.rpartition("/")
    text = (CONF / f"{option}.yaml").read_text(encoding="utf-8")
    found: Entries = {}
    for default in yaml.safe_load(text).get("defaults", []) if name != "train" else ():
        key, chosen = next(iter(default.items())) if isinstance(default, dict) else (default, "")
        base, _, mount = key.partition("@")
        if base != "_self_" and not base.startswith("override"):
            base = f"{base[1:]}/{chosen}".strip("/") if base.startswith("/") else f"{group}/{base}"
            found |= {f"{mount}.{key}".strip("."): one for key, one in entries(base).items()}
    for key, (value, comment) in lines_of(text):
        found[key] = value, comment or found.get(key, ("", ""))[1]
    return found


def lines_of(text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each key of a YAML text with its value and the comment beside it, else the one above it."""
    above: list[str] = []
    groups: list[tuple[int, str]] = []  # indent and key of the groups that a line stands in
    lines = [*text.splitlines(), "end:"]
    key, value, beside = "", "", [""]
    for line in lines:
        remark, setting = COMMENT.match(line), LINE.match(line)
        if remark and len(remark[1]) >= BESIDE:
            beside.append(remark[2])
        elif remark:
            above.append(remark[2])
        elif setting:
            if key:
                yield key, (value, " ".join(beside).strip())
            indent = len(setting[1])
            groups = [(deep, name) for deep, name in groups if deep < indent]
            groups.append((indent, setting[2]))
            key, value = ".".join(name for _, name in groups), setting[3]
            beside = [setting[4] or " ".join(above)]
            above = []


def may_be(schema: Mapping[str, Any], kinds: Mapping[str, Any]) -> str:
    """A JSON schema in words; kinds: the schemas that it refers to."""
    if "$ref" in schema:
        return may_be(kinds[schema["$ref"].rpartition("/")[2]], kinds)
    if "anyOf" in schema:
        return " or ".join(may_be(one, kinds) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list: {may_be(schema['items'], kinds)}"
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = ", ".join(f"{sign} {schema[key]:g}" for key, sign in signs.items() if key in schema)
    word = WORDS.get(schema["type"], "" if bounds else schema["type"])
    return f"{word} {bounds}".strip()


def rows(
    model: type[Settings], found: Entries, seen: set[tuple[str, str]], prefix: str = ""
) -> Iterator[str]:
    """The rows of a group's settings, but those of a name and a type that were listed before."""
    schema = model.model_json_schema()
    columns: list[Row] = []
    for name, field in model.model_fields.items():
        key, inner = f"{prefix}{name}", group_of(field.annotation)
        if inner in ELSEWHERE:
            continue
        if inner and any(other.startswith(f"{key}.") for other in found):
            yield from rows(inner, found, seen, f"{key}.")
            continue
        if key in found and key != "name":
            choices = may_be(schema["properties"][name], schema.get("$defs", {}))
            several = get_origin(field.annotation) is dict
            group = "groups by name" if several else "null or a group"
            kind = group if inner else choices
            value, comment = found[key]
            value = value.strip('"') if len(value) <= LONGEST else ""
        else:
            continue
        if not value and not comment:  # a group's choice
            continue
        if (key, kind.removesuffix(OR_NULL)) in seen:
            continue
        seen.add((key, kind.removesuffix(OR_NULL)))
        if name.endswith("_column"):
            columns.append((key, kind, value, comment))
        elif model is ModelConfig or name not in PackedConfig.model_fields:
            yield row(key, kind, value, comment)
    if len(columns) > MOST_COLUMNS:
        columns = [("`, `".join(key for key, *_ in columns), "text", "", "columns")]
    yield from (row(*column) for column in columns)


def group_of(annotation: Any) -> type[Settings] | None:
    """The model of a group of settings inside; None: it is no group."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, Settings):
            return kind
    return None


def row(key: str, kind: str, value: str, comment: str) -> str:
    """A row of the table, with as many clauses of the comment as there is room for."""
    choices = CHOICES.match(comment)
    if choices and {*choices[0].split(" | ")} == {*kind.split(", ")}:
        comment = comment[choices.end() :].lstrip(":;, ")
    start = f"| `{key}` | {kind} | {value} | "
    room = WIDTH - len(start) - len(" |")
    return f"{start}{shortened(comment.replace('|', chr(92) + '|'), room)} |"


def shortened(text: str, room: int) -> str:
    """As many clauses of a text as there is room for; the words that fit where that is little."""
    if len(text) <= room:
        return text
    clauses = [end.start() for end in CLAUSE.finditer(text[: room + 1 - len(ELLIPSIS)])]
    if clauses and clauses[-1] > room // 2:
        whole, left = text[: clauses[-1]], text[clauses[-1] :]
        return whole + ELLIPSIS * left.startswith(CHOICE)  # of choices more than those are left
    return text[: room - len(ELLIPSIS)].rpartition(" ")[0] + ELLIPSIS


def page() -> str:
    """The text of docs/settings.md."""
    parts = [HEAD, "## The run", *TABLE, *rows(Config, entries("train"), set())]
    for group, kind in {"model/tiny": ModelConfig, "hardware/cpu": HardwareConfig}.items():
        parts += [f"\n## {group.partition('/')[0]}", *TABLE, *rows(kind, entries(group), set())]
    for group, (table, names) in LISTED.items():
        parts += [f"\n## {group}", *TABLE]
        seen: set[tuple[str, str]] = set()
        for name in names.split():
            own = [*rows(table[name].settings, entries(f"{group}/{name}"), seen)]
            parts += [f"| **{group}={name}** | | | |", *own] if own else []
    parts += ["\n## endpoint", *TABLE, *rows(EndpointConfig, entries("endpoint/openai"), set())]
    return "\n".join(parts) + "\n"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only whether the page is up to date")
    if parser.parse_args().check:
        if PAGE.read_text(encoding="utf-8") != page():
            sys.exit("docs/settings.md is out of date: make settings")
        return
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
