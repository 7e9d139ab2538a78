"""What can be refused of a run in the command itself, before any worker starts; without torch.

Each check yields lines that name key, value and rule. A worker checks the same again, and what only
it can know: lengths in tokens, weights, devices.
"""

import json
import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from cory.config import (
    Config,
    ConfigError,
    ModelConfig,
    OfflineConfig,
    PromptsConfig,
    judges,
    parse_config,
    require,
)
from cory.config.base import typed
from cory.models.context import described_length
from cory.models.paths import resolve
from cory.runs.run_dir import AGENTS, has_iterations, read_record, require_own
from cory.runs.settings import read_settings
from cory.tasks.data.tables import file_of_split, file_rows, require_columns

Refusals = Iterator[str]
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
    if has_iterations(read_record(run_dir), config.algorithm.iterations):
        require_own(run_dir)
        return
    found = [*said_by(require_own, run_dir), *refusals(config)]
    require(not found, "\n".join(found))


def refusals(config: Config) -> list[str]:
    """A line for everything that is wrong with a run, as far as this can be told quickly."""
    found: list[str] = []
    for check in CHECKS:
        found += check(config)
    return list(dict.fromkeys(found))


def said_by(check: Callable[..., object], *arguments: Any) -> Refusals:
    """The refusal of a check that raises ConfigError, if it does."""
    try:
        check(*arguments)
    except ConfigError as error:
        yield str(error)


def model_refusals(config: Config) -> Refusals:
    """Models and judges: a folder or a file that is none, and a context that is too short."""
    for key, model in config.models.items():
        said = [*said_by(resolve, model.path, f"{key}.path")]
        yield from said or said_by(require_context, config, model, key)
    for key, judge in judges(config.reward).items():
        path = getattr(judge, "path", None)
        # a verifier may be an adapter
        if isinstance(path, str) and not (Path(path).expanduser() / ADAPTER).is_file():
            yield from said_by(resolve, path, f"{key}.path")


def require_context(config: Config, model: ModelConfig, key: str) -> None:
    """Prompt and response fit in one text; a worker also counts what templates add."""
    prompt = config.task.max_prompt_tokens
    response = config.algorithm.sampling.max_response_tokens
    context = described_length(described_in(model, key))
    require(
        context is None or config.algorithm.speaks_remotely() or prompt + response <= context,
        f"task.max_prompt_tokens ({prompt}) and algorithm.sampling.max_response_tokens "
        f"({response}) exceed the context of {key}={model.name} ({context} tokens)",
    )


def described_in(model: ModelConfig, key: str) -> dict[str, Any]:
    """A model's config.json; the settings' own `architecture` where it is not on this machine."""
    file = Path(resolve(model.path, f"{key}.path")) / "config.json"
    if not file.is_file():
        return dict(model.described or {})
    try:
        described = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}  # the worker's own words say what is wrong with it
    return described if isinstance(described, dict) else {}


def run_refusals(config: Config) -> Refusals:
    """Other runs that this one needs: those it starts from, and opponents."""
    named = {} if config.init_from is None else {"init_from": config.init_from}
    algorithm = config.algorithm
    if isinstance(algorithm, OfflineConfig):
        opponents = algorithm.runs_played_against
        named |= {f"algorithm.opponents.{name}": place for name, place in opponents.items()}
    for key, place in named.items():
        yield from said_by(require_agents, Path(place), f"{key}={place}")


def require_agents(run_dir: Path, said: str) -> None:
    """ConfigError unless the folder is a run, or an iteration of one, that has left agents."""
    read_settings(run_dir, said)
    agents = run_dir / AGENTS
    require(agents.is_dir(), f"{said}: the run has no agents; they appear when it finishes")


def data_refusals(config: Config) -> Refusals:
    """Files of data that are not there or hold no rows, and columns that they lack."""
    task, algorithm = config.task, config.algorithm
    source, programs = getattr(task, "source", ""), getattr(task, "programs", None)
    train, test = getattr(task, "train_split", None), getattr(task, "test_split", None)
    tables = [(source, task, train, "task"), (source, task, test, "task")]
    if programs is not None:
        tables[0] = (source, programs, train, "task.programs")
    if isinstance(algorithm, OfflineConfig) and algorithm.instructions.per_iteration > 0:
        group = algorithm.instructions
        tables.append((group.source, group, group.split, "algorithm.instructions"))
    for source, group, split, key in tables:
        if source == "path" and split is not None and getattr(group, "path", None) is not None:
            yield from said_by(require_table, group, split, key)


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


def device_refusals(config: Config) -> Refusals:
    """A GPU that is certainly not there; how many there are, the worker counts."""
    if config.hardware.device != "cuda":
        return
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
    if hidden or not any((DEVICES / name).exists() for name in GPU_FILES):
        yield "hardware.device=cuda: this machine has no CUDA device; use hardware=cpu"


def package_refusals(config: Config) -> Refusals:
    """A package that only some runs need."""
    for name, value in (("tensorboard", config.tensorboard), ("trackio", config.trackio)):
        if value and find_spec(name) is None:
            yield f'{name}={typed(value)} needs the package {name}: pip install ".[{name}]"'


def endpoint_refusals(config: Config) -> Refusals:
    """A key that is not in the environment, of every endpoint that a run asks."""
    of_judges = (getattr(judge, "endpoint", None) for judge in judges(config.reward).values())
    for endpoint in (config.algorithm.endpoint_asked(), *of_judges):
        name = None if endpoint is None else endpoint.key_variable
        if name is not None and not os.environ.get(name, "").strip():
            yield (
                f"{endpoint.key}.key_variable={name}: this environment variable is not set; it has "
                f"to hold the key"
            )


def metric_refusals(config: Config) -> Refusals:
    """A metric of evaluations that is there once."""
    best = config.keep_best
    if best is not None and config.algorithm.speaks_remotely():
        yield f"keep_best={best} needs agents: a model behind an endpoint speaks for all"
    if best is not None and best.startswith("eval/") and config.evaluate_every == 0:
        yield (
            f"keep_best={best} needs evaluate_every above 0: agents that are evaluated only at the "
            f"end cannot be compared with those of before"
        )


CHECKS: tuple[Callable[[Config], Refusals], ...] = (
    model_refusals,
    data_refusals,
    run_refusals,
    endpoint_refusals,
    device_refusals,
    package_refusals,
    metric_refusals,
)
