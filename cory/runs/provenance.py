"""The provenance of a run: its commit, packages, device and memory use."""

import os
import platform
import resource
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

PACKAGES = (
    "cory",
    "torch",
    "transformers",
    "deepspeed",
    "peft",
    "bitsandbytes",
    "hydra-core",
    "omegaconf",
    "datasets",
    "wandb",
    "numpy",
)
WHAT_RUNS = (":/cory", ":/conf", ":/pyproject.toml")  # docs and results do not count


def git(*words: str) -> str | None:
    """Output of a git command in the checkout that this package runs from; None outside one."""
    here = Path(__file__).resolve()
    try:
        # an installed copy may lie inside a checkout of something else
        subprocess.run(
            ["git", "-C", str(here.parent), "ls-files", "--error-unmatch", here.name],
            capture_output=True,
            check=True,
        )
        answer = subprocess.run(
            ["git", "-C", str(here.parent), *words], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


def changed_files() -> str | None:
    """What of the code and settings differs from the last commit; None outside a checkout."""
    return git("status", "--porcelain", "--", *WHAT_RUNS)


def device_name(device: str) -> str:
    """The name of the processor or accelerator that a run uses."""
    if device == "cuda":
        return str(torch.cuda.get_device_name())
    return f"CPU {platform.machine()}, {os.cpu_count()} cores"


def memory_used(device: str) -> int:
    """Peak memory of this process so far, bytes: of the GPU, or of main memory."""
    if device == "cuda":
        return int(torch.cuda.max_memory_allocated())
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # bytes there, KiB elsewhere


def versions() -> dict[str, str | None]:
    """Versions of the packages that results depend on; None for one that is not installed."""
    return {package: _version(package) for package in PACKAGES}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
