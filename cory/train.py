"""Compose one experiment, check it, launch it. `python -m cory.train --help` lists the options."""

import signal
import sys

if __name__ == "__main__" or sys.argv[0].endswith("cory-train"):
    # until the command listens, Ctrl-C ends it without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import os
import time
from concurrent.futures import BrokenExecutor
from contextlib import nullcontext, redirect_stderr
from pathlib import Path

import hydra
import yaml  # type: ignore[import-untyped]  # mypy's stubs are not installed
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from cory.config import Config, ConfigError, require
from cory.config.names import LOADER, key_of
from cory.runs.differences import write_varied
from cory.runs.run_dir import (
    OUTPUT,
    lock,
    named_by_time,
    objective_of,
    prepare,
    remove_unbegun,
    unfinished_run,
)
from cory.runs.settings import SETTINGS
from cory.runs.signals import listen, stop_code, stoppable, stopping
from cory.runtime import sweeps
from cory.runtime.hydra_setup import (
    CONF,
    HYDRAS,
    WithoutHydrasLine,
    expand_home,
    hydra_raises,
    one_line,
    refuse_same_names,
)
from cory.runtime.launch import (
    JobFailed,
    end_of_command,
    end_with_parent,
    launch,
    refuse_launchers,
)
from cory.runtime.refusals import parsed, refuse_early, refuse_unread
from cory.runtime.varied import ADHOC, name_of, varied_of
from cory.runtime.words import (
    asked_words,
    in_one_word,
    keep_typed,
    own_folder,
    own_words,
    typed_words,
)


def job(cfg: DictConfig) -> float | None:
    """One run, or one of a sweep, where JobFailed does not stop the others.

    returns: the number that `objective` names, for sweepers that look for the best settings
    """
    listen()  # where a launcher gives each job of a sweep a process of its own
    hydras = HydraConfig.get()
    of_sweep = hydras.mode == RunMode.MULTIRUN
    if sweeps.in_parallel():
        end_with_parent()
    name = name_of(varied_of(hydras)) if of_sweep else ""
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
    varied = varied_of(hydras) if hydras.mode == RunMode.MULTIRUN else None
    run_dir = choose_run_dir(config, cfg)
    sweeps.remove_empty(Path(hydras.runtime.output_dir))  # it may lie in run_dir
    refuse_early(run_dir, config)
    if not (run_dir / SETTINGS).exists() and config.objective is None:
        # a search may try what plays no part
        for line in refuse_unread(config, asked_words(), varied):
            print(f"note: {name}: {line}", flush=True)
    # with several nodes each of them comes here
    one_node = config.hardware.nodes == 1
    with lock(run_dir) if one_node else nullcontext():
        if not prepare(run_dir, cfg, config, [*own_words(), *typed_words()]):
            return objective_of(run_dir, config.objective)
    if varied is not None:
        write_varied(run_dir, varied)
        print(f"{name} begins", flush=True)
    began = time.monotonic()
    alone, output = not sweeps.in_parallel(), run_dir / OUTPUT
    before = output.stat().st_size if output.exists() else 0
    with nullcontext() if alone else sweeps.output_to(output):
        # DeepSpeed starts once in a process: jobs of a sweep get their own
        finished = launch(run_dir, config.hardware, apart=varied is not None)
    if name:
        how = "finished in" if finished else "stopped after" if stopping() else "failed after"
        print(f"{name} {how} {time.monotonic() - began:.0f} s", flush=True)
    if not finished:
        if not alone:  # why it failed went to a file
            said = output.read_bytes()[before:].decode(errors="replace").splitlines()
            why = [line for line in said if line.startswith(("error: ", "interrupted; "))]
            for line in why or [f"error: {name}: {output} has what it said"]:
                print(line, file=sys.stderr, flush=True)
        if one_node and not stopping():
            remove_unbegun(run_dir)
        raise JobFailed
    return objective_of(run_dir, config.objective)


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
    named = any(w.startswith("sweep=") and w != f"sweep={ADHOC}" for w in words)
    code = 0
    with hydra_raises(), stoppable(), redirect_stderr(WithoutHydrasLine(sys.stderr)):  # type: ignore[type-var]  # all that is used of it is there
        keep_typed(words)
        try:
            if own is not None:
                refuse_same_names(own)
            multirun = {"-m", "--multirun"} & {*words}
            one_folder = [w for w in words if key_of(w) == "run_dir" and "," not in w]
            require(
                not (multirun and one_folder),
                f"{' '.join(one_folder)} is one folder for all runs; hydra.sweep.dir=<folder> is "
                "where they lie",
            )
            if named:
                code = 0 if sweeps.run_sweep(words, own, job) else 1
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
            print(f"error: {one_line(error)}", file=sys.stderr)
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
        code = code and (stop_code() or code)  # a run that finished all the same has
    if code:
        sys.exit(code)
    end_of_command()


if __name__ == "__main__":
    # by its name: jobs in processes of their own find the functions of this module
    from cory.train import main as named_main

    named_main()
