"""What a sweep says before its first job: how many runs, below which folder, and what they cost."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cory.config import Config, ConfigError, PPOConfig, parse_config, require
from cory.config.options import ALGORITHMS
from cory.runs.run_dir import RECORD
from cory.runs.sweeps.differences import SEED
from cory.runtime.metric_names import require_metric
from cory.runtime.sweeps.jobs import job_words
from cory.runtime.sweeps.progress import Progress

ADHOC = "adhoc"
ITERATIONS = "algorithm.iterations"
# words with which runs still take the time that runs of the same experiment took
SAME_TIME = ("sweep", "experiment", SEED, "scale", "parallel_runs", "wandb", "run_dir")

Composed = Callable[[Sequence[str]], DictConfig]


@dataclass
class Setting:
    """Runs of a sweep that differ in their seed alone."""

    words: list[str]  # of its first job
    seeds: list[str]
    todo: int = 0
    config: Config | None = None  # None: such a run is refused


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
    """Print the count of runs and, of a sweep with a name, their cost.

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
    try:
        price = priced(settings, conf)
    except (ValueError, OSError) as error:  # a cost that cannot be told must not cost a run
        price = f"cost unknown ({error})"
    print(f"sweep={progress.sweep}: {head}, {price}", flush=True)
    if any(setting.todo for setting in settings):
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
    """Compose the settings of the first job, and count the runs that are to do."""
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
        OmegaConf.set_struct(cfg, False)
        setting.config = parse_config(without_hydra(cfg))
    except (ConfigError, HydraException, OmegaConfBaseException, ValueError):
        setting.config = None  # its job says what is wrong


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


def priced(settings: Sequence[Setting], conf: Path) -> str:
    """How many runs are to do, how long they take, and how that is known."""
    todo, in_all = sum(s.todo for s in settings), sum(len(s.seeds) for s in settings)
    before = f"{in_all - todo} of them finished before; " if todo < in_all else ""
    if not todo:
        return "all finished before"
    # torch, which takes seconds to import: a sweep with a name takes longer
    from cory.memory.operations import requests_of  # noqa: PLC0415
    from cory.report.costs import cost  # noqa: PLC0415
    from cory.report.records import archive  # noqa: PLC0415

    results = conf.parent / "docs" / "results"  # of a checkout
    kept_at = cache(archive.read)
    total, longest, at_once, sources, unknown, in_turn, requests = 0.0, 0.0, 1, set(), 0, 0, 0
    for setting in (s for s in settings if s.todo):
        config = setting.config
        if config is None:
            unknown += setting.todo
            continue
        paper = config.experiment.partition("/")[0]
        kept = kept_at(results / paper / "records" / config.scale)
        as_named = all(_key(word) in SAME_TIME for word in setting.words)
        splits = known_test_splits(conf, paper)
        requests += setting.todo * requests_of(config, splits)
        each = cost.reckoned(config, Path("outputs"), kept, splits, as_named)
        total, at_once = total + each.of(setting.todo), max(at_once, each.at_once)
        longest = max(longest, each.hours or 0.0)
        unknown += setting.todo if each.hours is None else 0
        in_turn += setting.todo if each.in_turn else 0
        sources.add("measured" if each.measured else "by estimate")
    total = max(total, longest)  # too few runs to fill all places
    text = f"{before}about {cost.duration(total)}" if total else f"{before}time unknown"
    if total and unknown:
        text += f" and {_count(unknown, 'run')} of unknown length"
    if total:
        text += f" ({' and '.join(sorted(sources))})"
    return f"{text}, {cost.manner(at_once, in_turn, todo - unknown)}{cost.besides(requests)}"


def known_test_splits(conf: Path, paper: str) -> Mapping[str, Any]:
    """How many problems whole test splits have, by task, as conf/paper/<paper>.yaml says."""
    path = conf / "paper" / f"{paper}.yaml"
    return (OmegaConf.select(OmegaConf.load(path), "test_problems") or {}) if path.is_file() else {}


def _key(word: str) -> str:
    return word.partition("=")[0].partition(".")[0]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
