"""What a sweep says before its first job: how many runs, and below which folder."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cory.config import Config, ConfigError, PPOConfig, require
from cory.config.options import ALGORITHMS
from cory.runs.run_dir import RECORD
from cory.runs.sweeps.differences import SEED
from cory.runtime.metric_names import require_metric
from cory.runtime.sweeps.jobs import job_words
from cory.runtime.sweeps.progress import Progress

ADHOC = "adhoc"
ITERATIONS = "algorithm.iterations"

Composed = Callable[[Sequence[str]], DictConfig]


@dataclass
class Setting:
    """Runs of a sweep that differ in their seed alone."""

    words: list[str]  # of its first job
    seeds: list[str]
    todo: int = 0


def require_objective(config: Config) -> None:
    """Refuse an objective that the run cannot log, so that no first run is made in vain.

    An algorithm of a user's own package may have other metrics.
    """
    algorithm, metric = config.algorithm, config.objective
    if metric is None or algorithm.name not in ALGORITHMS:
        return
    require_metric("objective", metric)
    agent = re.fullmatch(r"agent_(\d+)", metric.rpartition("/")[2])
    if agent and isinstance(algorithm, PPOConfig) and not algorithm.holds_debates:
        agents = algorithm.policy_count()
        require(
            int(agent[1]) < agents,
            f"objective={metric}: algorithm={algorithm.name} has "
            f"{'the one agent agent_0' if agents == 1 else f'agent_0 to agent_{agents - 1}'}",
        )


def say_begin(progress: Progress, sweeper: Any, composed: Composed, conf: Path) -> None:
    """Print the count of runs and, of a sweep with a name, how many finished before.

    sweeper: Hydra's settings of it
    composed: the settings that the words of a job make, with Hydra's own below `hydra`
    """
    jobs = job_words(sweeper)
    if jobs is None:
        print(f"sweep below {progress.folder}", flush=True)
        return
    settings = settings_of(jobs)
    head = f"{len(jobs)} run{'s' if len(jobs) > 1 else ''}"
    seeds = {len(setting.seeds) for setting in settings}
    if len(jobs) > 1 and len(seeds) == 1:
        head += f" ({_count(len(settings), 'setting')} x {_count(seeds.pop(), 'seed')})"
    if progress.sweep == ADHOC:
        print(f"{head}, below {progress.folder}", flush=True)
        return
    for setting in settings:
        look_at(setting, composed)
    todo = sum(setting.todo for setting in settings)
    before = f", {len(jobs) - todo} of them finished before" if todo < len(jobs) else ""
    print(f"sweep={progress.sweep}: {head}{before}", flush=True)
    if todo:
        say_uncounted(progress.sweep, conf)


def say_uncounted(sweep: str, conf: Path) -> None:
    """Say before the runs of a paper's sweep, and not after hours, that pages will not count them.

    A run counts if its code and settings are those of a commit.
    """
    from cory.runs.provenance import changed_files  # noqa: PLC0415  torch takes seconds to import

    if (conf / "paper" / f"{sweep.partition('/')[0]}.yaml").is_file() and changed_files():
        print(
            "note: code or settings differ from the last commit, and pages leave such runs out; "
            "commit first, or run from a clone (docs/sweeps.md)",
            flush=True,
        )


def settings_of(jobs: Sequence[Sequence[str]]) -> list[Setting]:
    """The jobs without their seeds, each once."""
    found: dict[tuple[str, ...], Setting] = {}
    for words in jobs:
        seeds = [word.partition("=")[2] for word in words if word.startswith(f"{SEED}=")]
        rest = tuple(word for word in words if not word.startswith(f"{SEED}="))
        found.setdefault(rest, Setting(list(words), [])).seeds += seeds or [""]
    return list(found.values())


def look_at(setting: Setting, composed: Composed) -> None:
    """Compose the settings of the first job, and count the runs that are not finished."""
    try:
        cfg = composed(setting.words)
        keep_untrained(cfg, setting.words, composed)
        for seed in setting.seeds:
            if seed:
                cfg.seed = int(seed)
                cfg.hydra.overrides.task = [
                    f"{SEED}={seed}" if word.startswith(f"{SEED}=") else word
                    for word in cfg.hydra.overrides.task
                ]
            run_dir = Path(cfg.hydra.sweep.dir) / cfg.hydra.sweep.subdir
            setting.todo += not (run_dir / RECORD).exists()
    except (ConfigError, HydraException, OmegaConfBaseException, ValueError):
        setting.todo = len(setting.seeds)  # their jobs say what is wrong


def keep_untrained(cfg: DictConfig, words: Sequence[str], composed: Composed) -> list[str]:
    """The words of a job that is only evaluated, without iterations that are typed for its sweep.

    cfg: what the words compose; where the experiment is untrained without them, so it stays
    words: of the job
    """
    rest = [word for word in words if not word.startswith(f"{ITERATIONS}=")]
    if len(rest) == len(words) or cfg.algorithm.iterations == 0:
        return list(words)
    own = composed(rest)
    frozen = str(own.hydra.runtime.choices.algorithm).endswith("_frozen")
    if own.algorithm.iterations != 0 and not frozen:
        return list(words)
    cfg.algorithm.iterations = 0
    return rest


def composed_job(words: Sequence[str]) -> DictConfig:
    """The settings of another job of this sweep, with Hydra's own; within a job only."""
    return hydra.compose("train", overrides=list(words), return_hydra_config=True)


def without_hydra(cfg: DictConfig) -> DictConfig:
    """Composed settings as a job has them, without Hydra's own; `run_dir` is `unused`."""
    choices = cfg.hydra.runtime.choices
    # these read `${hydra:...}`, which only a run of Hydra resolves
    OmegaConf.set_struct(cfg, False)
    del cfg["hydra"]
    for group in ("experiment", "sweep", "scale", "fidelity"):
        cfg[group] = choices[group]
    if OmegaConf.is_interpolation(cfg, "run_dir"):
        cfg.run_dir = "unused"
    OmegaConf.set_struct(cfg, True)
    return cfg


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
