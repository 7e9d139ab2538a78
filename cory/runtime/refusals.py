"""What can be refused of a run in the command itself, before any worker starts; without torch.

Each check raises a ConfigError that names key, value and rule. A worker checks the same again, and
what only it can know: lengths in tokens, weights, devices.
"""

import os
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from cory.config import (
    Config,
    ConfigError,
    HardwareConfig,
    OfflineConfig,
    PromptsConfig,
    judges,
    parse_config,
    require,
)
from cory.config.base import typed
from cory.models.paths import resolve
from cory.runs.run_dir import has_iterations, read_record, require_agents, require_own
from cory.tasks.tables import file_of_split, file_rows, require_columns

Check = tuple[Any, ...]  # a function that refuses, and its arguments
ADAPTER = "adapter_config.json"
# device files of GPUs that torch calls CUDA: NVIDIA's, under Windows, on a board, AMD's
GPU_FILES = ("nvidiactl", "dxg", "nvhost-gpu", "nvmap", "kfd")
DEVICES = Path("/dev")
READ_WHOLE = 4 * 2**20  # bytes of a file up to which its columns are looked at


def parsed(cfg: DictConfig) -> Config:
    """The checked settings; a ConfigError has a line for every mistake that is found."""
    return parse_config(cfg, also=refusals)


def refuse_early(run_dir: Path, config: Config) -> None:
    """Refuse what can be refused without a model; a ConfigError has a line for every mistake.

    A run that is finished needs nothing any more, unless it is to go on.
    """
    finished = has_iterations(read_record(run_dir), config.algorithm.iterations)
    own = (require_own, run_dir)
    found = said_by([own] if finished else [own, *checks(config)])
    require(not found, "\n".join(found))


def refusals(config: Config) -> list[str]:
    """A line for everything that is wrong with a run, as far as this can be told quickly."""
    return said_by(checks(config))


def said_by(checks: Iterable[Check]) -> list[str]:
    """What checks refuse, each once."""
    found = []
    for check, *arguments in checks:
        try:
            check(*arguments)
        except ConfigError as error:
            found.append(str(error))
    return list(dict.fromkeys(found))


def checks(config: Config) -> Iterator[Check]:
    """Every check of a run, with its arguments."""
    algorithm, rewards = config.algorithm, judges(config.reward)
    for key, model in config.models.items():
        yield resolve, model.path, f"{key}.path"
    for key, judge in rewards.items():
        yield require_judge, judge, key
    for group, split, key in tables(config):
        yield require_table, group, split, key
    others = {} if config.init_from is None else {"init_from": config.init_from}
    if isinstance(algorithm, OfflineConfig):
        opponents = algorithm.runs_played_against
        others |= {f"algorithm.opponents.{name}": place for name, place in opponents.items()}
    for key, place in others.items():
        yield require_agents, Path(place), f"{key}={place}"
    for endpoint in (
        algorithm.endpoint_asked(),
        *(getattr(judge, "endpoint", None) for judge in rewards.values()),
    ):
        if endpoint is not None:
            yield require_key, endpoint
    yield require_device, config.hardware
    yield require_package, "tensorboard", config.tensorboard
    yield require_package, "trackio", config.trackio
    if config.keep_best is not None:
        yield require_evaluations, config


def require_judge(judge: Any, key: str) -> None:
    """A judging model's folder that is none; a verifier's may be an adapter."""
    path = getattr(judge, "path", None)
    if isinstance(path, str) and not (Path(path).expanduser() / ADAPTER).is_file():
        resolve(path, f"{key}.path")


def tables(config: Config) -> Iterator[tuple[Any, str, str]]:
    """Every file of data: its settings, with `path`; its split; their dotted name."""
    task, algorithm = config.task, config.algorithm
    source, programs = getattr(task, "source", ""), getattr(task, "programs", None)
    train, test = getattr(task, "train_split", None), getattr(task, "test_split", None)
    found = [(source, task, train, "task"), (source, task, test, "task")]
    if programs is not None:
        found[0] = (source, programs, train, "task.programs")
    if isinstance(algorithm, OfflineConfig) and algorithm.instructions.per_iteration > 0:
        group = algorithm.instructions
        found.append((group.source, group, group.split, "algorithm.instructions"))
    for source, group, split, key in found:
        if source == "path" and split is not None and getattr(group, "path", None) is not None:
            yield group, split, key


def require_table(group: Any, split: str, key: str) -> None:
    """A file of data has the columns that settings name; a long one is left to the worker.

    group: with `path`, and settings that name columns; key: its dotted name
    """
    file = file_of_split(group.path, split, f"{key}.path")
    rows = file_rows(file, f"{key}.path") if file.stat().st_size <= READ_WHOLE else []
    wanted = [(f"{key}.{name}", value) for name, value in group if name.endswith("_column")]
    if isinstance(group, PromptsConfig):
        wanted += [(f"{key}.columns", name) for name in group.columns or ()]
        wanted += [(f"{key}.prompt_template", name) for name in group.template_columns]
    if rows:
        require_columns([*rows[0]], [(name, value) for name, value in wanted if value is not None])


def require_key(endpoint: Any) -> None:
    """A key that is not in the environment."""
    name = endpoint.key_variable
    require(
        name is None or bool(os.environ.get(name, "").strip()),
        f"{endpoint.key}.key_variable={name}: this environment variable is not set; it has to hold "
        f"the key",
    )


def require_device(hardware: HardwareConfig) -> None:
    """A GPU that is certainly not there; how many there are, the worker counts."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
    there = not hidden and any((DEVICES / name).exists() for name in GPU_FILES)
    said = "hardware.device=cuda: this machine has no CUDA device; use hardware=cpu"
    require(hardware.device != "cuda" or there, said)


def require_package(name: str, value: Any) -> None:
    """A package that only some runs need; value: of the setting of that name."""
    require(
        not value or find_spec(name) is not None,
        f'{name}={typed(value)} needs the package {name}: pip install ".[{name}]"',
    )


def require_evaluations(config: Config) -> None:
    """A metric of evaluations that is there once, or of no agents."""
    best = config.keep_best
    require(
        not config.algorithm.speaks_remotely(),
        f"keep_best={best} needs agents: a model behind an endpoint speaks for all",
    )
    require(
        not str(best).startswith("eval/") or config.evaluate_every > 0,
        f"keep_best={best} needs evaluate_every above 0: agents that are evaluated only at the end "
        f"cannot be compared with those of before",
    )
