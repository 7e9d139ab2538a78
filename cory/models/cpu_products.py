"""The precision of matrix products that a CPU chooses.

`compute_precision: ${products_of_cpu:}` in conf/ is decided when a run starts. Its run
directory stores what was decided, and a CPU that decides otherwise does not go on with it.
"""

import os
import re
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

BY_CPU = "${products_of_cpu:}"
# environment variable: 1 or 0 in place of a look at the CPU, for tests and for comparisons
CPU_HAS_BF16 = "CORY_CPU_HAS_BF16"
CPU_INFO = Path("/proc/cpuinfo")
# what Linux calls instructions that multiply bfloat16 matrices, on x86_64 and on aarch64
INSTRUCTIONS = re.compile(r"^(flags|Features)\s*:.*\b(avx512_bf16|amx_bf16|bf16)\b", re.MULTILINE)


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


def register_resolver() -> None:
    """Make `${products_of_cpu:}` known to OmegaConf, before settings are composed."""
    OmegaConf.register_new_resolver(BY_CPU.strip("${:}"), products_of_cpu, replace=True)
