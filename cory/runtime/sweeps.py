"""Many runs by one command: the runs of conf/sweeps as jobs of Hydra's launchers, and -m key=a,b.

A job is one run, listed as the words that one would type for it. It starts its worker in a process
of its own, and a failed one stops no other.
"""

import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from cory.config import ConfigError, cores, parse_config, plug_in_folders, read_sweep, require
from cory.config.names import RUN, Sweep, key_of, merged
from cory.runs.files import write_whole
from cory.runs.run_dir import METRICS, OUTPUT, RECORD, runs_below
from cory.runtime.hydra_setup import CONF, composed, one_line_refusals
from cory.runtime.launch import JobFailed
from cory.runtime.varied import folder_of
from cory.runtime.words import alternatives, is_setting

ITERATIONS = "algorithm.iterations"
PARALLEL = "CORY_PARALLEL"  # environment variable of joblib's processes: how many there are
JOBLIB = "hydra_plugins.hydra_joblib_launcher.joblib_launcher.JoblibLauncher"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
FOLDER = "hydra.sweep.dir"

Compose = Callable[..., DictConfig]
_folders: list[Path] = []  # of the multi-run of this command
_of_multirun = ExitStack()  # until the command ends


@dataclass(frozen=True)
class Job:
    """One run of a sweep with a name."""

    name: str  # of the run, as in folders and pages
    words: list[str]
    folder: Path  # of all runs of the sweep
    subfolder: str

    @property
    def run_dir(self) -> Path:
        return self.folder / self.subfolder


def run_sweep(words: Sequence[str], own: Path | None, task: Callable[[DictConfig], Any]) -> bool:
    """Run the jobs of `sweep=<file>/<entry>`; whether all finished.

    own: the folder of --config-dir, if any
    task: runs a job from its settings
    """
    settings = merged([*filter(is_setting, words)])
    values = dict(word.partition("=")[::2] for word in settings)
    only = values["only"].split(",") if "only" in values else []
    settings = [word for word in settings if key_of(word) != "only"]
    search = [] if own is None else [f"hydra.searchpath=[file://{own.expanduser().absolute()}]"]
    hydras = [*search, *(w for w in words if key_of(w).startswith("hydra"))]
    require("run_dir" not in values, "run_dir= is one folder for all runs of a sweep")
    flags = [w for w in words if w.startswith("-") and w not in ("-m", "--multirun")]
    shown = [w for w in flags if w.startswith(("--cfg", "-c", "--info", "-i", "--resolve"))]
    require(
        not shown, f"{' '.join(shown)} is for one run: type its words, as conf/sweeps lists them"
    )
    folders = [CONF, *([] if own is None else [own]), *plug_in_folders()]
    sweep = read_sweep(values["sweep"], values.get("scale", "paper"), folders, only)
    folder = [Path(word.partition("=")[2]) for word in hydras if key_of(word) == FOLDER]
    jobs = jobs_of(sweep, settings, *folder[-1:])

    def composed_job(*typed: str) -> DictConfig:
        with one_line_refusals(typed):
            return composed(*search, *typed)

    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        stages = in_stages(jobs, composed_job)
        say_begin(sweep, jobs)
        began = time.monotonic()
        try:
            return run_stages(stages, hydras, task)
        finally:
            say_end([job.run_dir for job in jobs], jobs[0].folder, sweep.mark, began)


def jobs_of(sweep: Sweep, words: Sequence[str], folder: Path | None = None) -> list[Job]:
    """A job for every run and seed, and for every combination of values that are typed beside.

    words: settings typed beside `sweep=`, which replace those of the runs
    folder: of all runs, as `hydra.sweep.dir=` names it; None: the one of their scale and fidelity
    """
    own = dict(word.partition("=")[::2] for word in words)
    scale, fidelity = own.get("scale", "paper"), own.get("fidelity", "paper")
    for key, value in (("scale", scale), ("fidelity", fidelity)):
        require("," not in value, f"{key}={value}: a sweep has one; type it once for each")
    standard = RUN.partition("/{name}")[0].format(scale=scale, fidelity=fidelity)
    folder = folder or Path(standard)
    choices = alternatives(merged([f"seed={','.join(map(str, sweep.seeds))}"], words))
    empty = [word for word in words if not choices[key_of(word)]]
    require(not empty, f"{' '.join(empty)}: an interval is for a search by -m, not for sweep=")
    several = {key for key, values in choices.items() if len(values) > 1} - {"seed"}
    found = []
    for name, run in sweep.runs.items():
        for chosen in product(*choices.values()):
            values = dict(word.partition("=")[::2] for word in chosen)
            others = folder_of({key.lstrip("+"): values[key] for key in values if key in several})
            place = "/".join(filter(None, [name, others, f"seed{values['seed']}"]))
            found.append(Job(name, merged(run, chosen), folder, place))
    return found


