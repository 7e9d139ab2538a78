"""What is checked: this machine and this code."""

import hashlib
import importlib.util
import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from cory.memory.machine import main_memory
from cory.runs.provenance import versions

MOST_PROCESSES = 8  # 16 prompts are divided by 2, 4 or 8 processes with two microbatches each


@dataclass(frozen=True)
class Machine:
    """Facts that decide which cases can run, and without which no number means anything."""

    device: str  # cpu | cuda
    name: str
    devices: int
    processes: int  # of a case on all devices: the largest power of two among them
    memory: int  # bytes of one device
    main_memory: int  # bytes
    cores: int
    capability: tuple[int, int]  # CUDA compute capability; (0, 0) on a CPU
    cuda: str | None  # version that torch was built with
    has_flash_attention: bool
    has_bitsandbytes: bool
    python: str
    packages: dict[str, str | None]

    def fingerprint(self) -> str:
        """Of the machine and of the code: results under another one say nothing about this one."""
        text = json.dumps(asdict(self), sort_keys=True) + code_digest()
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def this_machine(device: str) -> Machine:
    """The machine that this process runs on; ValueError for `cuda` where there is none."""
    gpu = device == "cuda"
    if gpu and not torch.cuda.is_available():
        raise ValueError(
            "this machine has no CUDA device that torch can use; "
            "--device cpu tries the check itself"
        )
    devices = torch.cuda.device_count() if gpu else os.cpu_count() or 1
    properties = torch.cuda.get_device_properties(0) if gpu else None
    return Machine(
        device=device,
        name=properties.name if properties else f"CPU {platform.machine()}",
        devices=devices,
        processes=power_of_two(min(devices, MOST_PROCESSES if gpu else 2)),
        memory=int(properties.total_memory) if properties else main_memory(),
        main_memory=main_memory(),
        cores=os.cpu_count() or 1,
        capability=torch.cuda.get_device_capability(0) if gpu else (0, 0),
        cuda=torch.version.cuda,
        has_flash_attention=importlib.util.find_spec("flash_attn") is not None,
        has_bitsandbytes=has_bitsandbytes(device),
        python=platform.python_version(),
        packages=versions(),
    )


def power_of_two(most: int) -> int:
    """The largest power of two that is at most `most`."""
    return int(2 ** (most.bit_length() - 1))


def has_bitsandbytes(device: str) -> bool:
    """Whether bitsandbytes is here with a library for the device; it is not imported."""
    spec = importlib.util.find_spec("bitsandbytes")
    if spec is None or spec.origin is None:
        return False
    return any(Path(spec.origin).parent.glob(f"libbitsandbytes_{device}*"))


def code_digest() -> str:
    """SHA-256 over the package and its settings."""
    package = Path(__file__).resolve().parent.parent
    conf = next(path for path in (package / "conf", package.parent / "conf") if path.is_dir())
    digest = hashlib.sha256()
    for folder, pattern in ((package, "*.py"), (conf, "*.yaml")):
        for file in sorted(folder.rglob(pattern)):
            digest.update(f"{file.relative_to(folder)}\n".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()
