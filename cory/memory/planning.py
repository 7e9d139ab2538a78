"""Which `hardware=` has room for a run on a given GPU, and how long the run takes there."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from cory.config import GPUS, Config, ConfigError, HardwareConfig, check_together, require
from cory.memory.duration import Duration, duration_on
from cory.memory.estimate import ALWAYS, LOADING, peak, total
from cory.memory.preflight import GIB, WARN_ABOVE, device_memory, rows_of

# what an option of conf/hardware/ is about; other settings are taken over from the run's own
LAYOUT = (
    "name",
    "device",
    "nodes",
    "processes",
    "rendezvous",
    "zero_stage",
    "offload_optimizer",
    "offload_parameters",
)
Options = Mapping[str, Mapping[str, Any]]  # settings of each hardware=, by its name
CHECKPOINTING = "gradient_checkpointing"  # also where the run itself does not ask for it
SOMEWHERE = "node0:29500"  # in place of an address that is not known yet


@dataclass(frozen=True)
class Planned:
    """A run on one kind of hardware."""

    hardware: HardwareConfig
    gib: float  # of each GPU, at most
    phase: str  # in which that is
    held: float  # GiB of each GPU at all times, which no batch size changes
    main: float  # GiB of main memory, of all processes of a machine
    room: float  # GiB of each GPU
    duration: Duration | None  # None: it cannot be said

    @property
    def fits(self) -> bool:
        return self.gib <= WARN_ABOVE * self.room


def read_options(folder: Path) -> Options:
    """The settings of every file of conf/hardware/, by name."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.yaml")):
        name, chain = path.stem, []
        while True:
            settings: Any = OmegaConf.to_container(OmegaConf.load(folder / f"{name}.yaml"))
            chain.append(settings)
            under = [one for one in settings.pop("defaults", []) if one != "_self_"]
            if not under:
                break
            name = under[0]
        found[path.stem] = {k: v for settings in reversed(chain) for k, v in settings.items()}
    return found


def candidates(own: HardwareConfig, options: Options) -> list[HardwareConfig]:
    """The options with GPUs, with the run's own batches; fewer GPUs first."""
    found = []
    for option in options.values():
        if option["device"] != "cuda":
            continue
        changed = {key: option[key] for key in LAYOUT}
        changed[CHECKPOINTING] = option[CHECKPOINTING] or getattr(own, CHECKPOINTING)
        if changed["nodes"] > 1:
            changed["rendezvous"] = SOMEWHERE
        found.append(replace(own, **changed))
    return sorted(found, key=lambda one: (one.world, one.offload_optimizer))


def plan(config: Config, hardware: HardwareConfig, test_problems: Mapping[str, Any]) -> Planned:
    """A run on this hardware; ConfigError where its batches cannot be shared out so."""
    placed = replace(config, hardware=hardware)
    check_together(placed)
    rows, _ = rows_of(placed)
    room = device_memory(hardware)
    assert room is not None and hardware.gpu is not None
    try:
        duration = duration_on(placed, GPUS[hardware.gpu], rows, test_problems)
    except ConfigError:
        duration = None
    main = hardware.processes * peak(rows, offloaded=True)[1] / GIB
    phase, most = peak(rows)
    held = total(rows, ALWAYS) / GIB
    return Planned(hardware, most / GIB, phase, held, main, room / GIB, duration)


def plan_lines(config: Config, options: Options, test_problems: Mapping[str, Any]) -> list[str]:
    """A table of all hardware, and which to choose: the fewest GPUs that have room.

    hardware.gpu of the run names the GPU
    """
    gpu = config.hardware.gpu
    require(gpu is not None, "hardware.gpu names no GPU to plan for")
    room = (device_memory(replace(config.hardware, device="cuda")) or 0) / GIB
    lines = [
        f"on {gpu} with {room:.1f} GiB each; times are estimates, checked on one H100, and do "
        f"not count exchanges between GPUs and with main memory:",
        f"  {'hardware=':<22}{'GPUs':>5}{'GiB each':>10}  "
        f"{'':<10}{'time, from to':<24}main memory, GiB",
    ]
    best: Planned | None = None
    least: Planned | None = None
    for hardware in candidates(config.hardware, options):
        try:
            planned = plan(config, hardware, test_problems)
        except ConfigError as error:
            lines.append(f"  {hardware.name:<22}{hardware.world:>5}  not possible: {error}")
            continue
        said = "" if planned.fits else "too much"
        main = f"{planned.main:.0f}" if planned.main else ""
        lines.append(
            f"  {hardware.name:<22}{hardware.world:>5}{planned.gib:>10.1f}  "
            f"{said:<10}{hours_text(planned.duration):<24}{main}".rstrip()
        )
        if planned.fits and best is None:
            best = planned
        if least is None or planned.gib < least.gib:
            least = planned
    lines += advice(best, least, config)
    return lines


def hours_text(duration: Duration | None) -> str:
    """The expected hours, and from what to what."""
    if duration is None:
        return "unknown"
    fastest, expected, slowest = duration.hours
    if slowest < 1 / 60:
        return "under a minute"
    if slowest < 2:
        return f"{60 * expected:.0f} min ({60 * fastest:.0f} to {60 * slowest:.0f})"
    return f"{expected:.1f} h ({fastest:.1f} to {slowest:.1f})"


def advice(best: Planned | None, least: Planned | None, config: Config) -> list[str]:
    """Which hardware to choose, and what the run does there.

    least: where it needs the fewest GiB of a GPU; None: its batches cannot be shared out anywhere
    """
    if best is None and least is None:
        return ["  no hardware can share out the batches of this run: change them as the rows say"]
    if best is None and least is not None and not batches_matter(least):
        model = config.model
        smaller = "model.sharing=adapters" if model.sharing == "copies" else ""
        if model.sharing != "copies" and model.quantisation == "none":
            smaller = "model.quantisation=nf4"
        takes = (
            f"loading takes {least.gib:.1f} GiB of each GPU"
            if least.phase == LOADING
            else f"{least.held:.1f} GiB of each GPU are held at all times"
        )
        return [
            f"  no hardware has room: {takes} even with "
            f"hardware={least.hardware.name}, which no batch size changes; try a "
            f"smaller model{f', {smaller}' if smaller else ''}, or a GPU with more memory"
        ]
    if best is None:
        return [
            "  no hardware has room: try hardware.microbatch_size, "
            "hardware.generation_batch_size and hardware.rollout_batch_size below "
            f"{config.hardware.microbatch_size}, {config.hardware.responses_at_once} and "
            f"{config.hardware.rollout_batch_size}, or hardware.gradient_checkpointing=true"
        ]
    lines = [f"  recommended: hardware={best.hardware.name}, the fewest GPUs that have room"]
    duration = best.duration
    if duration is not None:
        lines.append(
            f"  {duration.operations:.1e} operations, {duration.passes:.1e} passes of one token a "
            f"row, {duration.sampled:.1e} tokens sampled{duration.left_out}"
        )
    return lines


def batches_matter(planned: Planned) -> bool:
    """Whether smaller batches could make room: it is short while they are worked on."""
    return planned.phase != LOADING and planned.held <= WARN_ABOVE * planned.room
