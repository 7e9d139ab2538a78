"""What is known before a model is loaded, without torch: its place, its files, a CPU's precision.

A model is a hub name, a folder or asset:<name>. Settings such as `compute_precision:
${products_of_cpu:}` or `chat: ${has_template:}` in conf/ are decided when a run starts. Its run
directory stores what was decided, and a CPU that decides otherwise does not go on with it.
"""

import json
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from cory.config import ConfigError, require
from cory.config.base import no_value

ASSETS = Path(__file__).resolve().parent.parent / "assets"
CLONE_ONLY = {"tiny_2x"}  # 10 MB that the wheel does not carry (pyproject.toml)
# environment variable: 1 or 0 in place of a look at the CPU, for tests and for comparisons
CPU_HAS_BF16 = "CORY_CPU_HAS_BF16"
# files of a checkpoint that say how it is used, all of them small
CONFIG, TOKENIZER, TEMPLATE = "config.json", "tokenizer_config.json", "chat_template.jinja"
CPU_INFO = Path("/proc/cpuinfo")
# what Linux calls instructions that multiply bfloat16 matrices, on x86_64 and on aarch64
INSTRUCTIONS = re.compile(r"^(flags|Features)\s*:.*\b(avx512_bf16|amx_bf16|bf16)\b", re.MULTILINE)


def resolve(path: str, key: str) -> str:
    """The folder or hub name behind `path`; `key` names the setting in errors."""
    if path.startswith("asset:"):
        name = path.removeprefix("asset:")
        folder = ASSETS / name
        known = sorted(p.parent.name for p in ASSETS.glob("*/config.json"))
        said = f"cory ships no such model; choose one of {', '.join(known)}"
        if name in CLONE_ONLY:
            said = f"only in a clone of the repository: {key}=<clone>/cory/assets/{name}"
        require(folder.is_dir() and folder.parent == ASSETS, f"{key}={path}: {said}")
        return str(folder)
    local = Path(path).expanduser()
    if local.exists() or path.startswith((".", "/", "~")):
        require(local.is_dir(), f"{key}={path}: there is no such folder")
        require((local / "config.json").is_file(), f"{key}={path}: the folder has no config.json")
        return str(local)
    return path


@cache
def files_of(path: str, key: str) -> Path:
    """A folder with the small files of a model; those of a hub name are fetched, if need be.

    ConfigError where they are out of reach; `key` names the setting.
    """
    folder = Path(resolve(path, key))
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download  # noqa: PLC0415  slow, and folders need none
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError  # noqa: PLC0415

    try:
        folder = Path(snapshot_download(path, local_files_only=True))
        if all((folder / name).is_file() for name in (CONFIG, TOKENIZER)):
            return folder
    except (LocalEntryNotFoundError, ValueError):  # ValueError: no hub name, which is said below
        pass
    try:
        return Path(snapshot_download(path, allow_patterns=[CONFIG, TOKENIZER, TEMPLATE]))
    except (HfHubHTTPError, OSError, ValueError) as error:
        (first, *_) = str(error).splitlines()
        raise ConfigError(f"{key}={path}: cannot be loaded: {first}") from error


def described(folder: Path, name: str) -> dict[str, Any]:
    """The contents of one of these files; empty where there is none."""
    file = folder / name
    try:
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}
    except ValueError as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error


def name_of_model(*, _parent_: DictConfig) -> str:
    """The last part of a model's path: `${name_of_model:}`."""
    return str(_parent_.path).rstrip("/").rpartition("/")[2].removeprefix("asset:")


def has_template(*, _parent_: DictConfig) -> bool:
    """Whether a model's tokenizer has a chat template: `${has_template:}`."""
    key = _parent_._get_full_key("path")
    require(_parent_.path is not None, no_value(key))
    folder = files_of(str(_parent_.path), key)
    return (folder / TEMPLATE).is_file() or bool(described(folder, TOKENIZER).get("chat_template"))


def precision_of_weights(*, _parent_: DictConfig, _root_: DictConfig) -> str:
    """bf16 on a GPU for a checkpoint in 16 bits, else fp32: `${precision_of_weights:}`.

    Processors have no fast bfloat16 weights. Models that ship with cory have 16 bits to be small.
    """
    path = str(_parent_.path)
    if _root_.hardware.device == "cpu" or path.startswith("asset:"):
        return "fp32"
    config: Any = _parent_.architecture or {"of": None}
    if config.get("of", path) != path:
        config = described(files_of(path, _parent_._get_full_key("path")), CONFIG)
    inside = config.get("text_config") or {}  # of a model that sees images
    kinds = [part.get(key) for part in (config, inside) for key in ("dtype", "torch_dtype")]
    return "bf16" if {"bfloat16", "float16"} & {*kinds} else "fp32"


def context_length(config: Any) -> int | None:
    """A model's context length, in tokens; None where it is not limited.

    LongRoPE (Ding et al., 2024; Phi-3's 128k models) has one set of rotary frequencies up to the
    length that a model was first trained at, and another above it, which the library takes for all
    rows of a pass and all their tokens as soon as one row is longer. A token's log-probability
    would depend on the rows beside it and on what came after it, so that the context ends where the
    first set does, unless both sets are the same.

    config: of the model, as transformers reads its config.json
    """
    longest: int | None = getattr(config, "max_position_embeddings", None)
    if longest is None:
        return None
    rope = getattr(config, "rope_parameters", None) or {}
    # of models with several kinds of layers, one for each kind
    kinds = [rope, *(kind for kind in rope.values() if isinstance(kind, Mapping))]
    ends = [
        int(kind["original_max_position_embeddings"])
        for kind in kinds
        if kind.get("rope_type") == "longrope" and kind["short_factor"] != kind["long_factor"]
    ]
    return min([int(longest), *ends])


def require_context_length(config: Any, key: str) -> int:
    """The context length of a language model, which the settings `key` name; see above."""
    length = context_length(config)
    if length is None:
        raise ConfigError(f"{key}: its config.json does not say max_position_embeddings")
    return length


def fitting(tokens: int, parts: int, *, _root_: DictConfig) -> int:
    """`${fitting:256,4}`: 256 tokens, or a quarter of a model's context where that is shorter.

    Nothing is fetched for it: of a model on the hub, the number itself.
    """
    path = str(_root_.model.path)
    folder = ASSETS / path[6:] if path.startswith("asset:") else Path(path).expanduser()
    config = described(folder, CONFIG)
    config = config.get("text_config", config)
    context = config.get("max_position_embeddings", config.get("n_positions"))
    return tokens if context is None else min(tokens, max(1, context // parts))


def products_of_cpu(*, _parent_: DictConfig, _root_: DictConfig) -> str:
    """The precision of matrix products that is fastest here: `${products_of_cpu:}`.

    bf16 for float32 weights on a CPU with bfloat16 instructions, else the precision of the weights:
    without such instructions a CPU imitates them, slowly. Several machines may have several CPUs.
    """
    weights = str(_parent_.precision)
    one_cpu = _root_.hardware.device == "cpu" and _root_.hardware.nodes == 1
    plain = weights == "fp32" and _parent_.quantisation == "none"
    return "bf16" if one_cpu and plain and cpu_has_bf16() else weights


def cpu_has_bf16() -> bool:
    """Whether this CPU has bfloat16 instructions; without torch, which takes seconds to import.

    Linux alone tells; elsewhere it is False.
    """
    said = os.environ.get(CPU_HAS_BF16)
    if said is not None:
        return said == "1"
    return CPU_INFO.exists() and bool(INSTRUCTIONS.search(CPU_INFO.read_text(errors="replace")))
