"""Every setting is read by the code; one that nobody reads would be a promise not kept.

The name of an attribute does not tell whose it is: `temperature` belongs to five classes of
settings. mypy knows the type of what stands before the dot.
"""

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from mypy.build import build
from mypy.modulefinder import BuildSource
from mypy.options import Options
from mypy.plugin import AttributeContext, Plugin
from mypy.types import Instance, ProperType, Type, TypeVarType, UnionType, get_proper_type

import cory.config
from cory.config import Settings
from cory.config.experiment import ALGORITHMS, KINDS, REWARDS, TASKS, Option

ROOT = Path(cory.__file__).resolve().parent
# a group whose class depends on its name is Any in the code: here it is one of these classes
GROUPS = {"task": TASKS, "algorithm": ALGORITHMS, "reward": REWARDS}
# Read by functions and methods of cory/config alone. Of the last four the only effect is what is
# refused; the others' effects have tests of their own.
THROUGH = {
    *("param_sharing", "policies", "fixed", "train_turns", "iterations_per_epoch", "before"),
    *("microbatch_size", "generation_batch_size", "opponents", "value_learning_rate"),
    *("adapter", "architecture", "plain_http", "chats_only", "fidelity", "parallel_runs"),
    *("min_response_tokens", "max_response_tokens"),  # of a task, by conf/algorithm
    *("kl_coef", "sampling"),  # of a member, merged over the algorithm's
    "enable_thinking",  # one of the arguments that a template is given
}


class Listener(Plugin):
    """A plug-in of mypy that notes where attributes of settings are read."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.reads: dict[tuple[str, str], set[Path]] = defaultdict(set)

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        owner, _, name = fullname.rpartition(".")
        if not owner.startswith("cory.config."):
            return None

        def note(context: AttributeContext) -> Type:
            if not context.is_lvalue and context.context.line > 0:  # else it is mypy's own
                for kind in classes(get_proper_type(context.type)):
                    path = Path(context.api.path).resolve()  # type: ignore[attr-defined]
                    self.reads[kind, name].add(path)
            return context.default_attr_type

        return note


def classes(kind: ProperType) -> list[str]:
    """Full names of the classes that a value of this type may have."""
    if isinstance(kind, UnionType):
        return [name for item in kind.items for name in classes(get_proper_type(item))]
    if isinstance(kind, TypeVarType):
        return classes(get_proper_type(kind.upper_bound))
    return [kind.type.fullname] if isinstance(kind, Instance) else []


@pytest.fixture(scope="module")
def places() -> Callable[[type, str], set[Path]]:
    """The files in which a setting of a class is read, as its own or as a base class's."""
    sources = []
    for path in sorted(ROOT.rglob("*.py")):
        if path.is_relative_to(ROOT / "assets"):
            continue  # templates of users' own code
        name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        text = with_classes(path) if name == "cory.config.experiment" else None
        sources.append(BuildSource(str(path), name.removesuffix(".__init__"), text))
    options = Options()
    options.incremental, options.cache_dir = False, "/dev/null"
    options.follow_imports, options.ignore_missing_imports = "skip", True  # no other package
    options.check_untyped_defs = True
    listener = Listener(options)
    build(sources, options, extra_plugins=[listener])
    reads = listener.reads
    return lambda kind, setting: {
        path
        for base in kind.__mro__
        for path in reads.get((f"{base.__module__}.{base.__qualname__}", setting), set())
    }


def with_classes(path: Path) -> str:
    """The module of `Config`, with the classes of the groups in place of Any."""
    text = path.read_text(encoding="utf-8")
    for group, table in GROUPS.items():
        kinds = sorted({option.settings for option in table.values()}, key=lambda k: k.__name__)
        before = f'    {group}: Annotated[Any, chosen("{group}")]'
        assert before in text
        text = text.replace(before, f"    {group}: '{' | '.join(k.__name__ for k in kinds)}'")
        imports = "; ".join(f"from {kind.__module__} import {kind.__name__}" for kind in kinds)
        text = text.replace("\n\n\n", f"\n{imports}\n\n", 1)  # lines keep their numbers
    return text


def kinds() -> set[type[Settings]]:
    """The classes of settings that a run may have: all but those that others extend."""
    found = set()
    for module in pkgutil.iter_modules(cory.config.__path__):
        values = vars(importlib.import_module(f"cory.config.{module.name}")).values()
        found |= {v for v in values if isinstance(v, type) and issubclass(v, Settings)}
    tables = [table.values() for table in KINDS.values()]
    named = {one.settings for table in tables for one in table if isinstance(one, Option)}
    return found - ({base for kind in found for base in kind.__mro__[1:]} - named)


@pytest.mark.slow
def test_every_setting_is_read(places: Callable[[type, str], set[Path]]) -> None:
    assert len(kinds()) > 30
    fields = {(kind, field): places(kind, field) for kind in kinds() for field in kind.model_fields}
    in_config = {
        field
        for (_, field), paths in fields.items()
        if all(ROOT / "config" in path.parents for path in paths)
    }
    assert in_config == THROUGH
    assert {field for (_, field), paths in fields.items() if not paths} <= {
        *("fidelity", "min_response_tokens", "max_response_tokens")  # by name
    }
