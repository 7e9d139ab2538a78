"""What can be refused of a run in the command itself, before any worker starts; without torch.

Each check yields lines that name key, value and rule. A worker checks the same again, and what only
it can know: lengths in tokens, weights, devices.
"""

import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from cory.config import (
    Config,
    ConfigError,
    GameConfig,
    ModelConfig,
    OfflineConfig,
    PromptsConfig,
    VerifierRewardConfig,
    judges,
    nearest,
    parse_config,
    require,
)
from cory.config.names import key_of
from cory.config.unread import unread
from cory.models.context import described_length
from cory.models.places import resolve
from cory.runs.run_dir import AGENTS, has_iterations, read_record, require_own
from cory.runs.settings import read_settings
from cory.runs.user_function import require_functions
from cory.tasks.data.tables import READERS, file_of_split, file_rows, read_words

Refusals = Iterator[str]
ADAPTER = "adapter_config.json"
# device files of GPUs that torch calls CUDA: NVIDIA's, under Windows, on a board, AMD's
GPU_FILES = ("nvidiactl", "dxg", "nvhost-gpu", "nvmap", "kfd")
DEVICES = Path("/dev")
COLUMN = "_column"  # how the names of settings end that name a column
READ_WHOLE = 32 * 2**20  # bytes of a .jsonl file up to which its lines are looked at


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


def refuse_unread(
    config: Config, words: Sequence[str], varied: Mapping[str, str] | None = None
) -> list[str]:
    """Refuse settings that were typed and that the run does not read.

    words: as typed; of a job of a sweep, its own; null asks for nothing
    varied: what varies in the sweep; the others need not mean something to each of its runs, and
        are returned, a line each; None: no sweep
    """
    asks = (w for w in words if not w.startswith("~") and not w.endswith("=null"))
    typed = {key_of(word): word for word in asks}
    found = {key: f"{typed[key]} is not read: {why}" for key, why in unread(config, typed)}
    fixed = [] if varied is None else [key for key in found if key not in varied]
    refused = [line for key, line in found.items() if key not in fixed]
    require(not refused, "\n".join(refused))
    return [found[key] for key in fixed]


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
        yield from said or context_refusals(config, model, key)
    for key, judge in judges(config.reward).items():
        path = getattr(judge, "path", None)
        if isinstance(judge, VerifierRewardConfig):
            yield from verifier_refusals(judge, f"{key}.path")
        elif isinstance(path, str):
            yield from said_by(resolve, path, f"{key}.path")
    yield from said_by(require_functions, config.reward)


def verifier_refusals(judge: VerifierRewardConfig, key: str) -> Refusals:
    """A verifier is a folder with a whole model or an adapter."""
    folder = Path(judge.path).expanduser()
    if folder.is_dir() and (folder / ADAPTER).is_file():
        return
    yield from said_by(resolve, judge.path, key)


def context_refusals(config: Config, model: ModelConfig, key: str) -> Refusals:
    """Prompt and response in one text, instructions; a worker also counts what templates add."""
    task, algorithm = config.task, config.algorithm
    context = described_length(described_in(model, key))
    if context is None or algorithm.speaks_remotely():
        return
    if task.max_prompt_tokens + algorithm.sampling.max_response_tokens > context:
        yield (
            f"task.max_prompt_tokens ({task.max_prompt_tokens}) and "
            f"algorithm.sampling.max_response_tokens ({algorithm.sampling.max_response_tokens}) "
            f"exceed the context of {key}={model.name} ({context} tokens)"
        )
    if isinstance(algorithm, OfflineConfig):
        yield from said_by(algorithm.check_instructions, f"{key}={model.name}", context)


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
    if programs is not None:
        yield from table_refusals(source, programs, (train,), "task.programs")
        train = None
    yield from table_refusals(source, task, (train, test), "task")
    if isinstance(algorithm, OfflineConfig) and algorithm.instructions.per_iteration > 0:
        group = algorithm.instructions
        yield from table_refusals(group.source, group, (group.split,), "algorithm.instructions")


def table_refusals(source: str, group: Any, splits: Sequence[str | None], key: str) -> Refusals:
    """Refusals of the files of one group of settings; none for data on the hub.

    group: with `path`, and settings that name columns; key: its dotted name
    """
    if source != "path" or getattr(group, "path", None) is None:
        return
    seen: set[Path] = set()
    for split in filter(None, splits):
        try:
            file = file_of_split(group.path, split, f"{key}.path")
            names = [] if file in seen else columns_of(file, f"{key}.path")
        except ConfigError as error:
            yield str(error)
            continue
        seen.add(file)
        if names:
            yield from column_refusals(group, names, file, key)


def column_refusals(group: Any, names: list[str], file: Path, key: str) -> Refusals:
    """Settings that name a column which a file lacks."""
    wanted = [(name, value) for name, value in group if name.endswith(COLUMN)]
    if isinstance(group, PromptsConfig):
        wanted += [("columns", name) for name in group.columns or ()]
        wanted += [("prompt_template", name) for name in group.template_columns]
    for setting, name in wanted:
        if name is not None and name not in names:
            yield (
                f"{key}.{setting}={name} is not in the data ({file}); it has {', '.join(names)}"
                f"{nearest(name, names)}"
            )


def columns_of(file: Path, key: str) -> list[str]:
    """The names of a file's columns; empty where only the worker can tell, as of a long file."""
    require(file.suffix in READERS, f"{key}={file} must end in one of {', '.join(READERS)}")
    if file.suffix == ".jsonl" and file.stat().st_size <= READ_WHOLE:
        return list(file_rows(file, key)[0])
    if file.suffix != ".csv":
        return []
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            return next(csv.reader(lines), [])
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"{key}={file}: cannot be read: {error}") from None


def game_refusals(config: Config) -> Refusals:
    """Files of words that games are about, and of games that are to be learned from."""
    if isinstance(config.task, GameConfig):
        for key, path in config.task.word_files().items():
            yield from said_by(read_words, path, key)
    algorithm = config.algorithm
    reads = isinstance(algorithm, OfflineConfig) and algorithm.from_file
    if reads and not Path(algorithm.games).expanduser().is_file():
        yield f"algorithm.games={algorithm.games}: there is no such file"


def device_refusals(config: Config) -> Refusals:
    """A GPU that is certainly not there; how many there are, the worker counts."""
    if config.hardware.device != "cuda":
        return
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
    if hidden or not any((DEVICES / name).exists() for name in GPU_FILES):
        yield "hardware.device=cuda: this machine has no CUDA device; use hardware=cpu"


def package_refusals(config: Config) -> Refusals:
    """A package that only some runs need."""
    if config.tensorboard and find_spec("tensorboard") is None:
        yield 'tensorboard=true needs the package tensorboard: pip install ".[tensorboard]"'
    if config.trackio is not None and find_spec("trackio") is None:
        yield f'trackio={config.trackio} needs the package trackio: pip install ".[trackio]"'


def endpoint_refusals(config: Config) -> Refusals:
    """A key that is not in the environment, of every endpoint that a run asks."""
    asked = config.algorithm.endpoint_asked()
    of_judges = (getattr(judge, "endpoint", None) for judge in judges(config.reward).values())
    for endpoint in (asked, *of_judges):
        if endpoint is None:
            continue
        name = endpoint.key_variable
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
    game_refusals,
    endpoint_refusals,
    device_refusals,
    package_refusals,
    metric_refusals,
)
