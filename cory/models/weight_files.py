"""Files of weights and training state, read as tensors and plain values: no file runs code.

A pickle can call any function while it is read. torch's own unpickler (`weights_only`) builds
tensors, containers and numbers alone. A safetensors file holds nothing else.
"""

import pickle
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from cory.config import ConfigError

# what a damaged or made-up file can raise in the libraries' readers
UNREADABLE = (
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    EOFError,
    AssertionError,
    ImportError,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    SafetensorError,
    StrictDataclassError,  # a config.json with a value of another type
)


def load_plain(path: Path, map_location: Any = None) -> Any:
    """What torch.save has written; ConfigError where it holds code or cannot be read.

    map_location: as of torch.load
    """
    try:
        return torch.load(path, map_location=map_location, weights_only=True)
    except torch.OutOfMemoryError:
        raise
    except UNREADABLE as error:
        fault = f"cannot be read: {first_line(error)}"
        if isinstance(error, pickle.UnpicklingError):
            named = re.search(r"GLOBAL (\S+)", str(error))
            fault = "cannot be read: it is no file of tensors"
            if named is not None:
                fault = f"holds code, which is not run: it names {named[1]}; take tensors alone"
        raise ConfigError(f"{path} {fault}") from error


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; ConfigError where it cannot be read."""
    with _readable(path):
        return load_file(path)


def load_notes(path: Path) -> dict[str, str]:
    """The words that a safetensors file holds beside its tensors; ConfigError as above."""
    with _readable(path), safe_open(path, "pt") as file:
        return dict(file.metadata() or {})


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, SafetensorError) as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "there is no such file" if missing else first_line(error)
        raise ConfigError(f"{path} cannot be read: {reason}") from error


def first_line(error: BaseException) -> str:
    """The first line of what an error says, or its class."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
