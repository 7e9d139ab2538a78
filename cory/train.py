"""Compose one experiment, check it, launch it. `python -m cory.train --help` lists the options."""

import signal
import sys

if __name__ == "__main__" or sys.argv[0].endswith("cory-train"):
    # until the command listens, Ctrl-C ends it without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import math
import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr
from pathlib import Path
from typing import TextIO

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]  # mypy's stubs are not installed

from cory.config import (
    Config,
    ConfigError,
    cores,
    require,
)
from cory.runs.lock import lock
from cory.runs.objective import objective_of
from cory.runs.run_dir import (
    METRICS,
    as_stored,
    is_complete,
    named_by_time,
    remove_unbegun,
    unfinished_run,
    write_settings,
)
from cory.runtime.before import parsed, refuse_early
from cory.runtime.hydra_errors import one_line
from cory.runtime.hydra_options import look_beside, own_folder, refuse_same_names
from cory.runtime.launch import JobFailed, launch, listen, stop_code, stoppable, stopping
from cory.runtime.side_by_side import SideBySide

# beside the package in a checkout, inside it in an installed wheel
_HERE = Path(__file__).resolve().parent
CONF = next(path for path in (_HERE / "conf", _HERE.parent / "conf") if path.is_dir())
# One process of several says what is wrong. A launcher ends all of them as soon as one has ended,
# so that the others must not be first.
UNTIL_SAID_S = 30

_beside = SideBySide()  # of this command, if it is a sweep

look_beside(CONF)


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="train")
def _job(cfg: DictConfig) -> float | None:
    """One run: in a sweep, called once per job; JobFailed does not stop the others.

    returns: the number that `objective` names, for sweepers that look for the best settings
    """
    listen()  # where a launcher gives each job of a sweep a process of its own
    try:
        if stopping():
            raise JobFailed
        config = parsed(cfg)
        require(
            config.sweep == "adhoc" or HydraConfig.get().mode == RunMode.MULTIRUN,
            f"sweep={config.sweep} lists no runs: its file needs 'hydra.mode: MULTIRUN' and, under "
            f"hydra.sweeper.params, the values of each run",
        )
        if config.preflight_only:
            from cory.memory import preflight  # noqa: PLC0415  torch and transformers take seconds

            preflight.print_estimate(config)
            return None
        at_once = runs_at_once(config) if _beside.busy else None
        if at_once is not None:  # before the run has a folder
            _beside.wait_for_room(config, at_once)
        run_dir = choose_run_dir(config, cfg)
        remove_empty(Path(HydraConfig.get().runtime.output_dir))  # it may lie in run_dir
        refuse_early(run_dir, config)
        # Before anything is looked at or written. Several nodes all come here: there the worker
        # that writes the records takes the lock.
        locked = lock(run_dir) if config.hardware.nodes == 1 else nullcontext()
        with ExitStack() as stack:
            held = stack.enter_context(locked)
            if not ready(run_dir, cfg):
                return objective_of(run_dir, config.objective)
            at_once = at_once or runs_at_once(config)
            if held is not None and at_once > 1:
                stack.pop_all()  # closed when the run ends
                _beside.jobs = jobs_in_all()
                _beside.start(run_dir, config, held, at_once)
                return None
            if not launch(run_dir, config.hardware, held):
                if held is not None and not stopping():
                    remove_unbegun(run_dir)
                raise JobFailed
            return objective_of(run_dir, config.objective)
    except ConfigError as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        raise JobFailed from None
    finally:
        _beside.passed += 1
        remove_empty(Path(HydraConfig.get().runtime.output_dir))


def runs_at_once(config: Config) -> int:
    """How many runs of this sweep work side by side while one with these settings does."""
    hydras = HydraConfig.get()
    # another launcher starts each job in a process of its own
    if hydras.mode != RunMode.MULTIRUN or not hydras.launcher["_target_"].endswith("BasicLauncher"):
        return 1
    if config.objective is not None:
        return 1  # a sweeper waits for the number of each run
    if config.parallel_runs is not None:
        return config.parallel_runs
    if cores() == 1 or not config.hardware.shares_cores:
        return 1
    from cory.memory import preflight  # noqa: PLC0415  as in _job

    return preflight.runs_at_once(config)


def jobs_in_all() -> int | None:
    """The number of jobs of this sweep; None where a sweeper other than Hydra's own decides."""
    sweeper = HydraConfig.get().sweeper
    if not sweeper["_target_"].endswith(".BasicSweeper"):
        return None
    listed = [f"{key}={value}" for key, value in (sweeper.get("params") or {}).items()]
    typed = [word for word in sys.argv[1:] if "=" in word and not word.startswith("-")]
    choices = {}  # a word that is typed replaces the listed one
    for word in OverridesParser.create().parse_overrides([*listed, *typed]):
        swept = word.is_sweep_override()
        choices[word.get_key_element()] = len([*word.sweep_string_iterator()]) if swept else 1
    return math.prod(choices.values())


