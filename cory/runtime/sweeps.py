"""Many runs by one command: the runs of conf/sweeps as jobs of Hydra's launchers, and -m key=a,b.

A job is one run, listed as the words that one would type for it. It starts its worker in a process
of its own, and a failed one stops no other.
"""

import hashlib
import os
import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from graphlib import TopologicalSorter
from multiprocessing import current_process
from pathlib import Path
from typing import Any, NamedTuple

import hydra
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from cory.config import ConfigError, cores, parse_config, read_sweep, require
from cory.config.sweep_files import RUN, Sweep, key_of, merged
from cory.runs.files import write_whole
from cory.runs.run_dir import METRICS, OUTPUT, RECORD, runs_below
from cory.runtime.hydra_setup import CONF, composed
from cory.runtime.launch import JobFailed

JOBLIB = "hydra_plugins.hydra_joblib_launcher.joblib_launcher.JoblibLauncher"
FOLDER = "hydra.sweep.dir"
LONGEST = 120  # characters of a folder's name
# what else has no place in it: init_from=<folder> is read by Hydra, to which = and , mean more
IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]")
STARTS_FROM = re.compile(r"\$\{run:([^}]+)\}")  # how settings name the folder of another run

_multirun: list[Path] = []  # the folder of this command's multi-run by -m


class Job(NamedTuple):
    name: str  # of the run, as in folders and pages
    words: list[str]
    place: str  # of its folder in that of the sweep, as cory/imdb_ppo/seed0


def run_sweep(name: str, args: Namespace, task: Callable[[DictConfig], Any]) -> bool:
    """Run the jobs of a sweep by its name, <file>/<entry>; task: runs one; whether all finished."""
    require(
        not args.cfg and not args.info,
        "--cfg and --info are for one run: type its words, as conf/sweeps lists them",
    )
    hydras = [word for word in args.overrides if key_of(word).startswith("hydra")]
    values = {key_of(word): word.partition("=")[2] for word in args.overrides}
    words = [w for w in merged(args.overrides) if w not in hydras and key_of(w) != "only"]
    only = values["only"].split(",") if "only" in values else []
    folders = [CONF]
    if args.config_dir:
        folders.insert(1, Path(args.config_dir).expanduser().absolute())
        hydras.insert(0, f"hydra.searchpath=[{quoted(f'file://{folders[1]}')}]")
    sweep = read_sweep(name, values.get("scale", "paper"), folders, only)
    jobs = jobs_of(sweep, words)
    form = {key: values.get(key, "paper") for key in ("scale", "fidelity")}
    folder = Path(RUN.partition("/{name}")[0].format(**form))
    for word in OverridesParser.create().parse_overrides(hydras):
        if word.key_or_group == FOLDER:
            folder = Path(str(word.value()))  # without quotes
    run_dirs = [folder / job.place for job in jobs]
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        stages = in_stages(jobs, lambda *job: composed(*hydras, *job))
        require(
            len(stages) == 1 or FOLDER not in values,
            f"{FOLDER}: runs of sweep={name} start from others of it, which they look for in their "
            f"standard folders",
        )
        done = sum((run_dir / RECORD).exists() for run_dir in run_dirs)
        print(f"sweep={name}: {len(jobs)} runs, {done} finished before", flush=True)
        began = time.monotonic()
        try:
            return run_stages(stages, [*hydras, f"{FOLDER}={quoted(str(folder))}"], task)
        finally:
            say_end(run_dirs, folder, began, f"_{name.replace('/', '-')}")


def quoted(text: str) -> str:
    """A text as Hydra reads it on the command line, whatever characters it has."""
    return "'" + re.sub(r"(\\*)'", r"\1\1\'", text) + "'"