def in_stages(jobs: Sequence[Job], compose: Compose) -> list[list[Job]]:
    """The jobs in the order in which they can run: those that others start from come first.

    compose: the settings that words make; ConfigError where one of the runs cannot be
    """
    names = list(dict.fromkeys(job.name for job in jobs))
    settings = {}
    for name in names:
        own = [job for job in jobs if job.name == name]
        keep_untrained(own, compose)
        settings[name] = compose(*own[0].words)
        try:
            parse_config(settings[name])
        except ConfigError as error:
            lines = str(error).splitlines()
            raise ConfigError("\n".join(f"{name}: {line}" for line in lines)) from None
    needs = {
        name: {other for other in names if other != name and starts_from(cfg, other)}
        for name, cfg in settings.items()
    }
    require_in_place(jobs, settings, set().union(*needs.values()))
    stages: list[list[Job]] = []
    while names:
        ready = [name for name in names if not needs[name] & {*names}]
        require(bool(ready), f"{', '.join(names)} start from each other")
        stages.append([job for job in jobs if job.name in ready])
        names = [name for name in names if name not in ready]
    return stages


def require_in_place(
    jobs: Sequence[Job], settings: Mapping[str, DictConfig], needed: Collection[str]
) -> None:
    """Refuse where runs that others start from would not lie where those look for them.

    settings: of each name; needed: the names that others start from
    """
    for job in (job for job in jobs if job.name in needed):
        cfg, seed = settings[job.name], job.subfolder.rpartition("seed")[2]
        place = RUN.format(name=job.name, scale=cfg.scale, fidelity=cfg.fidelity, seed=seed)
        require(
            str(job.run_dir) == place,
            f"runs of this sweep start from {job.name}, which they look for in {place}, not in "
            f"{job.run_dir}: type one value of each setting but the seed, and no {FOLDER}",
        )


def keep_untrained(jobs: Sequence[Job], compose: Compose) -> None:
    """Take `algorithm.iterations` that is typed for a sweep from jobs that are only evaluated."""
    words = jobs[0].words
    rest = [word for word in words if key_of(word) != ITERATIONS]
    if len(rest) == len(words) or f"{ITERATIONS}=0" in words or compose(*rest).algorithm.iterations:
        return
    print(f"note: {jobs[0].name} is only evaluated, whatever {ITERATIONS} is typed", flush=True)
    for job in jobs:
        job.words[:] = [word for word in job.words if key_of(word) != ITERATIONS]


def starts_from(cfg: DictConfig, name: str) -> bool:
    """Whether settings name the folder of another run, or something in it."""
    keys = {key: cfg[key] for key in ("scale", "fidelity", "seed")}
    folder = RUN.format(name=name, **keys)
    texts = _texts(OmegaConf.to_container(cfg, resolve=True))
    return any(text == folder or text.startswith(f"{folder}/") for text in texts)


def _texts(settings: Any) -> Iterator[str]:
    if isinstance(settings, str):
        yield settings
    elif isinstance(settings, dict | list):
        for value in settings.values() if isinstance(settings, dict) else settings:
            yield from _texts(value)


def run_stages(
    stages: Sequence[Sequence[Job]], words: Sequence[str], task: Callable[[DictConfig], Any]
) -> bool:
    """Hand the jobs to the launcher that is chosen, stage by stage; whether all finished.

    words: Hydra's own, as hydra/launcher=<launcher>; Hydra is initialised
    task: runs a job from its settings
    """
    core = GlobalHydra.instance().hydra
    assert core is not None
    begun, good = 0, True
    for jobs in stages:
        first = ["hydra.mode=MULTIRUN", *words, f"{FOLDER}={jobs[0].folder}", *jobs[0].words]
        cfg = core.compose_config("train", first, run_mode=RunMode.MULTIRUN)
        listed = [[*job.words, *_places(job)] for job in jobs]
        with parallel(cfg, len(jobs)):
            launcher = Plugins.instance().instantiate_launcher(
                hydra_context=HydraContext(core.config_loader, Callbacks()),
                task_function=task,
                config=cfg,
            )
            results: Sequence[JobReturn] = launcher.launch(listed, initial_job_idx=begun)
        begun += len(jobs)
        for failed in (one for one in results if one.status != JobStatus.COMPLETED):
            good = False
            if not isinstance(failed._return_value, JobFailed):
                _ = failed.return_value  # a fault of ours, which Hydra raises here
    return good


def _places(job: Job) -> list[str]:
    places = {FOLDER: job.folder, "hydra.sweep.subdir": job.subfolder, "hydra.job.name": job.name}
    return [f"{key}={value}" for key, value in places.items()]