def compose(*overrides: str) -> DictConfig:
    """The settings that these words on the command line make, without a run.

    `run_dir` is `unused` unless it is one of them.
    """
    look_beside(CONF)  # forgotten wherever Hydra's own state has been put back
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        cfg = hydra.compose("train", overrides=list(overrides), return_hydra_config=True)
    choices = cfg.hydra.runtime.choices
    # these read `${hydra:...}`, which only a run of Hydra resolves
    OmegaConf.set_struct(cfg, False)
    del cfg["hydra"]
    for group in ("experiment", "sweep", "scale"):
        cfg[group] = choices[group]
    if OmegaConf.is_interpolation(cfg, "run_dir"):
        cfg.run_dir = "unused"
    OmegaConf.set_struct(cfg, True)
    return cfg


def choose_run_dir(config: Config, cfg: DictConfig) -> Path:
    """The directory that was named, an unfinished run with the same settings, or a new one."""
    run_dir = Path(config.run_dir)
    hydras = Path(HydraConfig.get().runtime.output_dir)  # the default
    if config.hardware.nodes > 1:
        require(
            run_dir != hydras or not named_by_time(run_dir),
            f"hardware.nodes={config.hardware.nodes} needs run_dir=<a folder that all nodes see>: "
            f"the default is named by the time, which differs between nodes",
        )
        return run_dir
    before = unfinished_run(run_dir, cfg) if run_dir == hydras else None
    if before is None:
        return run_dir
    cfg.run_dir = str(before)
    return before


def ready(run_dir: Path, cfg: DictConfig) -> bool:
    """Whether there is something to do; then the settings are in the run directory."""
    if is_complete(run_dir, cfg):
        print(f"{run_dir} is complete; delete it to run it again")
        return False
    if (run_dir / METRICS).exists():
        print(f"goes on with the unfinished run in {run_dir} (delete it to start afresh)")
    write_settings(run_dir, as_stored(run_dir, cfg), typed_words())
    return True


def typed_words() -> list[str]:
    """The overrides as they were typed: `${oc.env:NAME}` stays a text, as in the settings."""
    words = OmegaConf.to_container(HydraConfig.get().overrides.task, resolve=False)
    assert isinstance(words, list)
    return list(map(str, words))


def remove_empty(folder: Path) -> None:
    """Hydra makes its output folders before a job can be refused or put elsewhere."""
    while folder.is_dir() and folder != Path.cwd() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


class WithoutHydrasLine:
    """stderr, less the line that Hydra adds to a failed job: the job has said what failed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if text.startswith("Error executing job with overrides"):
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def refuse_launchers() -> None:
    """The workers are started here; torchrun or deepspeed around it would start too many."""
    words = [word for word in sys.argv[1:] if not re.match("--local[-_]rank", word)]
    if "RANK" not in os.environ and words == sys.argv[1:]:
        return
    if os.environ.get("RANK", "0") != "0":
        time.sleep(UNTIL_SAID_S)
        sys.exit(1)
    if not any(word.startswith("hardware") for word in words):
        many = os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1"))
        words.append(f"hardware.processes={many}")
    sys.exit(
        f"error: cory.train starts its own workers, without torchrun, deepspeed or another "
        f"launcher; type: python -m cory.train {shlex.join(words)}"
    )


@contextmanager
def hydra_raises() -> Iterator[None]:
    """Inside, Hydra raises what it would print, by a variable that is as before afterwards."""
    before = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        del os.environ["HYDRA_FULL_ERROR"]
        if before is not None:
            os.environ["HYDRA_FULL_ERROR"] = before


def main() -> None:
    """The console command `cory-train`."""
    refuse_launchers()
    wants_traceback = "HYDRA_FULL_ERROR" in os.environ
    own = own_folder(sys.argv[1:])
    with hydra_raises(), stoppable(), redirect_stderr(WithoutHydrasLine(sys.stderr)):  # type: ignore[type-var]  # all that is used of it is there
        try:
            if own is not None:
                refuse_same_names(own, CONF)
            with _beside.waited_for():
                _job()
        except (JobFailed, KeyboardInterrupt):
            sys.exit(stop_code() or 1)
        # ValueError: what Hydra says to `model=null`; OSError: a folder that cannot be made
        except (HydraException, OmegaConfBaseException, YAMLError, ValueError, OSError) as error:
            if wants_traceback:
                raise
            print(f"error: {one_line(error, CONF)}", file=sys.stderr)
            sys.exit(1)


if __name__ == "__main__":
    main()