def jobs_of(sweep: Sweep, words: Sequence[str]) -> list[Job]:
    """A job for every run and seed.

    words: settings typed beside `sweep=`, which replace those of the runs; of them only the seed
        may have several values
    """
    seeds = [str(seed) for seed in sweep.seeds]
    for word in OverridesParser.create().parse_overrides(list(words)):
        key, several = word.key_or_group, word.is_sweep_override()
        require(
            key == "seed" or not several,
            f"{word.input_line}: a sweep has one value of each setting but the seed; type it once "
            f"for each, with another {FOLDER}",
        )
        if key == "seed":
            seeds = list(word.sweep_string_iterator()) if several else [str(word.value())]
    return [
        Job(name, merged(run, words, [f"seed={seed}"]), f"{name}/seed{seed}")
        for name, run in sweep.runs.items()
        for seed in seeds
    ]


def folder_name(words: str) -> str:
    """What varies as the name of a folder: `algorithm.kl_coef-0.3_seed-0`; `0` where nothing does.

    What a name cannot hold as it is ends with a hash, so that no two become the same.
    """
    name = IN_NAMES.sub("-", words)[:LONGEST]
    whole = name == words
    return (name if whole else f"{name}-{hashlib.sha256(words.encode()).hexdigest()[:8]}") or "0"


def in_stages(jobs: Sequence[Job], compose: Callable[..., DictConfig]) -> list[list[Job]]:
    """The jobs in the order in which they can run: those that others start from come first.

    compose: the settings that words make; ConfigError where one of the runs cannot be
    """
    first = {job.name: job for job in reversed(jobs)}
    order: TopologicalSorter[str] = TopologicalSorter()
    for name, job in first.items():
        cfg = compose(*job.words)
        try:
            parse_config(cfg)
        except ConfigError as error:
            lines = str(error).splitlines()
            raise ConfigError("\n".join(f"{name}: {line}" for line in lines)) from None
        order.add(name, *({*STARTS_FROM.findall(OmegaConf.to_yaml(cfg))} & first.keys() - {name}))
    order.prepare()
    stages = []
    while order.is_active():
        ready = order.get_ready()
        stages.append([job for job in jobs if job.name in ready])
        order.done(*ready)
    return stages


def run_stages(
    stages: Sequence[Sequence[Job]], words: Sequence[str], task: Callable[[DictConfig], Any]
) -> bool:
    """Hand the jobs to the launcher that is chosen, stage by stage; whether all finished.

    words: Hydra's own, as hydra/launcher=<launcher>; Hydra is initialised
    """
    core = GlobalHydra.instance().hydra
    assert core is not None
    first = ["hydra.mode=MULTIRUN", *words, *stages[0][0].words]
    cfg = core.compose_config("train", first, run_mode=RunMode.MULTIRUN)
    results: list[JobReturn] = []
    run_in_parallel(cfg, sum(map(len, stages)))
    context = HydraContext(core.config_loader, Callbacks())
    launcher = Plugins.instance().instantiate_launcher(
        hydra_context=context, task_function=task, config=cfg
    )
    for jobs in stages:
        listed = [
            [*job.words, f"hydra.sweep.subdir={job.place}", f"hydra.job.name={job.name}"]
            for job in jobs
        ]
        results += launcher.launch(listed, initial_job_idx=len(results))
    failed = [one for one in results if one.status != JobStatus.COMPLETED]
    for one in failed:
        if not isinstance(one._return_value, JobFailed):
            raise one._return_value  # a fault of ours
    return not failed


def value_of(job: JobReturn) -> None:
    """Raises what a job raised, which Hydra's own property prints before."""
    if job.status != JobStatus.COMPLETED:
        raise job._return_value


class Multirun(Callback):
    """What -m key=a,b has besides Hydra's own; conf/train.yaml names it to Hydra."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Name the folder of a job by what varies, and let jobs run in parallel where asked to."""
        typed: Any = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
        words = OverridesParser.create().parse_overrides(typed)
        varied = {word.key_or_group for word in words if word.is_sweep_override()}
        fixed = {word.key_or_group for word in words} - varied
        excluded = ",".join(f"'{key}'" for key in sorted(fixed))
        with read_write(config), open_dict(config):
            config.hydra.overrides.hydra.append(
                f"hydra.job.config.override_dirname.exclude_keys=[{excluded}]"
            )
        _multirun[:] = [Path(config.hydra.sweep.dir)]
        print(f"runs below {_multirun[0]}", flush=True)
        run_in_parallel(config)


