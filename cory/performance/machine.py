"""How fast this machine multiplies matrices: what the speed of an iteration is compared with."""

import platform
import statistics
import time
from collections.abc import Mapping
from pathlib import Path

import torch

Shape = tuple[int, int, int]  # rows, inner width, columns

REPEATS = 9
# precision of a workload -> that of the products which its speed is compared with
RATE_OF = {"fp32": "fp32", "mixed": "bf16"}
SQUARE = "2048 x 2048 x 2048"
SHAPES: dict[str, Shape] = {  # of products: rows, inner width, columns
    SQUARE: (2048, 2048, 2048),
    "MLP of tiny, 64 x 21 tokens": (64 * 21, 192, 768),
    "head of tiny, 64 x 16 tokens": (64 * 16, 192, 4096),
    "MLP of SmolLM2-135M, 64 x 23 tokens": (64 * 23, 576, 1536),
    "head of SmolLM2-135M, 64 x 16 tokens": (64 * 16, 576, 49152),
}


def product_rate(shape: Shape, dtype: torch.dtype, device: str) -> float:
    """Operations per second of a matrix product: the median of several.

    The first one, which chooses a kernel, is left out.
    """
    rows, inner, columns = shape
    left = torch.randn(rows, inner, device=device).to(dtype)
    right = torch.randn(inner, columns, device=device).to(dtype)
    seconds = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        torch.mm(left, right)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return 2 * rows * inner * columns / statistics.median(seconds[1:])


def product_rates(shapes: Mapping[str, Shape], device: str) -> dict[str, dict[str, float]]:
    """Shape's name -> precision -> operations per second."""
    types = {"fp32": torch.float32, "bf16": torch.bfloat16}
    return {
        name: {precision: product_rate(shape, dtype, device) for precision, dtype in types.items()}
        for name, shape in shapes.items()
    }


def cpu_model() -> str:
    """The processor's name, where the system tells it."""
    place = Path("/proc/cpuinfo")
    lines = place.read_text(encoding="utf-8").splitlines() if place.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
