"""Which settings the code reads, by the types that mypy finds.

The name of an attribute does not tell whose it is: `temperature` belongs to five classes of
settings. mypy knows the type of what stands before the dot.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from mypy.build import build
from mypy.modulefinder import BuildSource
from mypy.options import Options
from mypy.plugin import AttributeContext, Plugin
from mypy.types import Instance, ProperType, Type, TypeVarType, UnionType, get_proper_type

import cory
from cory.config.options import ALGORITHMS, REWARDS, TASKS

ROOT = Path(cory.__file__).resolve().parent
SETTINGS = "cory.config."
EXPERIMENT = "cory.config.experiment"
# a group whose class depends on its name is Any in the code: here it is one of these classes
GROUPS = {"task": TASKS, "algorithm": ALGORITHMS, "reward": REWARDS}


class Place(NamedTuple):
    """Where a setting is read."""

    path: str
    line: int


Reads = Mapping[tuple[str, str], set[Place]]  # full name of the class before the dot, setting


class Listener(Plugin):
    """A plug-in of mypy that notes where attributes of settings are read."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.reads: dict[tuple[str, str], set[Place]] = defaultdict(set)

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        owner, _, name = fullname.rpartition(".")
        if not owner.startswith(SETTINGS):
            return None

        def note(context: AttributeContext) -> Type:
            if not context.is_lvalue and context.context.line > 0:  # else it is mypy's own
                for kind in classes(get_proper_type(context.type)):
                    path = str(Path(context.api.path).resolve())  # type: ignore[attr-defined]
                    self.reads[kind, name].add(Place(path, context.context.line))
            return context.default_attr_type

        return note


def classes(kind: ProperType) -> list[str]:
    """Full names of the classes that a value of this type may have."""
    if isinstance(kind, UnionType):
        return [name for item in kind.items for name in classes(get_proper_type(item))]
    if isinstance(kind, TypeVarType):
        return classes(get_proper_type(kind.upper_bound))
    return [kind.type.fullname] if isinstance(kind, Instance) else []


def settings_read(changed: Mapping[str, Callable[[str], str]] | None = None) -> Reads:
    """Every place of the package that reads a setting. It takes some seconds.

    changed: module -> what is to be done to its text first
    """
    edits = {EXPERIMENT: with_classes, **(changed or {})}
    sources = []
    for path in sorted(ROOT.rglob("*.py")):
        if path.is_relative_to(ROOT / "assets"):
            continue  # templates of users' own code
        name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        module = name.removesuffix(".__init__")
        edit = edits.get(module)
        text = None if edit is None else edit(path.read_text(encoding="utf-8"))
        sources.append(BuildSource(str(path), module, text))
    options = Options()
    options.incremental, options.cache_dir = False, "/dev/null"
    options.follow_imports, options.ignore_missing_imports = "skip", True  # no other package
    options.check_untyped_defs = True
    listener = Listener(options)
    build(sources, options, extra_plugins=[listener])
    return listener.reads


def with_classes(text: str) -> str:
    """The module of `Config`, with the classes of the groups in place of Any."""
    for group, table in GROUPS.items():
        settings = {option.settings for option in table.values()}
        kinds = sorted(settings, key=lambda kind: kind.__name__)
        before, after = f'    {group}: Annotated[Any, chosen("{group}")]', "    {}: '{}'"
        assert before in text
        text = text.replace(before, after.format(group, " | ".join(k.__name__ for k in kinds)))
        imports = "; ".join(f"from {kind.__module__} import {kind.__name__}" for kind in kinds)
        text = text.replace("\n\n\n", f"\n{imports}\n\n", 1)  # lines keep their numbers
    return text


def is_read(kind: type, setting: str, reads: Reads) -> set[Place]:
    """Where a setting of a class is read outside cory/config: as its own, or as a base class's."""
    found: set[Place] = set()
    for base in kind.__mro__:
        found |= reads.get((f"{base.__module__}.{base.__qualname__}", setting), set())
    return {place for place in found if not in_config(place)}


def in_config(place: Place) -> bool:
    """Whether a place lies in cory/config, where settings are declared and checked."""
    return ROOT / "config" in Path(place.path).parents


def function_at(place: Place) -> str:
    """The name of the innermost function around a place; empty outside all functions."""
    tree = ast.parse(Path(place.path).read_text(encoding="utf-8"))
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.lineno <= place.line <= (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda node: node.lineno).name if around else ""
