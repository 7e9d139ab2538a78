"""More iterations for a run: the same settings, but for a larger `algorithm.iterations`.

The run goes on from its newest checkpoint, also where it had finished (`keep_state`).
"""

import shlex
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from cory.config import Config, MaftConfig, require
from cory.runs.run_dir import (
    CHECKPOINTS,
    ITERATIONS_KEY,
    MANIFEST,
    METRICS,
    OVERRIDES,
    has_iterations,
    read_record,
)
from cory.runs.stored_settings import SETTINGS, comparable_settings, read_settings


def extends(run_dir: Path, cfg: DictConfig, config: Config) -> int | None:
    """The iterations that a run was to have, where it is to have more; None where it is not.

    ConfigError, in one line, where the run cannot have the iterations that are asked for.
    """
    if not (run_dir / SETTINGS).exists() or not (run_dir / METRICS).exists():
        return None
    stored = read_settings(run_dir)
    wanted, earlier = config.algorithm.iterations, OmegaConf.select(stored, ITERATIONS_KEY)
    record = read_record(run_dir)
    if not isinstance(earlier, int) or earlier == wanted or has_iterations(record, wanted):
        return None
    theirs, ours = comparable_settings(stored), comparable_settings(cfg)
    for settings in (theirs, ours):
        settings.pop(ITERATIONS_KEY)
    if theirs != ours:
        return None  # another run altogether, which is refused by what differs
    said = f"run_dir={run_dir}"
    require(
        wanted > earlier,
        f"{said} holds a run of {ITERATIONS_KEY}={earlier}, not {wanted}: a run can be given more "
        f"iterations, not fewer; choose another run_dir",
    )
    require(
        config.hardware.nodes == 1,
        f"{said}: {ITERATIONS_KEY} cannot grow from {earlier} to {wanted} with hardware.nodes="
        f"{config.hardware.nodes}; init_from={run_dir} begins a new run from its agents",
    )
    saved = any((run_dir / CHECKPOINTS).glob(f"*/{MANIFEST}"))
    require(
        saved or record is None,
        f"{said} holds a finished run of {earlier} iterations that kept no training state, so it "
        f"cannot go on to {wanted}: run it again with keep_state=true, or begin a new run from its "
        f"agents with init_from={run_dir}",
    )
    obstacle = why_it_cannot_grow(config, earlier) if saved else None
    require(obstacle is None, f"{said} cannot go on to {ITERATIONS_KEY}={wanted}: {obstacle}")
    return earlier


def why_it_cannot_grow(config: Config, earlier: int) -> str | None:
    """Why a run of so many iterations cannot be the first part of a longer one; None: it can."""
    algorithm = config.algorithm
    if algorithm.follows_run_length():
        return (
            f"algorithm.schedule={algorithm.schedule} with algorithm.warmup={algorithm.warmup:g} "
            f"ran over its {earlier} iterations; begin a new run"
        )
    if getattr(algorithm, "iterations_per_epoch", 1) is None:
        return (
            f"with algorithm.iterations_per_epoch=null its {earlier} iterations learn from one set "
            f"of games, which was played for that many"
        )
    rounded = isinstance(algorithm, MaftConfig) and algorithm.start == "previous"
    if rounded and earlier == 1 and config.model.precision != "fp32":
        return (
            f"a run of one iteration keeps agents in model.precision={config.model.precision} "
            f"alone, and a longer one in float32; begin a new run"
        )
    return None


def command_to_go_on(run_dir: Path, iterations: int) -> str:
    """The command that gives a finished run twice its iterations, with all that was typed."""
    replaced = ("run_dir=", f"{ITERATIONS_KEY}=", "hydra")
    typed = (run_dir / OVERRIDES).read_text(encoding="utf-8").splitlines()
    kept = [word for word in typed if not word.lstrip("+~").startswith(replaced)]
    words = [*kept, f"{ITERATIONS_KEY}={2 * iterations}", f"run_dir={run_dir}"]
    return f"python -m cory.train {shlex.join(words)}"
