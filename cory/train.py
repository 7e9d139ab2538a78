"""Compose one experiment, check it, launch it. `python -m cory.train --help` lists the options."""

import gc
import signal
import sys

if __name__ == "__main__" or sys.argv[0].endswith("cory-train"):
    # until the command listens, Ctrl-C ends it without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # looking for garbage would be a quarter of the time that imports take

import os
import time
from argparse import ArgumentParser, Namespace
from contextlib import nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hydra._internal.utils import _run_hydra, get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.version import setbase
from omegaconf import DictConfig, OmegaConf

from cory.config import (
    ClassifierConfig,
    Config,
    ConfigError,
    OfflineConfig,
    PromptsConfig,
    TeamConfig,
    judges,
    parse_config,
    require,
)
from cory.config.sweep_files import key_of
from cory.models.paths import resolve
from cory.runs.run_dir import (
    OUTPUT,
    TIME,
    lock,
    prepare,
    read_record,
    require_agents,
    require_own,
    unfinished_run,
)
from cory.runs.signals import STOP_FILE, listen, saves, stop_code, stopping
from cory.runtime import sweeps
from cory.runtime.hydra_setup import (
    CONF,
    one_line_refusals,
    refuse_same_names,
    refuse_unread,
    run_name,
)
from cory.runtime.launch import (
    FINISHED,
    JobFailed,
    end_with_parent,
    launch,
    leave,
    refuse_launchers,
)


def main() -> None:
    refuse_launchers()
    parser = get_args_parser()  # Hydra's own
    # as in `seed=0 -m algorithm=ppo,grpo`
    args, unknown = parser.parse_known_intermixed_args()
    if args.help:  # Hydra itself would list all groups first
        print(OmegaConf.load(CONF / "train.yaml").hydra.help.template, end="")
        return
    os.environ["HYDRA_FULL_ERROR"] = "1"  # what Hydra would print, it raises
    with TemporaryDirectory(prefix="cory_") as folder:
        os.environ[STOP_FILE] = f"{folder}/stop"
        listen()
        code = 1
        try:
            if unknown:
                name, _, value = unknown[0].lstrip("-").partition("=")
                typed = f"{name}={value or '<value>'}"
                raise ConfigError(f"{unknown[0]}: settings are typed without dashes, as {typed}")
            with one_line_refusals(), suppress(JobFailed):
                code = 0 if compose_and_run(args, parser) else 1
        except ConfigError as error:
            if not stopping():  # else it is one of joblib's processes that was interrupted, too
                say_refusal(error)
        code = code and (stop_code() or code)  # a run that finished all the same has
    if code:
        sys.exit(code)
    if saves():  # a run has worked in this process: to take torch apart would take a second
        leave(FINISHED)


def compose_and_run(args: Namespace, parser: ArgumentParser) -> bool:
    """What the command line asks for; whether all runs finished."""
    if args.config_dir:
        refuse_same_names(Path(args.config_dir).expanduser())
    values = {key_of(word): word.partition("=")[2] for word in args.overrides}
    if "model.path" in values and not {"model", "experiment", "sweep"} & {*values}:
        args.overrides.append("model=own")  # the quickstart's values are for a tiny one
    sweep = values.get("sweep", "adhoc")
    if sweep != "adhoc" or args.multirun:
        said = "run_dir= is one folder for all runs; hydra.sweep.dir=<folder> is where they lie"
        require("run_dir" not in values, said)
        gc.enable()
    if sweep != "adhoc":
        return sweeps.run_sweep(sweep, args, job)
    with sweeps.said_at_the_end():
        setbase("1.3")
        _run_hydra(args, parser, job, str(CONF), "train")  # as `hydra.main`, with our words
    return True


def job(cfg: DictConfig) -> None:
    """One run, or one of a sweep, where JobFailed does not stop the others."""
    listen()  # where a launcher gives each job of a sweep a process of its own
    if sweeps.in_parallel():
        gc.enable()  # to joblib's processes sys.argv is that of the command
        end_with_parent()
    hydras = HydraConfig.get()
    folder = Path(hydras.runtime.output_dir)
    name = os.path.relpath(folder, hydras.sweep.dir) if hydras.mode == RunMode.MULTIRUN else ""
    try:
        if stopping():
            raise JobFailed
        run_one(cfg, name)
    except ConfigError as error:
        say_refusal(error, name)
        raise JobFailed from None
    finally:
        sweeps.remove_empty(folder)


