"""What is refused of a run in the command itself, before any worker starts; without torch.

What needs data, lengths in tokens, weights, GPUs, or keys of endpoints, a worker refuses.
"""

from importlib.util import find_spec
from pathlib import Path

from cory.config import Config, OfflineConfig, PromptsConfig, require
from cory.models.paths import resolve
from cory.runs.run_dir import is_complete, require_agents, require_own


def refuse_early(run_dir: Path, config: Config) -> None:
    """Refuse what can be refused without a model, by a ConfigError that names key and value.

    A run that is finished needs nothing any more, unless it is to go on.
    """
    require_own(run_dir)
    if is_complete(run_dir, config):
        return
    for key, model in config.models.items():
        resolve(model.path, f"{key}.path")
    task = config.task
    if isinstance(task, PromptsConfig) and task.source == "path":
        there = Path(str(task.path)).expanduser().exists()
        require(there, f"task.path={task.path}: there is no such file or folder")
    runs = {} if config.init_from is None else {"init_from": config.init_from}
    if isinstance(config.algorithm, OfflineConfig):
        opponents = config.algorithm.runs_played_against
        runs |= {f"algorithm.opponents.{name}": place for name, place in opponents.items()}
    for key, place in runs.items():
        require_agents(Path(place), f"{key}={place}")
    for name in ("tensorboard", "trackio"):
        require(
            not getattr(config, name) or find_spec(name) is not None,
            f'{name} needs the package {name}: pip install ".[{name}]"',
        )
    require_evaluations(config)


def require_evaluations(config: Config) -> None:
    """For `keep_best`, a metric of evaluations that is there more than once, and of agents."""
    best = str(config.keep_best)
    require(
        config.keep_best is None or not config.algorithm.speaks_remotely(),
        f"keep_best={best} needs agents: a model behind an endpoint speaks for all",
    )
    require(
        not best.startswith("eval/") or config.evaluate_every > 0,
        f"keep_best={best} needs evaluate_every above 0: agents that are evaluated only at the end "
        f"cannot be compared with those of before",
    )
