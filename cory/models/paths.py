"""What is known before a model is loaded, without torch: its place, its context, a CPU's precision.

A model is a hub name, a folder or asset:<name>. `compute_precision:
${products_of_cpu:}` in conf/ is decided when a run starts. Its run directory stores what was
decided, and a CPU that decides otherwise does not go on with it.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from cory.config import ConfigError, require

ASSETS = Path(__file__).resolve().parent.parent / "assets"
# environment variable: 1 or 0 in place of a look at the CPU, for tests and for comparisons
CPU_HAS_BF16 = "CORY_CPU_HAS_BF16"
# folders of options of conf/model, which a make target writes
WRITTEN = {"./outputs/models/smollm2_135m": "; `make smollm2` writes it"}
CPU_INFO = Path("/proc/cpuinfo")
# what Linux calls instructions that multiply bfloat16 matrices, on x86_64 and on aarch64
INSTRUCTIONS = re.compile(r"^(flags|Features)\s*:.*\b(avx512_bf16|amx_bf16|bf16)\b", re.MULTILINE)


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
    local = Path(path).expanduser()
    if local.exists() or path.startswith((".", "/", "~")):
        require(local.is_dir(), f"{key}={path}: there is no such folder{WRITTEN.get(path, '')}")
        require((local / "config.json").is_file(), f"{key}={path}: the folder has no config.json")
        return str(local)
    return path


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
