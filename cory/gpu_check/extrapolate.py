"""From the speed that was measured to the hours of the papers' runs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from omegaconf import DictConfig

from cory.config import Config, parse_config
from cory.memory import preflight
from cory.memory.estimate import peak
from cory.memory.operations import estimated_hours, operations_of, weights_of

# one run of each kind; scripts/cost.py reckons with any other
EXPERIMENTS = (
    "cory/imdb_ppo",
    "cory/imdb_cory",
    "cory/gsm8k_ppo",
    "cory/gsm8k_cory",
    "maporl/gsm8k_maporl",
    "spag/llama2_im",
    "spag/llama2_spag_1",
    "maft/phi3_math_adapters",
)
OTHER_PRODUCTS = {"fp32": ("tf32", "bf16")}  # what a user may choose in place of float32


@dataclass(frozen=True)
class Hours:
    """The estimate for one run of an experiment."""

    experiment: str
    products: str  # precision of the matrix products
    hours: float | None  # None: unknown
    source: str  # how they were reckoned, or why not
    case: str | None  # where the speed was measured; None: nowhere
    processes: int
    needed: int  # bytes of a process, by preflight


def operations_per_iteration(config: Config) -> float:
    """Floating-point operations of one iteration of PPO, as the estimate of durations counts."""
    weights = weights_of(config)

    def of(iterations: int) -> float:
        algorithm = replace(config.algorithm, iterations=iterations)
        return operations_of(replace(config, algorithm=algorithm), weights, {})[0]

    return of(2) - of(1)


def speeds(results: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, str], tuple[str, float]]:
    """(products, quantisation) -> the case on the large model, and its operations per second."""
    found: dict[tuple[str, str], tuple[str, float]] = {}
    for name, result in results.items():
        measured = result.get("measured") or {}
        if not result.get("tells_speed") or "operations_per_s" not in measured:
            continue
        key = measured["products"], measured["quantisation"]
        best = found.get(key)
        if best is None or measured["operations_per_s"] > best[1]:
            found[key] = name, measured["operations_per_s"]
    return found


def paper_hours(
    results: Mapping[str, Mapping[str, Any]],
    compose: Callable[[str], DictConfig],
    experiments: Iterable[str] = EXPERIMENTS,
) -> list[Hours]:
    """Hours of the papers' runs on devices as fast as this one, all in parallel without loss.

    compose: the settings of an experiment at the paper's scale
    """
    known, rows = speeds(results), []
    for experiment in experiments:
        config = parse_config(compose(experiment))
        needed = peak(preflight.rows_of(config)[0])[1]
        own = config.model.compute_precision
        for products in (own, *OTHER_PRODUCTS.get(own, ())):
            case, speed = known.get((products, config.model.quantisation), (None, None))
            hours, source = estimated_hours(config, {}, speed)
            if speed is None:
                hours, source = None, "no speed was measured for it"
            rows.append(
                Hours(
                    experiment,
                    products,
                    hours,
                    source,
                    case,
                    config.hardware.world,
                    needed,
                )
            )
    return rows