def run_in_parallel(cfg: DictConfig, jobs: int | None = None) -> None:
    """Choose joblib's launcher for a multi-run whose settings ask for runs in parallel.

    cfg: the multi-run's, with Hydra's own; another launcher that is chosen stays
    jobs: how many there are, if known
    """
    cpu = cfg.hardware.device == "cpu" and cfg.hardware.nodes == 1
    at_once = cfg.parallel_runs or max(1, cores() // cfg.hardware.processes) if cpu else 1
    at_once = at_once if jobs is None else min(at_once, jobs)
    if at_once == 1 or not str(cfg.hydra.launcher["_target_"]).endswith(".BasicLauncher"):
        return
    with read_write(cfg), open_dict(cfg):
        cfg.hydra.launcher = {"_target_": JOBLIB, "n_jobs": at_once, "batch_size": 1}
    # more threads than cores would slow down all runs; joblib has a number of its own
    threads = str(max(1, cores() // (at_once * cfg.hardware.processes)))
    threads = os.environ.setdefault("OMP_NUM_THREADS", threads)
    os.environ.setdefault("MKL_NUM_THREADS", threads)
    print(
        f"{at_once} runs at a time, {threads} threads each; what a run prints is in {OUTPUT} of "
        f"its folder",
        flush=True,
    )


def in_parallel() -> bool:
    """Whether this process is one of joblib's, and others work beside it."""
    return "Loky" in current_process().name


@contextmanager
def output_to(file: Path) -> Iterator[None]:
    """Within this context what this process and those that it starts print goes to a file."""
    kept = os.dup(1)
    with file.open("ab") as stream:
        os.dup2(stream.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def said_at_the_end() -> Iterator[None]:
    """Within this context the command may be a multi-run by -m, whose runs are then compared."""
    began = time.monotonic()
    _multirun.clear()
    try:
        yield
    finally:
        for folder in _multirun:
            if runs := runs_below(folder):
                say_end(runs, folder, began)
            else:  # all were refused
                (folder / "multirun.yaml").unlink(missing_ok=True)
                remove_empty(folder.absolute())


def say_end(run_dirs: Sequence[Path], folder: Path, began: float, mark: str = "") -> None:
    """Print the comparison of the runs that are finished, and write it to the sweep's folder.

    began: by the clock of this process
    mark: what the names of the two files end with; the folder may hold runs of others
    """
    done = [d for d in run_dirs if (d / METRICS).exists() and (d / RECORD).exists()]
    minutes, rest = divmod(round(time.monotonic() - began), 60)
    print(f"\n{len(done)} of {len(run_dirs)} runs finished; {minutes}:{rest:02d} elapsed")
    if len(done) > 1:
        # pandas and scipy: only at the end
        from cory.report.compare import compared, comparison_text, remarks  # noqa: PLC0415

        table, metrics = compared(done)
        text = f"{comparison_text(table, metrics)}\n\n{remarks(done)}".rstrip()
        write_whole(folder / f"comparison{mark}.txt", f"{text}\n")
        write_whole(folder / f"comparison{mark}.csv", table.to_csv())
        print(f"\n{text}\n\nwritten to {folder / f'comparison{mark}.txt'}, every metric to .csv")
    sys.stdout.flush()


def remove_empty(folder: Path) -> None:
    """Remove an empty folder, and those above it that become empty; folder: absolute.

    Hydra makes its output folders before a job can be refused or put elsewhere. Commands that share
    a file system, as on several nodes, may remove the same ones.
    """
    with suppress(OSError):  # another command was first, or writes into it
        while folder.is_dir() and folder != Path.cwd() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent


JobReturn.return_value = JobReturn.return_value.getter(value_of)  # type: ignore[method-assign,attr-defined]
# for hydra.sweep.subdir
OmegaConf.register_new_resolver("folder_name", folder_name, replace=True)