def run_one(cfg: DictConfig, name: str) -> None:
    """A run to its end; JobFailed where it failed or was stopped, which has been printed.

    name: as its sweep calls it, empty for a single run
    """
    for key in ("run_dir", "init_from"):  # a shell leaves a ~ as it is after `run_dir=`
        if isinstance(cfg[key], str) and cfg[key].startswith("~"):
            cfg[key] = str(Path(cfg[key]).expanduser())
    config = parse_config(cfg)
    run_dir = choose_run_dir(config, cfg)
    sweeps.remove_empty(Path(HydraConfig.get().runtime.output_dir))  # it may lie in run_dir
    refuse_early(run_dir, config)
    refuse_unread(typed_words(), config)
    # nothing is written before a lock is held; of several nodes each writes the same settings
    with lock(run_dir) if config.hardware.nodes == 1 else nullcontext():
        if prepare(run_dir, cfg, typed_words()):
            work(run_dir, config, name)


def refuse_early(run_dir: Path, config: Config) -> None:
    """Refuse what can be refused without a model, by a ConfigError that names key and value.

    What needs data, lengths in tokens, weights, GPUs, or keys of endpoints, a worker refuses. A run
    that is finished needs nothing any more.
    """
    require_own(run_dir)
    if read_record(run_dir) is not None:
        return
    classifiers = {
        k: r for k, r in judges(config.reward).items() if isinstance(r, ClassifierConfig)
    }
    for key, model in (config.models | classifiers).items():
        resolve(model.path, f"{key}.path")
    task = config.task
    if isinstance(task, PromptsConfig) and task.source == "path":
        there = Path(str(task.path)).expanduser().exists()
        require(there, f"task.path={task.path}: there is no such file or folder")
    runs = {} if config.init_from is None else {"init_from": config.init_from}
    algorithm = config.algorithm
    if isinstance(algorithm, TeamConfig):
        runs |= {f"algorithm.fixed.{name}": place for name, place in algorithm.runs.items()}
    if isinstance(algorithm, OfflineConfig):
        opponents = algorithm.runs_played_against
        runs |= {f"algorithm.opponents.{name}": place for name, place in opponents.items()}
        there = not algorithm.from_file or Path(algorithm.games).expanduser().exists()
        require(there, f"algorithm.games={algorithm.games}: there is no such file")
    for key, place in runs.items():
        require_agents(Path(place), f"{key}={place}")
    there = not config.tensorboard or find_spec("tensorboard") is not None
    require(there, 'tensorboard needs the package tensorboard: pip install ".[tensorboard]"')


def work(run_dir: Path, config: Config, name: str) -> None:
    """Run what `run_dir` has the settings of; JobFailed where it does not finish."""
    if name:
        print(f"{name} begins", flush=True)
    began = time.monotonic()
    with sweeps.output_to(run_dir / OUTPUT) if sweeps.in_parallel() else nullcontext():
        # DeepSpeed starts once in a process: jobs of a sweep get their own
        finished = launch(run_dir, config.hardware, apart=bool(name))
    if name:
        how = "finished in" if finished else "stopped after" if stopping() else "failed after"
        print(f"{name} {how} {time.monotonic() - began:.0f} s", flush=True)
    if not finished:
        raise JobFailed


def choose_run_dir(config: Config, cfg: DictConfig) -> Path:
    """The directory that was named, an unfinished run with the same settings, or a new one."""
    run_dir = Path(config.run_dir)
    default = Path(HydraConfig.get().runtime.output_dir)
    if config.hardware.nodes > 1:
        require(
            run_dir != default or not any(map(TIME.match, run_dir.parts[-2:])),
            f"hardware.nodes={config.hardware.nodes} needs run_dir=<a folder that all nodes see>: "
            f"the default is named by the time, which differs between nodes",
        )
        return run_dir
    if run_dir == default:
        run_dir = unfinished_run(run_dir, cfg) or run_dir
        cfg.run_dir = str(run_dir)
    return run_dir


def typed_words() -> list[str]:
    """The words of a run: folders of the user's own options, settings, a run's name."""
    hydras = HydraConfig.get()
    sources = hydras.runtime.config_sources
    own = [f"--config-dir={one.path}" for one in sources if "command-line" in one.provider]
    # as they were typed: `${oc.env:NAME}` stays a text
    words: Any = OmegaConf.to_container(hydras.overrides.task, resolve=False)
    named = hydras.job.name != run_name(hydras.runtime.choices)
    return [*own, *words, *([f"hydra.job.name={hydras.job.name}"] if named else [])]


def say_refusal(error: ConfigError, name: str = "") -> None:
    """Print each line of a refusal; name: of the run that it is about, in a sweep."""
    for line in str(error).splitlines():
        print(f"error: {name}{': ' if name else ''}{line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    # by its name: jobs in processes of their own find the functions of this module
    from cory.train import main as named_main

    named_main()
