"""Compose one experiment, check it, launch it. `python -m cory.train --help` lists the options."""

import signal
import sys

if __name__ == "__main__" or sys.argv[0].endswith("cory-train"):
    # until the command listens, Ctrl-C ends it without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import math
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, nullcontext, redirect_stderr
from pathlib import Path

import hydra
import yaml  # type: ignore[import-untyped]  # mypy's stubs are not installed
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cory.config import Config, ConfigError, nearest, plug_in_folders, read_sweep, require
from cory.config.names import LOADER, key_of, merged
from cory.runs.differences import write_varied
from cory.runs.precision import register_resolver
from cory.runs.run_dir import (
    OUTPUT,
    lock,
    named_by_time,
    prepare,
    read_record,
    remove_unbegun,
    unfinished_run,
)
from cory.runs.settings import SETTINGS
from cory.runtime import sweeps
from cory.runtime.before import parsed, refuse_early, refuse_unread
from cory.runtime.hydra_setup import (
    WithoutHydrasLine,
    hydra_raises,
    in_one_word,
    look_beside,
    one_line,
    own_folder,
    refuse_same_names,
)
from cory.runtime.launch import (
    JobFailed,
    end_of_command,
    end_with_parent,
    launch,
    listen,
    refuse_launchers,
    stop_code,
    stoppable,
    stopping,
)

# beside the package in a checkout, inside it in an installed wheel
_HERE = Path(__file__).resolve().parent
CONF = next(path for path in (_HERE / "conf", _HERE.parent / "conf") if path.is_dir())
# ValueError: what Hydra says to `model=null`; OSError: a folder that cannot be made
HYDRAS = (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, OSError)

NAME = "hydra.job.name"

look_beside(CONF)
register_resolver()


def job(cfg: DictConfig) -> float | None:
    """One run, or one of a sweep, where JobFailed does not stop the others.

    returns: the number that `objective` names, for sweepers that look for the best settings
    """
    listen()  # where a launcher gives each job of a sweep a process of its own
    hydras = HydraConfig.get()
    of_sweep = hydras.mode == RunMode.MULTIRUN
    if sweeps.in_parallel():
        end_with_parent()
    name = sweeps.name_of(sweeps.varied(hydras)) if of_sweep else ""
    try:
        if stopping():
            raise JobFailed
        return _one_run(cfg, name)
    except ConfigError as error:
        for line in str(error).splitlines():
            print(f"error: {name}{': ' if name else ''}{line}", file=sys.stderr, flush=True)
        raise JobFailed from None
    finally:
        sweeps.remove_empty(Path(hydras.runtime.output_dir))


def _one_run(cfg: DictConfig, name: str) -> float | None:
    """A run from its settings to its end; name: as its sweep calls it, empty for a single run."""
    hydras = HydraConfig.get()
    expand_home(cfg)
    config = parsed(cfg)
    varied = sweeps.varied(hydras) if hydras.mode == RunMode.MULTIRUN else None
    run_dir = choose_run_dir(config, cfg)
    sweeps.remove_empty(Path(hydras.runtime.output_dir))  # it may lie in run_dir
    refuse_early(run_dir, config)
    if not (run_dir / SETTINGS).exists() and config.objective is None:
        # a search may try what plays no part
        for line in refuse_unread(config, asked_words(), varied):
            print(f"note: {name}: {line}", flush=True)
    # Nothing is written before the lock is held. With several nodes each of them comes here, and
    # the worker that writes the records takes the lock.
    one_node = config.hardware.nodes == 1
    with lock(run_dir) if one_node else nullcontext():
        if not prepare(run_dir, cfg, config, [*own_words(), *typed_words()]):
            return objective_of(run_dir, config.objective)
        if varied is not None:
            write_varied(run_dir, varied)
            print(f"{name} begins", flush=True)
        began = time.monotonic()
        alone = not sweeps.in_parallel()
        with nullcontext() if alone else sweeps.output_to(run_dir / OUTPUT):
            # DeepSpeed starts once in a process: jobs of a sweep get their own
            finished = launch(run_dir, config.hardware, apart=varied is not None)
        if name:
            how = "finished in" if finished else "stopped after" if stopping() else "failed after"
            print(f"{name} {how} {time.monotonic() - began:.0f} s", flush=True)
        if not finished:
            if not alone:  # why it failed went to a file
                for line in (run_dir / OUTPUT).read_text(errors="replace").splitlines():
                    if line.startswith(("error: ", "interrupted; ")):
                        print(line, file=sys.stderr, flush=True)
            if one_node and not stopping():
                remove_unbegun(run_dir)
            raise JobFailed
        return objective_of(run_dir, config.objective)


def expand_home(cfg: DictConfig) -> None:
    """Folders of runs that begin with ~, which a shell leaves as it is after `run_dir=`."""
    for key in ("run_dir", "init_from"):
        if isinstance(cfg[key], str) and cfg[key].startswith("~"):
            cfg[key] = str(Path(cfg[key]).expanduser())


def compose(*overrides: str) -> DictConfig:
    """The settings that these words on the command line make, without a run.

    `run_dir` is `unused` unless it is one of them.
    """
    look_beside(CONF)  # forgotten wherever Hydra's own state has been put back
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return composed(*overrides)


