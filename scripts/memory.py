"""What a run will need: memory by part, and on which GPUs it fits.

    python scripts/memory.py experiment=cory/gsm8k_cory               settings as for a run
    python scripts/memory.py experiment=cory/gsm8k_cory hardware=gpu1

Nothing is loaded and no GPU is needed. All figures are estimates (docs/hardware.md), as a run makes
them before it starts.
"""

import argparse
import sys
from collections.abc import Iterator

from cory.config import Config, ConfigError, parse_config
from cory.memory import ALWAYS, GIB, LOADING, WARN_ABOVE, Part, held, parts_of, peak
from cory.runtime.hydra_setup import compose, one_line_refusals

LAYOUTS = ("gpu1", "gpu4_zero2", "gpu8_zero3", "gpu8_zero3_offload")  # of conf/hardware/


# GiB of GPUs, as torch finds them
GPUS = {
    "h200": 139.8,
    "h100": 79.2,
    "a100": 79.2,
    "a100_40": 39.4,
    "l40s": 44.4,
    "a6000": 47.5,
    "rtx4090": 23.5,
    "rtx3090": 23.6,
}


def part_lines(config: Config, parts: list[Part]) -> Iterator[str]:
    """Every part, and sums."""
    model, hardware = config.model, config.hardware
    agents = config.algorithm.policy_count()
    yield (
        f"ESTIMATE for each of {hardware.world} processes, GiB: model={model.name} "
        f"({model.precision}, quantisation {model.quantisation}), agents: {agents} as "
        f"{model.sharing}, hardware={hardware.name} (ZeRO stage {hardware.zero_stage})"
    )
    order = [LOADING, *ALWAYS]
    for part in sorted(parts, key=lambda part: (part.when != ALWAYS, order.index(part.when[0]))):
        if part.bytes > 0:
            when = "always" if part.when == ALWAYS else ", ".join(part.when)
            where = ", in main memory" if part.beside else ""
            yield f"  {part.what:<40}{part.bytes / GIB:>9.2f}  {when}{where}"
    yield f"  {'held at all times':<40}{held(parts) / GIB:>9.2f}"
    phase, most = peak(parts)
    yield f"  {'at most':<40}{most / GIB:>9.2f}  {phase}"
    _, beside = peak(parts, beside=True)
    if beside:
        yield f"  {'at most in main memory':<40}{beside / GIB:>9.2f}"


def layout_lines(own: Config, words: list[str]) -> Iterator[str]:
    """A line for each layout: what it needs, and the GPUs that have room."""
    yield line("hardware=", "GPUs", "GiB each", "main, GiB", "fits")
    kept = [word for word in words if not word.startswith("hardware=")]
    names = LAYOUTS if own.hardware.device == "cpu" else (own.hardware.name, *LAYOUTS)
    for name in dict.fromkeys(names):
        try:
            config = own if name == own.hardware.name else composed([*kept, f"hardware={name}"])
            parts = parts_of(config)
            need, main = (peak(parts, beside)[1] / GIB for beside in (False, True))
            main *= config.hardware.processes
            fits = ", ".join(gpu for gpu, size in GPUS.items() if need <= WARN_ABOVE * size)
            yield line(name, str(config.hardware.world), f"{need:.1f}", f"{main:.0f}", fits or "-")
        except ConfigError as error:
            yield f"  {name:<20} not possible: {error}"


def line(name: str, gpus: str, gib: str, main: str, fits: str) -> str:
    """A line of the table of layouts."""
    return f"  {name:<20}{gpus:>5}{gib:>10}{main:>11}  {fits}"


def composed(words: list[str]) -> Config:
    """The checked settings that these words make; ConfigError where they are refused."""
    with one_line_refusals(words):
        return parse_config(compose(*words))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", help="settings as for a run")
    words = parser.parse_args().overrides
    try:
        config = composed(words)
        print(*part_lines(config, parts_of(config)), sep="\n")
        print(*layout_lines(config, words), sep="\n")
    except ConfigError as error:
        print(*(f"error: {line}" for line in str(error).splitlines()), sep="\n", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
