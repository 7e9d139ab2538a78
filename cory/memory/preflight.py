"""Checks whether a run fits into memory before anything heavy is loaded."""

from dataclasses import replace
from typing import Any

import torch

from cory.config import (
    GPUS,
    ClassifierConfig,
    Config,
    ConfigError,
    HardwareConfig,
    ModelConfig,
    VerifierRewardConfig,
    cores,
    judges,
    require,
)
from cory.memory.architecture import (
    FLOAT32,
    base_bytes,
    classifier_bytes,
    saved_by_casting,
    shape_of,
)
from cory.memory.disk import disk_line, disk_warning
from cory.memory.estimate import (
    ALWAYS,
    LOADING,
    PHASES,
    SAMPLING,
    Usage,
    estimate_rows,
    peak,
    total,
)
from cory.memory.machine import main_memory
from cory.models.loading import (
    local_classifier,
    local_skeleton,
    skeleton,
    unread_architecture,
)
from cory.rewards.verifier import whole_model

GIB = 2**30
WARN_ABOVE = 0.9  # share of the available memory
LIBRARIES = GIB // 2  # Python and its libraries, in every process (docs/memory.md)


def device_memory(hardware: HardwareConfig) -> int | None:
    """Bytes of the device for one process, of the machine that is planned for if one is named.

    None for a GPU that this machine lacks.
    """
    gpu = GPUS[hardware.gpu].memory if hardware.gpu and hardware.device == "cuda" else None
    planned = gpu if hardware.memory is None else hardware.memory
    if hardware.device == "cpu":
        own = main_memory() if planned is None else int(planned * GIB)
        return own // hardware.processes
    if planned is not None:
        return int(planned * GIB)
    if not torch.cuda.is_available():
        return None
    return int(torch.cuda.get_device_properties(0).total_memory)