def composed(*overrides: str) -> DictConfig:
    """As `compose`, where Hydra is initialised."""
    cfg = hydra.compose("train", overrides=list(overrides), return_hydra_config=True)
    hydras = cfg.hydra
    # these read `${hydra:...}`, which only a run of Hydra resolves
    OmegaConf.set_struct(cfg, False)
    cfg.experiment = hydras.job.name
    for group in ("scale", "fidelity"):
        cfg[group] = hydras.runtime.choices[group]
    if OmegaConf.is_interpolation(cfg, "run_dir"):
        cfg.run_dir = "unused"
    del cfg["hydra"]
    OmegaConf.set_struct(cfg, True)
    return cfg


@contextmanager
def one_line_refusals(words: Sequence[str]) -> Iterator[None]:
    """Inside, what Hydra refuses of these words is a ConfigError in one line."""
    try:
        yield
    except HYDRAS as error:
        raise ConfigError(one_line(error, CONF, words)) from error


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


def own_words() -> list[str]:
    """The option that names a folder of the user's own options, wherever the command is typed."""
    own = own_folder(sweeps.typed())
    return [] if own is None else [f"--config-dir={own.expanduser().absolute()}"]


def objective_of(run_dir: Path, metric: str | None) -> float | None:
    """The last value of a metric that a finished run logged; None where none is named.

    ConfigError for a metric that the run does not have, and for a value that is not finite.
    """
    if metric is None:
        return None
    final = (read_record(run_dir) or {}).get("final", {})
    require(
        metric in final,
        f"objective={metric} is no metric of the run in {run_dir}{nearest(metric, sorted(final))}",
    )
    value = float(final[metric])
    require(
        math.isfinite(value),
        f"objective={metric} of the run in {run_dir} is {value}, not a number",
    )
    return value


def typed_words() -> list[str]:
    """The overrides of a run: `${oc.env:NAME}` stays a text, as in the settings.

    Of a run in conf/sweeps also the word that names it.
    """
    words = OmegaConf.to_container(HydraConfig.get().overrides.task, resolve=False)
    assert isinstance(words, list)
    named = [word for word in HydraConfig.get().overrides.hydra if key_of(word) == NAME]
    return [*map(str, words), *named[-1:]]


def asked_words() -> list[str]:
    """Of a run's words those that were typed; not all runs read what their sweep lists."""
    keys = {key_of(word) for word in sweeps.typed()}
    return [word for word in typed_words() if key_of(word) in keys]


def run_sweep(words: list[str], own: Path | None) -> bool:
    """Run the jobs of `sweep=<file>/<entry>`; whether all finished."""
    settings = merged([*filter(sweeps.is_setting, words)])
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
    jobs = sweeps.jobs_of(sweep, settings)

    def composed_job(*typed: str) -> DictConfig:
        with one_line_refusals(typed):
            return composed(*search, *typed)

    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        stages = sweeps.in_stages(jobs, composed_job)
        sweeps.say_begin(sweep, jobs)
        began = time.monotonic()
        try:
            return sweeps.run_stages(stages, hydras, job)
        finally:
            sweeps.say_end([job.run_dir for job in jobs], jobs[0].folder, sweep.mark, began)


def say_help() -> None:
    """Print what conf/train.yaml says of the command; Hydra itself would list all groups first."""
    settings = yaml.load((CONF / "train.yaml").read_text(encoding="utf-8"), LOADER)
    print(settings["hydra"]["help"]["template"], end="")


def main() -> None:
    """The console command `cory-train`."""
    refuse_launchers()
    words = sys.argv[1:] = in_one_word(sys.argv[1:])
    if {"--help", "-h"} & {*words}:
        say_help()
        return
    wants_traceback = "HYDRA_FULL_ERROR" in os.environ
    own = own_folder(words)
    named = any(w.startswith("sweep=") and w != f"sweep={sweeps.ADHOC}" for w in words)
    code = 0
    with hydra_raises(), stoppable(), redirect_stderr(WithoutHydrasLine(sys.stderr)):  # type: ignore[type-var]  # all that is used of it is there
        sweeps.keep_typed(words)
        try:
            if own is not None:
                refuse_same_names(own, CONF)
            multirun = {"-m", "--multirun"} & {*words}
            one_folder = [w for w in words if key_of(w) == "run_dir" and "," not in w]
            require(
                not (multirun and one_folder),
                f"{' '.join(one_folder)} is one folder for all runs; hydra.sweep.dir=<folder> is "
                "where they lie",
            )
            if named:
                code = 0 if run_sweep(words, own) else 1
            else:
                run = hydra.main(version_base="1.3", config_path=str(CONF), config_name="train")(
                    job
                )
                with sweeps.told_at_the_end():
                    run()
        except (JobFailed, KeyboardInterrupt):
            code = 1
        except HYDRAS as error:
            code = 1
            if wants_traceback:
                raise
            print(f"error: {one_line(error, CONF)}", file=sys.stderr)
        except BrokenExecutor:  # one of joblib's processes is gone
            code = 1
            if not stopping():  # else it was interrupted like this one
                print(
                    "error: a process that ran jobs has ended: killed by hand, or memory ran out; "
                    "the same command goes on",
                    file=sys.stderr,
                )
        finally:
            sweeps.remove_unbegun_multirun()
        code = stop_code() or code
    if code:
        sys.exit(code)
    end_of_command()


if __name__ == "__main__":
    # by its name: jobs in processes of their own find the functions of this module
    from cory.train import main as named_main

    named_main()
