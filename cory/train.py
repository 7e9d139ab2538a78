"""Compose one experiment, check it, launch it. `python -m cory.train --help` lists the options."""

import signal
import sys

if __name__ == "__main__" or sys.argv[0].endswith("cory-train"):
    # until the command listens, Ctrl-C ends it without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import os
from contextlib import ExitStack, nullcontext, redirect_stderr
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, read_write
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]  # mypy's stubs are not installed

from cory.config import (
    Config,
    ConfigError,
    cores,
    require,
)
from cory.runs.extension import extends
from cory.runs.lock import lock
from cory.runs.precision import register_resolver
from cory.runs.run_dir import (
    CHECKPOINTS,
    MANIFEST,
    METRICS,
    is_complete,
    named_by_time,
    remove_unbegun,
    unfinished_run,
    write_settings,
)
from cory.runs.stored_settings import SETTINGS
from cory.runs.sweeps.differences import write_varied
from cory.runs.sweeps.objective import objective_of
from cory.runtime.before import parsed, refuse_early, refuse_unread
from cory.runtime.hydra_errors import WithoutHydrasLine, hydra_raises, one_line
from cory.runtime.hydra_options import look_beside, own_folder, refuse_same_names
from cory.runtime.launch import (
    JobFailed,
    end_of_command,
    launch,
    listen,
    refuse_launchers,
    stop_code,
    stoppable,
    stopping,
)
from cory.runtime.side_by_side import SideBySide
from cory.runtime.sweeps.begin import (
    composed_job,
    keep_untrained,
    require_objective,
    say_begin,
    without_hydra,
)
from cory.runtime.sweeps.end import told_at_the_end
from cory.runtime.sweeps.folder import remove_empty, remove_unbegun_sweep
from cory.runtime.sweeps.jobs import (
    for_the_jobs,
    job_of_sweep,
    keep_typed,
    of_this_scale,
    refuse_one_folder,
    runs_here,
)
from cory.runtime.sweeps.progress import (
    BEFORE,
    FAILED,
    FINISHED,
    REFUSED,
    STOPPED,
    Job,
    Progress,
)

# beside the package in a checkout, inside it in an installed wheel
_HERE = Path(__file__).resolve().parent
CONF = next(path for path in (_HERE / "conf", _HERE.parent / "conf") if path.is_dir())
LIBRARIES = 2**29  # bytes that Python and its libraries take in every process
# of this command, if it is a sweep
_progress = Progress()
_beside = SideBySide(_progress)

look_beside(CONF)
register_resolver()


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="train")
def _job(cfg: DictConfig) -> float | None:
    """One run: in a sweep, called once per job; JobFailed does not stop the others.

    returns: the number that `objective` names, for sweepers that look for the best settings
    """
    listen()  # where a launcher gives each job of a sweep a process of its own
    job = job_of_sweep(_progress)
    if job is not None and job.number == 1:
        say_begin(_progress, HydraConfig.get().sweeper, composed_job, CONF)
    try:
        if stopping():
            raise JobFailed
        return _one_run(cfg, job)
    except ConfigError as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        if job is not None and job.ended is None:
            _progress.say_end(job, REFUSED, str(error).partition("\n")[0])
        raise JobFailed from None
    except JobFailed as error:
        if job is not None and job.began is None:
            _progress.forget(job)
        elif job is not None and job.ended is None:
            _progress.say_end(job, STOPPED if stopping() else FAILED, str(error))
        raise
    finally:
        remove_empty(Path(HydraConfig.get().runtime.output_dir))