@contextmanager
def parallel(cfg: DictConfig, jobs: int | None = None) -> Iterator[None]:
    """Inside, joblib's launcher is that of a multi-run whose settings ask for runs in parallel.

    cfg: the multi-run's, with Hydra's own; another launcher that is chosen stays
    jobs: how many there are, if known
    """
    cpu = cfg.hardware.device == "cpu" and cfg.hardware.nodes == 1 and cfg.objective is None
    at_once = cfg.parallel_runs or max(1, cores() // cfg.hardware.processes) if cpu else 1
    at_once = at_once if jobs is None else min(at_once, jobs)
    if at_once == 1 or not str(cfg.hydra.launcher["_target_"]).endswith(".BasicLauncher"):
        yield
        return
    with read_write(cfg), open_dict(cfg):
        cfg.hydra.launcher = {"_target_": JOBLIB, "n_jobs": at_once, "batch_size": 1}
    # more threads than cores would slow down all runs; joblib has a number of its own
    threads = str(max(1, cores() // (at_once * cfg.hardware.processes)))
    before = {name: os.environ.get(name) for name in (*THREADS, PARALLEL)}
    for name in THREADS:
        os.environ.setdefault(name, before[THREADS[0]] or threads)
    os.environ[PARALLEL] = str(at_once)
    print(
        f"{at_once} runs at a time, {os.environ[THREADS[0]]} threads each; what a run says is in "
        f"{OUTPUT} of its folder",
        flush=True,
    )
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]


class Multirun(Callback):
    """What -m key=a,b has besides Hydra's own; conf/train.yaml names it to Hydra."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Remember where the runs lie, and let them run in parallel where that is asked for."""
        _folders[:] = [Path(config.hydra.sweep.dir)]
        print(f"runs below {_folders[0]}", flush=True)
        # not in self, which launchers send to other processes
        _of_multirun.enter_context(parallel(config))


@contextmanager
def output_to(file: Path) -> Iterator[None]:
    """Within this context this process and those that it starts write to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    with file.open("ab") as stream:
        for number in (1, 2):
            os.dup2(stream.fileno(), number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, own in zip((1, 2), kept, strict=True):
            os.dup2(own, number)
            os.close(own)


def in_parallel() -> bool:
    """Whether this process is one of joblib's, and others work beside it."""
    return PARALLEL in os.environ


def say_begin(sweep: Sweep, jobs: Sequence[Job]) -> None:
    """Print how many runs there are, and how many are finished."""
    done = sum((job.run_dir / RECORD).exists() for job in jobs)
    seeds = len(jobs) // max(1, len({job.subfolder.rpartition("/")[0] for job in jobs}))
    counts = f"{len(jobs) // seeds} settings x {seeds} seeds"
    print(f"sweep={sweep.name}: {len(jobs)} runs ({counts}), {done} finished before", flush=True)


@contextmanager
def told_at_the_end() -> Iterator[None]:
    """Within this context the command may be a multi-run by -m, whose runs are then compared."""
    began = time.monotonic()
    try:
        yield
    finally:
        for folder in _folders:
            say_end(runs_below(folder), folder, "", began)


def say_end(run_dirs: Sequence[Path], folder: Path, mark: str, began: float) -> None:
    """Print the comparison of the runs that are finished, and write it to the sweep's folder.

    mark: what the names of the two files end with; the folder may hold runs of others
    began: by the clock of this process
    """
    if not run_dirs:  # refused before the first one
        return
    done = [d for d in run_dirs if (d / METRICS).exists() and (d / RECORD).exists()]
    minutes, rest = divmod(round(time.monotonic() - began), 60)
    print(f"\n{len(done)} of {len(run_dirs)} runs finished; {minutes}:{rest:02d} elapsed")
    if len(done) > 1:
        # pandas and scipy: only at the end
        from cory.report.compare import compared, comparison_text  # noqa: PLC0415

        table, metrics = compared(done)
        text = comparison_text(table, metrics)
        write_whole(folder / f"comparison{mark}.txt", f"{text.rstrip()}\n")
        write_whole(folder / f"comparison{mark}.csv", table.to_csv())
        print(f"\n{text}\n\nwritten to {folder / f'comparison{mark}.txt'}, every metric to .csv")
    sys.stdout.flush()


def remove_unbegun_multirun() -> None:
    """Remove the folder of a multi-run in which nothing is but Hydra's own multirun.yaml."""
    for folder in _folders:
        if [path.name for path in folder.glob("*")] == ["multirun.yaml"]:
            (folder / "multirun.yaml").unlink()
            remove_empty(folder.absolute())
    _folders.clear()


def remove_empty(folder: Path) -> None:
    """Remove an empty folder, and those above it that become empty; folder: absolute.

    Hydra makes its output folders before a job can be refused or put elsewhere. Commands that share
    a file system, as on several nodes, may remove the same ones.
    """
    with suppress(OSError):  # another command was first, or writes into it
        while folder.is_dir() and folder != Path.cwd() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent
