"""What a run will need: memory by part, and on which GPUs it fits and for about how many hours.

    python scripts/memory.py experiment=cory/gsm8k_cory               settings as for a run
    python scripts/memory.py experiment=cory/gsm8k_cory hardware=gpu1

Nothing is loaded and no GPU is needed. All figures are estimates (docs/hardware.md): of memory as a
run makes them before it starts; hours are an order of magnitude, without exchanges between GPUs.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cory.config import (
    Config,
    ConfigError,
    MaftConfig,
    OfflineConfig,
    PPOConfig,
    VerifierConfig,
    parse_config,
)
from cory.memory import (
    ALWAYS,
    BYTES,
    GIB,
    LOADING,
    SPLIT,
    WARN_ABOVE,
    Part,
    Shape,
    held,
    longest_context,
    parts_of,
    peak,
)
from cory.models.loading import skeleton
from cory.runtime.hydra_setup import compose, one_line_refusals

LAYOUTS = ("gpu1", "gpu4_zero2", "gpu8_zero3", "gpu8_zero3_offload")  # of conf/hardware/


@dataclass(frozen=True)
class Gpu:
    """What its maker says of a GPU: dense products that are summed in float32."""

    memory: float  # GiB, as torch finds it
    bandwidth: float  # bytes of its memory, read in a second
    fp32: float  # operations in a second: products of float32
    tf32: float  # ... rounded to TF32
    half: float  # ... of bfloat16 and float16


GPUS = {
    "h200": Gpu(139.8, 4.8e12, 67e12, 494e12, 989e12),
    "h100": Gpu(79.2, 3.35e12, 67e12, 494e12, 989e12),
    "a100": Gpu(79.2, 2.04e12, 19.5e12, 156e12, 312e12),
    "a100_40": Gpu(39.4, 1.56e12, 19.5e12, 156e12, 312e12),
    "l40s": Gpu(44.4, 0.864e12, 91.6e12, 183e12, 362e12),
    "a6000": Gpu(47.5, 0.768e12, 38.7e12, 77.4e12, 154.8e12),
    "rtx4090": Gpu(23.5, 1.008e12, 82.6e12, 82.6e12, 165.2e12),
    "rtx3090": Gpu(23.6, 0.936e12, 35.6e12, 35.6e12, 71e12),
}
# Shares of them that a run is taken to reach; an H100 started the kernels of a layer in 1.2 ms
PRODUCTS, BANDWIDTH, LAYER_SECONDS = 0.3, 0.6, 1.2e-3


def turns_of(config: Config) -> tuple[float, float]:
    """Turns after a prompt of training, and how many times one is learned."""
    algorithm, epochs = config.algorithm, config.algorithm.epochs
    if isinstance(algorithm, OfflineConfig):  # games of two roles, one of which is learned
        turns = config.task.max_turns
        return 2 * turns if algorithm.games == "self_play" else 0, turns * epochs
    if isinstance(algorithm, VerifierConfig):
        return algorithm.answers_per_question, 2 * algorithm.keep_per_label * epochs
    if not algorithm.holds_debates:
        return len(algorithm.names()), len(algorithm.names()) * epochs
    said = algorithm.agents * algorithm.turns
    if isinstance(algorithm, MaftConfig):  # first answers, and last ones
        return said, algorithm.agents * (epochs + algorithm.critic_epochs)
    return said, said * epochs * getattr(algorithm, "keep_share", 1)


def estimated_hours(config: Config, gpu: Gpu) -> float | None:
    """Hours of a run on such GPUs, an order of magnitude; None: an endpoint speaks for the agents.

    Products; and for each token that is sampled, the weights and the cache that are read, and the
    kernels that are started. Exchanges between processes are left out.
    """
    algorithm, hardware, model = config.algorithm, config.hardware, config.model
    if algorithm.speaks_remotely():
        return None
    shape = Shape(skeleton(model.path, "model.path", model.described, model.remote_code))
    response = algorithm.sampling.max_response_tokens
    tokens = (int(config.task.max_prompt_tokens) + longest_context(config)) / 2 + response
    said, learned = turns_of(config)
    step = (6 if model.sharing == "copies" else 4) + 2 * hardware.gradient_checkpointing
    scored = 4 if isinstance(algorithm, PPOConfig) else 0  # by policy and reference
    prompts = algorithm.iterations * algorithm.prompts_per_iteration
    every, evaluation = config.evaluate_every, config.evaluation
    times = evaluation.before + (max(1, -(-algorithm.iterations // every)) if every else 1)
    held_out = (evaluation.prompts or SPLIT) * evaluation.samples
    alone = 0 if isinstance(algorithm, MaftConfig) else len(algorithm.names())
    tested = times * (alone + (said if evaluation.team or not alone else 0))
    turns = prompts * ((2 + scored) * said + step * learned) + 2 * held_out * tested
    # side by side: all games of an epoch, all answers for a verifier
    rows = algorithm.prompts_per_iteration * getattr(algorithm, "answers_per_question", 1)
    rows = getattr(algorithm, "games_per_epoch", rows)
    at_once = hardware.world * hardware.responses_at_once
    passes = prompts / rows * said * -(-rows // at_once) + tested * -(-held_out // at_once)
    products = model.compute_precision
    rate = {"fp32": gpu.fp32, "tf32": gpu.tf32}.get(products, gpu.half)
    # 4-bit weights are read, written unpacked, and read again
    read = shape.parameters * (4.5 if model.quantisation != "none" else BYTES[products])
    read += next(part.bytes for part in parts_of(config) if part.what == "KV cache") / 2
    each = read / (BANDWIDTH * gpu.bandwidth) + LAYER_SECONDS * shape.layers
    computing = turns * tokens * shape.parameters / hardware.world / (PRODUCTS * rate)
    return float(computing + passes * response * each) / 3600


def part_lines(config: Config, parts: list[Part]) -> Iterator[str]:
    """Every part, and sums."""
    model, hardware = config.model, config.hardware
    agents = len(config.algorithm.names())
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
    """A line for each layout: what it needs, and about how many hours on GPUs that have room."""
    yield "about how many hours the run takes on GPUs that have room for it (-: none):"
    yield line("hardware=", "GPUs", "GiB each", "main, GiB", GPUS)
    kept = [word for word in words if not word.startswith("hardware=")]
    names = LAYOUTS if own.hardware.device == "cpu" else (own.hardware.name, *LAYOUTS)
    for name in dict.fromkeys(names):
        try:
            config = own if name == own.hardware.name else composed([*kept, f"hardware={name}"])
            parts = parts_of(config)
            need, main = (peak(parts, beside)[1] / GIB for beside in (False, True))
            main *= config.hardware.processes
            cells = [cell(config, gpu, need) for gpu in GPUS.values()]
            yield line(name, str(config.hardware.world), f"{need:.1f}", f"{main:.0f}", cells)
        except ConfigError as error:
            yield f"  {name:<20} not possible: {error}"


def line(name: str, gpus: str, gib: str, main: str, cells: Iterable[str]) -> str:
    """A line of the table of layouts."""
    return f"  {name:<20}{gpus:>5}{gib:>10}{main:>11}" + "".join(f"{cell:>9}" for cell in cells)


def cell(config: Config, gpu: Gpu, need: float) -> str:
    """Hours where such a GPU has room for `need` GiB."""
    if need > WARN_ABOVE * gpu.memory:
        return "-"
    hours = estimated_hours(config, gpu)
    if hours is None:
        return "unknown"  # an endpoint speaks
    return "<0.1" if hours < 0.1 else f"{hours:.1f}" if hours < 9.5 else f"{hours:.0f}"


def composed(words: list[str]) -> Config:
    """The checked settings that these words make; ConfigError where they are refused."""
    with one_line_refusals():
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
