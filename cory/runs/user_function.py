"""A user's own function, named as `file.py:name` or `package.module:name`: found, and not run."""

import ast
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from cory.config import (
    ConfigError,
    PythonRewardConfig,
    judges,
    nearest,
    require,
    require_function_name,
)


@dataclass(frozen=True)
class UserFunction:
    """Where a function of the user's is."""

    key: str  # the setting, for refusals: reward.function
    value: str  # as it was typed
    module: str | None  # dotted name; None: a file was named
    file: Path  # its source
    name: str  # in that file

    @property
    def said(self) -> str:
        """Setting and value, with which refusals begin."""
        return f"{self.key}={self.value}"


def find_function(key: str, value: str) -> UserFunction:
    """The function's source, which is read and not executed.

    Relative files, and modules, are looked for from the folder that the command is typed in.

    ConfigError where there is no such file or module, where its source cannot be parsed, and where
    nothing in it has the function's name
    """
    place, name = require_function_name(key, value)
    if place.endswith(".py"):
        file = Path(place).expanduser().absolute()
        require(file.is_file(), f"{key}={value}: there is no file {file}")
        found = UserFunction(key, value, None, file, name)
    else:
        found = UserFunction(key, value, place, _source_of(key, value, place), name)
    _require_defined(found)
    return found


def require_functions(reward: Any) -> None:
    """ConfigError where a function that a reward names cannot be found; none is run."""
    for key, judge in judges(reward).items():
        if isinstance(judge, PythonRewardConfig):
            find_function(f"{key}.function", judge.function)


def _source_of(key: str, value: str, module: str) -> Path:
    """The source file of a module; the packages around it are not imported."""
    path: list[str] | None = [str(Path.cwd()), *sys.path]
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        dotted = ".".join(parts[:count])
        spec = None if path is None else PathFinder.find_spec(dotted, path)
        if spec is None:
            raise ConfigError(
                f"{key}={value}: there is no module {dotted} in {Path.cwd()} or among the "
                f"installed packages"
            )
        path = spec.submodule_search_locations and [*spec.submodule_search_locations]
    origin = spec.origin if spec is not None else None
    require(
        origin is not None and origin.endswith(".py"),
        f"{key}={value}: {module} has no Python source; name the module that defines {value}",
    )
    return Path(str(origin))


def _require_defined(found: UserFunction) -> None:
    try:
        tree = ast.parse(found.file.read_bytes(), str(found.file))
    except SyntaxError as error:
        raise ConfigError(f"{found.said}: {found.file}, line {error.lineno}: {error.msg}") from None
    except (OSError, ValueError) as error:  # ValueError: null bytes
        raise ConfigError(f"{found.said}: {found.file} cannot be read ({error})") from None
    names = _names(tree)
    functions = sorted(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_"
    )
    known = f"; it defines {', '.join(functions)}" if functions else ""
    require(
        found.name in names or "*" in names,
        f"{found.said}: {found.file} has no {found.name}{nearest(found.name, functions) or known}",
    )


def _names(tree: ast.Module) -> set[str]:
    """Every name that is bound anywhere in a module; `*` where it imports all of another's."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
    return names
