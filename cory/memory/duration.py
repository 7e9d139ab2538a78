"""How long a run takes on a GPU of a data sheet: operations, bytes read, and starts of kernels.

A run computes products, whose number `operations.py` counts, and samples token by token. A pass of
one token a row reads all weights and the cache from the GPU's memory, and starts some dozens of
kernels in each layer. Passes of whole contexts start as many; they wait for their products or for
the starts, whichever takes longer. How much of the data sheet is reached is assumed; the starts,
most of the time where batches are small, were measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cory.config import (
    SELF_PLAY,
    Config,
    ConfigError,
    Gpu,
    MaftConfig,
    OfflineConfig,
    SFTConfig,
    VerifierConfig,
    plan_of,
    products_of,
)
from cory.memory.architecture import BYTES
from cory.memory.estimate import SAMPLING, Usage
from cory.memory.operations import (
    FORWARD,
    OPERATIONS,
    answers_of,
    evaluations,
    held_out_prompts,
    mean_response,
    responses_per_prompt,
    speakers_of,
    weights_of,
)
from cory.memory.workload import mean_context
from cory.models.loading import skeleton

# of each layer and pass: measured with torch's profiler on a CPU, 160 in four layers
KERNELS_PER_LAYER = 40
RECORDED = 0.4  # share of the starting time that is left of kernels recorded as a graph: 11 of 30
# 4-bit weights are read, written unpacked, and read again: bytes of each
UNPACKED = 0.5 + 2 + 2


@dataclass(frozen=True)
class Reached:
    """What a run reaches of a data sheet."""

    products: float  # share of the rate
    bandwidth: float  # share of the bandwidth
    start: float  # seconds until a kernel has started


# The fastest, the expected and the slowest that is taken to be possible. Starts took 27 to 37
# microseconds on an H100 in a virtual machine, and 52 in 4 bits, in 2026.
ASSUMED = (Reached(0.5, 0.8, 10e-6), Reached(0.3, 0.6, 30e-6), Reached(0.15, 0.4, 60e-6))


@dataclass(frozen=True)
class Sampling:
    """Responses that are sampled side by side, again and again."""

    rounds: float  # each waits for the one before
    rows: int  # responses of a round, over all processes


@dataclass(frozen=True)
class Duration:
    """The time of a run on some GPUs."""

    operations: float
    passes: float  # of one token a row, of each process
    sampled: float  # tokens, of training and evaluations
    hours: tuple[float, float, float]  # the fastest, the expected and the slowest
    left_out: str


def rate_of(gpu: Gpu, products: str) -> float:
    """Operations in a second, by the precision of products; 4-bit weights are unpacked."""
    return {"fp32": gpu.fp32, "tf32": gpu.tf32}.get(products, gpu.half)


def samplings(config: Config, test_problems: Mapping[str, Any]) -> tuple[Sampling, Sampling]:
    """The responses of a run's training and of its evaluations."""
    algorithm, evaluation = config.algorithm, config.evaluation
    iterations, prompts = algorithm.iterations, algorithm.prompts_per_iteration
    asked = evaluations(config)
    held = (held_out_prompts(config, test_problems) or 0) * evaluation.samples
    if isinstance(algorithm, OfflineConfig):
        # a game's two roles take turns; the games of one epoch are played side by side
        turns = 2 * config.task.max_turns
        played = iterations / algorithm.per_epoch if algorithm.games == SELF_PLAY else 0
        tested = asked * turns * speakers_of(algorithm)
        return Sampling(played * turns, algorithm.games_per_epoch), Sampling(tested, held)
    if isinstance(algorithm, VerifierConfig):
        rows = prompts * algorithm.answers_per_question
        return Sampling(iterations, rows), Sampling(asked, held)
    if isinstance(algorithm, MaftConfig):
        spoken = answers_of(algorithm, algorithm.agents, algorithm.turns)
        sizes = (algorithm.evaluation_agents, algorithm.evaluation_turns)
        tested = asked * answers_of(algorithm, *sizes)
        return Sampling(iterations * spoken, prompts), Sampling(tested, held)
    said = responses_per_prompt(config)
    best = isinstance(algorithm, SFTConfig)
    spoken = algorithm.agents * algorithm.turns if best else said.sampled
    tested = asked * said.held_out / evaluation.samples
    return Sampling(iterations * spoken, prompts), Sampling(tested, held)


def passes_of(config: Config, sampling: Sampling) -> float:
    """Passes of one token a row that each process needs, one after another.

    A batch lasts until its longest response ends, which is taken to be at the limit.
    """
    hardware = config.hardware
    rows = -(-sampling.rows // hardware.world)
    batches = -(-rows // hardware.responses_at_once)
    return sampling.rounds * batches * float(config.algorithm.sampling.max_response_tokens)


def batches_of(config: Config, operations: float, weights: int) -> float:
    """Passes of whole contexts that each process needs, a microbatch at a time.

    A way back counts as one pass or two, as its operations do. Scoring, which may take more rows at
    once, counts alike.

    operations: of the run
    """
    contexts = operations / (FORWARD * weights * (mean_context(config) + mean_response(config)))
    return contexts / config.hardware.world / plan_of(config).microbatch


def bytes_read(config: Config, weights: int, rows: list[Usage]) -> float:
    """By a pass of one token a row: the weights, and the cache, which is half full on average.

    rows: the memory of a process
    """
    model = config.model
    each = BYTES[model.compute_precision] if model.quantisation == "none" else UNPACKED
    cache = max((row.bytes for row in rows if row.what.startswith("KV cache")), default=0)
    assert not any(row.what.startswith("KV cache") and row.when != SAMPLING for row in rows)
    return weights * each + cache / 2


def duration_on(
    config: Config, gpu: Gpu, rows: list[Usage], test_problems: Mapping[str, Any]
) -> Duration:
    """The time of a run whose processes have one such GPU each.

    rows: the memory of a process
    Raises ConfigError where nothing is known of the algorithm or of its model.
    """
    counts = [of for kind, of in OPERATIONS.items() if isinstance(config.algorithm, kind)]
    if not counts or config.algorithm.speaks_remotely():
        raise ConfigError(f"no estimate of hours for algorithm={config.algorithm.name}")
    weights = weights_of(config)
    operations, left_out = counts[0](config, weights, test_problems)
    training, tested = samplings(config, test_problems)
    passes = passes_of(config, training) + passes_of(config, tested)
    model = config.model
    described = skeleton(model.path, "model.path", model.described, model.remote_code).config
    kernels = KERNELS_PER_LAYER * int(described.num_hidden_layers)
    batches = batches_of(config, operations, weights)
    waited = kernels * (RECORDED if config.hardware.cuda_graphs else 1.0)
    read = bytes_read(config, weights, rows)
    rate = rate_of(gpu, products_of(config)["model.compute_precision"])

    def hours(reached: Reached) -> float:
        computing = operations / config.hardware.world / (rate * reached.products)
        each = read / (gpu.bandwidth * reached.bandwidth) + waited * reached.start
        starting = batches * kernels * reached.start  # hidden by longer products, or hiding them
        return (max(computing, starting) + passes * each) / 3600

    fastest, expected, slowest = map(hours, ASSUMED)
    responses = sum(sampling.rounds * sampling.rows for sampling in (training, tested))
    tokens = responses * mean_response(config)
    return Duration(operations, passes, tokens, (fastest, expected, slowest), left_out)