def _one_run(cfg: DictConfig, job: Job | None) -> float | None:
    """A run, or a job of a sweep, from its settings to its end; or to its start beside others."""
    expand_home(cfg)
    if job is not None:
        stay_untrained(cfg)
    config = parsed(cfg)
    require_objective(config)
    require(
        config.sweep == "adhoc" or HydraConfig.get().mode == RunMode.MULTIRUN,
        f"sweep={config.sweep} lists no runs: its file needs 'hydra.mode: MULTIRUN' and, under "
        f"hydra.sweeper.params, the values of each run",
    )
    at_once = runs_at_once(config) if _beside.busy else None
    if at_once is not None:  # before the run has a folder
        _beside.wait_for_room(config, at_once)
    run_dir = choose_run_dir(config, cfg)
    remove_empty(Path(HydraConfig.get().runtime.output_dir))  # it may lie in run_dir
    refuse_early(run_dir, config)
    begins = not (run_dir / SETTINGS).exists()
    if begins and config.objective is None:  # a search may try what plays no part
        for line in refuse_unread(config, typed_words(), None if job is None else job.varied):
            _progress.say_once(f"note: in some runs of this sweep {line}")
    # Nothing is written before the lock is held. With several nodes each of them comes here, and
    # the worker that writes the records takes the lock.
    one_node = config.hardware.nodes == 1
    with ExitStack() as stack:
        stack.enter_context(lock(run_dir) if one_node else nullcontext())
        if not prepare_run_dir(run_dir, cfg, config, job):
            return objective_of(run_dir, config.objective)
        at_once = at_once or runs_at_once(config)
        if job is not None and one_node and at_once > 1:
            held = stack.pop_all()  # closed when the run ends
            _beside.start(job, run_dir, config, held, at_once)
            return None
        if job is not None:
            _progress.say_begin(job)
        # DeepSpeed starts once in a process: jobs of a sweep get their own
        if not launch(run_dir, config.hardware, apart=job is not None):
            if one_node and not stopping():
                remove_unbegun(run_dir)
            raise JobFailed
        if job is not None:
            _progress.say_end(job, FINISHED)
        return objective_of(run_dir, config.objective)


def stay_untrained(cfg: DictConfig) -> None:
    """In a sweep: a run that is only evaluated trains no more where iterations are typed."""
    words = typed_words()
    kept = keep_untrained(cfg, words, composed_job)
    for word in (word for word in words if word not in kept):
        _progress.say_once(
            f"note: {word} is for the runs that train; experiment={cfg.experiment} stays untrained"
        )
        hydras: Any = HydraConfig.get()
        with read_write(hydras.overrides):
            hydras.overrides.task = kept


def expand_home(cfg: DictConfig) -> None:
    """Folders of runs that begin with ~, which a shell leaves as it is after `run_dir=`."""
    for key in ("run_dir", "init_from"):
        if isinstance(cfg[key], str) and cfg[key].startswith("~"):
            cfg[key] = str(Path(cfg[key]).expanduser())


def runs_at_once(config: Config) -> int:
    """How many runs of this sweep work side by side while one with these settings does.

    As many as `parallel_runs` says, or as cores and memory allow.
    """
    hydras = HydraConfig.get()
    if hydras.mode != RunMode.MULTIRUN or not runs_here(hydras):
        return 1
    if config.objective is not None:
        return 1  # a sweeper waits for the number of each run
    if config.parallel_runs is not None:
        return config.parallel_runs
    hardware = config.hardware
    if cores() == 1 or not hardware.shares_cores:
        return 1
    from cory import memory  # noqa: PLC0415  torch and transformers take seconds

    try:
        _, most = memory.peak(memory.parts_of(config))
    except ConfigError:
        return 1  # its worker refuses it
    by_memory = int(memory.WARN_ABOVE * memory.main_memory()) // (most + LIBRARIES)
    return max(1, min(cores(), by_memory) // hardware.processes)


def compose(*overrides: str) -> DictConfig:
    """The settings that these words on the command line make, without a run.

    `run_dir` is `unused` unless it is one of them.
    """
    look_beside(CONF)  # forgotten wherever Hydra's own state has been put back
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        cfg = hydra.compose("train", overrides=list(overrides), return_hydra_config=True)
    return without_hydra(cfg)


def compose_or_refuse(*overrides: str) -> DictConfig:
    """As `compose`; ConfigError, in one line, where Hydra refuses."""
    try:
        return compose(*overrides)
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError, OSError) as error:
        raise ConfigError(one_line(error, CONF, overrides)) from error


