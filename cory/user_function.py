"""A user's own function, named as `file.py:name` or `package.module:name`, imported."""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from cory.config import ConfigError, nearest, require

# what a user's code may raise: anything, and `sys.exit`, which would end a worker without a word
RAISED = (Exception, SystemExit)


@dataclass(frozen=True)
class UserFunction:
    said: str  # setting and value, with which refusals begin
    file: Path  # its source
    call: Callable[..., Any]


def load_function(key: str, value: str) -> UserFunction:
    """Import a function; files, and modules too, are looked for from the current folder.

    ConfigError, in one line with the user's own file and line, where that cannot be done
    """
    said = f"{key}={value}"
    place, _, name = value.rpartition(":")
    try:
        module = _module(place)
    except RAISED as error:  # whatever a user's module raises
        file = Path(place).expanduser().absolute()
        missing = isinstance(error, FileNotFoundError) and not file.exists()
        why = f"there is no {file}; files are looked for from the current folder"
        why = why if missing else told(error, file)
        raise ConfigError(f"{said}: cannot be imported: {why}") from error
    known = [word for word in vars(module) if not word.startswith("_")]
    file = Path(str(getattr(module, "__file__", place)))
    require(hasattr(module, name), f"{said}: {file} has no {name}{nearest(name, known)}")
    function = getattr(module, name)
    require(callable(function), f"{said}: {name} must be a function")
    return UserFunction(said, file, function)


def _module(place: str) -> ModuleType:
    """The module of a name or of a file, imported once per process."""
    if not place.endswith(".py"):
        _search(Path.cwd())
        return importlib.import_module(place)
    file = Path(place).expanduser().absolute()
    # a name of its own: the file's may be that of a module that is there already
    name = f"cory_user_{file.stem}_{sha256(str(file).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    _search(file.parent)  # for modules beside it
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None  # of a .py file there always is one
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _search(folder: Path) -> None:
    """Let modules of a folder be imported; those found before are not hidden by them."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def told(error: BaseException, file: Path) -> str:
    """An error of a user's code in one line: place in the user's own file, type, message."""
    text = f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == file]
    if "'coroutine' object" in text:
        text += "; is an await missing?"
    return f"{file}, line {lines[-1]}: {text}" if lines else text