def runs_at_once(config: Config) -> int:
    """How many runs like this one work side by side: as many as `parallel_runs` says, or as fit.

    Not limited by memory where that cannot be estimated: such a run is refused by its worker.
    """
    hardware = config.hardware
    if config.parallel_runs is not None or not hardware.shares_cores:
        return config.parallel_runs or 1
    by_cores = max(1, cores() // hardware.processes)
    try:
        rows, _ = rows_of(config)
    except ConfigError:
        return by_cores
    most = peak(rows)[1] + peak(rows, offloaded=True)[1] + LIBRARIES
    fitting = int(WARN_ABOVE * main_memory()) // (hardware.processes * most)
    return max(1, min(by_cores, fitting))


def rows_of(config: Config) -> tuple[list[Usage], list[str]]:
    """The memory of a process of a run, and notes on what is left out."""
    partner, agents = config.partner, config.algorithm.policy_count()
    theirs = 0 if partner is None else agents // 2
    rows = rows_of_model(config, config.model, "model", agents - theirs)
    if partner is not None:
        named = [
            replace(row, what=f"{row.what} (partner)")
            for row in rows_of_model(config, partner, "partner", theirs)
        ]
        rows = side_by_side(rows, named)
    rows += opponent_rows(config)
    notes = ["not counted: Python and its libraries (docs/memory.md), and a GPU's own context"]
    for key, model in (("model", config.model), ("partner", partner)):
        if model is not None:
            other = unread_architecture(
                model.path, f"{key}.path", model.described, model.remote_code
            )
            notes += [] if other is None else [other]
    for key, reward in judges(config.reward).items():
        judge = judge_bytes(reward)
        if judge is None:
            notes.append(f"not counted: {key}.path={reward.path} is not on this machine")
        elif judge:
            part = "" if key == "reward" else f" ({key.rpartition('.')[2]})"
            rows.append(Usage(f"reward model{part}", judge, ALWAYS))
    return rows, notes


def opponent_rows(config: Config) -> list[Usage]:
    """Opponents, agents of other runs: each is loaded when it plays."""
    model = config.model
    if config.algorithm.opponent_models() == 0 or model.sharing != "copies":  # adapters are small
        return []
    lm = skeleton(model.path, "model.path", model.described, model.remote_code)
    shape = shape_of(lm)
    each = base_bytes(shape, model) - saved_by_casting(shape, model)
    return [Usage("the opponent that plays", each, SAMPLING)]


def judge_bytes(reward: Any) -> int | None:
    """Bytes of the model of a reward; None where its config.json is not on this machine.

    Of a plug-in's reward with a setting `path`: a sequence classifier in float32.
    """
    if isinstance(reward, VerifierRewardConfig):
        lm = local_skeleton(whole_model(reward), "reward.path")
        if lm is None:
            return None
        shape = shape_of(lm)
        return base_bytes(shape, reward) - saved_by_casting(shape, reward)
    if not hasattr(reward, "path"):
        return 0
    classifier = local_classifier(reward.path, "reward.path")
    if classifier is None:
        return None
    if isinstance(reward, ClassifierConfig):
        return classifier_bytes(classifier, reward)
    return classifier_bytes(classifier, FLOAT32)


def rows_of_model(config: Config, model: ModelConfig, key: str, agents: int) -> list[Usage]:
    """Memory of one model and the policies that start from it.

    key: the model's group of settings, `model` or `partner`
    """
    lm = skeleton(model.path, f"{key}.path", model.described, model.remote_code)
    targets: list[str] = []
    if model.sharing != "copies":
        from cory.models.lora import adapted_layers  # noqa: PLC0415  five seconds, and copies need none

        targets = adapted_layers(lm, model.adapter.targets)
    return estimate_rows(config, model, agents, shape_of(lm), targets)


def side_by_side(one: list[Usage], other: list[Usage]) -> list[Usage]:
    """Memory of two models: both are held, and one of them works at a time."""
    rows = [row for row in (*one, *other) if row.when in (ALWAYS, LOADING)]
    for phase in PHASES:
        if phase != LOADING:
            own = [[row for row in rows_ if row.when == phase] for rows_ in (one, other)]
            rows += max(own, key=lambda found: sum(row.bytes for row in found))
    return rows


def estimate_table(config: Config, rows: list[Usage], notes: list[str]) -> str:
    """The estimate as text, with sums and the device's memory."""
    model, hardware = config.model, config.hardware
    agents = config.algorithm.policy_count()
    packed = "" if model.quantisation == "none" else f", base in {model.quantisation}"
    lines = [
        f"memory of one process, GiB: model={model.name} ({model.precision}{packed}), "
        f"{agents} agent{'s' if agents > 1 else ''} as {model.sharing}, hardware={hardware.name} "
        f"({hardware.world} process{'es' if hardware.world > 1 else ''}, "
        f"zero_stage={hardware.zero_stage})"
    ]

    def line(what: str, size: int, when: str) -> None:
        lines.append(f"  {what:<44}{size / GIB:>9.2f}  {when}")

    for phase in (ALWAYS, *PHASES):
        for row in rows:
            if row.when == phase:
                line(row.what, row.bytes, phase + (", in main memory" if row.offloaded else ""))
    lines.append("  " + "-" * 53)
    line("held always", total(rows, ALWAYS), "")
    when, most = peak(rows)
    line("most at once", most, f"in phase: {when}")
    if any(row.offloaded for row in rows):
        when, most = peak(rows, offloaded=True)
        line("most at once in main memory", most, f"in phase: {when}")
        if not elsewhere(hardware):
            line("main memory for each process", main_memory() // hardware.processes, "")
    room = device_memory(hardware)
    if room is None:
        lines.append("  this machine has no CUDA device to compare with")
    else:
        line(name_of_device(hardware), room, "")
    lines.append(f"  {disk_line(config, rows)}")
    return "\n".join([text.rstrip() for text in lines] + [f"  {note}" for note in notes])


def elsewhere(hardware: HardwareConfig) -> bool:
    """Whether the run is planned for another machine, whose main memory is not known."""
    return hardware.gpu is not None or hardware.memory is not None


def name_of_device(hardware: HardwareConfig) -> str:
    """What holds a process's share, for tables and refusals."""
    if hardware.device == "cpu":
        return "main memory for each process"
    return "the CUDA device" if hardware.gpu is None else f"hardware.gpu={hardware.gpu}"


def print_estimate(config: Config) -> None:
    """Print the estimate, and whether the run fits."""
    rows, notes = rows_of(config)
    print(estimate_table(config, rows, notes))
    # the disk of another machine is not known
    checks = (memory_warning,) if elsewhere(config.hardware) else (memory_warning, disk_warning)
    for check_of in checks:
        try:
            warning = check_of(config, rows)
        except ConfigError as error:
            warning = f"this run will be refused: {error}"
        if warning is not None:
            print(warning)


def check(config: Config, speak: bool) -> None:
    """Refuse a run that cannot fit, warn of one that hardly will; speak: print the result."""
    rows, notes = rows_of(config)
    warnings = [memory_warning(config, rows), disk_warning(config, rows)]
    warning = "\n".join(said for said in warnings if said is not None) or None
    if not speak:
        return
    if warning is not None:
        print(f"{estimate_table(config, rows, notes)}\n{warning}", flush=True)
        return
    when, most = peak(rows)
    room = device_memory(config.hardware)
    of = "" if room is None else f" of {room / GIB:.2f}"
    print(f"memory: about {most / GIB:.2f}{of} GiB per process (most in phase: {when})", flush=True)


def memory_warning(config: Config, rows: list[Usage]) -> str | None:
    """A warning for each memory in which the run may not fit; ConfigError where it cannot start."""
    warnings = []
    hardware = config.hardware
    has = f"{name_of_device(hardware)} {'is' if hardware.device == 'cpu' else 'has'}"
    pools = [(False, has, device_memory(hardware))]
    if any(row.offloaded for row in rows) and not elsewhere(hardware):
        share = main_memory() // hardware.processes
        pools.append((True, "main memory for each process is", share))
    for offloaded, name, room in pools:
        if room is None:
            continue
        held, (when, most) = total(rows, ALWAYS, offloaded), peak(rows, offloaded)
        require(
            held <= room,
            f"model={config.model.name} with hardware={config.hardware.name} holds "
            f"{held / GIB:.2f} GiB per process at all times, and {name} {room / GIB:.2f} "
            f"GiB; preflight_only=true says of what",
        )
        if most > WARN_ABOVE * room:
            warnings.append(
                f"warning: about {most / GIB:.2f} GiB in phase {when}, and {name} "
                f"{room / GIB:.2f} GiB: the run may end for want of memory"
            )
    return "\n".join(warnings) or None
