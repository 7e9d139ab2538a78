"""Imports a user's function, and tells its errors in one line with the user's own file and line."""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from cory.config import ConfigError, require
from cory.runs.user_function import UserFunction

# what a user's code may raise: anything, and `sys.exit`, which would end a worker without a word
RAISED = (Exception, SystemExit)


def load_function(found: UserFunction) -> Callable[..., Any]:
    """The function; its module is executed at the first call.

    ConfigError where the module raises, lacks the name, or the name is of something else
    """
    try:
        module = _module(found)
    except RAISED as error:  # whatever a user's module raises (detail 17)
        raise ConfigError(f"{found.said}: cannot be imported: {told(error, found.file)}") from error
    function: Any = getattr(module, found.name, None)
    require(
        callable(function) and not isinstance(function, type),
        f"{found.said}: {found.name} in {found.file} must be a function, got "
        f"{type(function).__name__}",
    )
    checked: Callable[..., Any] = function
    return checked


def _module(found: UserFunction) -> ModuleType:
    """The module of a function, imported once per process."""
    if found.module is not None:
        _search(Path.cwd())
        return importlib.import_module(found.module)
    # of its own: a file's name may be that of a module that is there already
    name = f"cory_user_{found.file.stem}_{sha256(str(found.file).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    _search(found.file.parent)  # for modules beside it
    spec = importlib.util.spec_from_file_location(name, found.file)
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
    said = " ".join(str(error).split()) or "no message"
    text = f"{type(error).__name__}: {said}"
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}, line {error.lineno}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == file]
    return f"{file}, line {lines[-1]}: {text}" if lines else text