def choose_run_dir(config: Config, cfg: DictConfig) -> Path:
    """The directory that was named, an unfinished run with the same settings, or a new one."""
    run_dir = Path(config.run_dir)
    default = Path(HydraConfig.get().runtime.output_dir)
    if config.hardware.nodes > 1:
        require(
            run_dir != default or not named_by_time(run_dir),
            f"hardware.nodes={config.hardware.nodes} needs run_dir=<a folder that all nodes see>: "
            f"the default is named by the time, which differs between nodes",
        )
        return run_dir
    before = unfinished_run(run_dir, cfg) if run_dir == default else None
    if before is None:
        return run_dir
    cfg.run_dir = str(before)
    return before


def prepare_run_dir(run_dir: Path, cfg: DictConfig, config: Config, job: Job | None) -> bool:
    """Write the settings into the run directory; False where the run is complete."""
    if job is not None:
        job.run_dir = run_dir
    earlier = extends(run_dir, cfg, config)
    if is_complete(run_dir, cfg, earlier is not None):
        print(f"{run_dir} is complete; delete it to run it again")
        if job is not None:
            _progress.say_end(job, BEFORE)
        return False
    if earlier is not None:
        total = config.algorithm.iterations
        print(f"{run_dir}: the run of {earlier} iterations goes on to {total}")
    elif any((run_dir / CHECKPOINTS).glob(f"*/{MANIFEST}")):
        print(f"goes on with the unfinished run in {run_dir} (delete it to start afresh)")
    elif (run_dir / METRICS).exists():
        print(f"begins the run in {run_dir} anew: it ended before its first checkpoint")
    write_settings(run_dir, cfg, [*with_folder(own_folder(sys.argv[1:])), *typed_words()])
    if job is not None:
        write_varied(run_dir, job.varied)
    return True


def with_folder(own: Path | None) -> list[str]:
    """The option that names a folder of the user's own options, wherever the command is typed."""
    return [] if own is None else [f"--config-dir={own.expanduser().absolute()}"]


def typed_words() -> list[str]:
    """The overrides as they were typed: `${oc.env:NAME}` stays a text, as in the settings."""
    words = OmegaConf.to_container(HydraConfig.get().overrides.task, resolve=False)
    assert isinstance(words, list)
    return list(map(str, words))


def main() -> None:
    """The console command `cory-train`."""
    refuse_launchers()
    wants_traceback = "HYDRA_FULL_ERROR" in os.environ
    own = own_folder(sys.argv[1:])
    with hydra_raises(), stoppable(), redirect_stderr(WithoutHydrasLine(sys.stderr)):  # type: ignore[type-var]  # all that is used of it is there
        try:
            sys.argv[1:] = of_this_scale(sys.argv[1:], [CONF] if own is None else [CONF, own])
            keep_typed(sys.argv[1:])
            if own is not None:
                refuse_same_names(own, CONF)
            refuse_one_folder(sys.argv[1:])
            sys.argv[1:] = for_the_jobs(sys.argv[1:])
            with told_at_the_end(_progress), _beside.waited_for():
                _job()
        except (JobFailed, KeyboardInterrupt):
            remove_unbegun_sweep()
            sys.exit(stop_code() or 1)
        # ValueError: what Hydra says to `model=null`; OSError: a folder that cannot be made
        except (HydraException, OmegaConfBaseException, YAMLError, ValueError, OSError) as error:
            remove_unbegun_sweep()
            if wants_traceback:
                raise
            print(f"error: {one_line(error, CONF)}", file=sys.stderr)
            sys.exit(1)
    end_of_command()


if __name__ == "__main__":
    main()
